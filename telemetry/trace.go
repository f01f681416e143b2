package telemetry

import (
	"context"
	"errors"

	"github.com/weir-go/ratelimit/core"
)

// Trace returns a trace for [core.WithTrace] that reports the work of stores and limiters: batches and breakers of Redis,
// denials that a denial cache repeats, waits, places, leases of hot keys and, with [Options.Checks], decisions. Give it
// to [core.Open], or to [core.NewRedis]. It knows nothing of requests, so that its reports have no exemplars and no
// spans.
func (r *Reporter) Trace() core.Trace {
	background := context.Background()
	return core.Trace{
		Decided: r.checked(background),
		Batch:   func(batch core.Batch) { r.sent(background, &batch) },
		Breaker: func(address, state string) {
			r.servers.of(background, r.instruments.servers, address).turn(background, r.instruments.servers, state)
		},
		Repeated: func() { r.instruments.denialCacheHits.Add(background, 1) },
		Wait:     func(wait core.Wait) { r.waited(background, &wait) },
		Waiting: func(limit core.Limit, change int) {
			r.instruments.placesWaiting.Add(background, int64(change), r.policies.of(limit.Name(), limit).counted...)
		},
		Held: func(held core.Held) { r.placesTaken(background, &held) },
		Reclaimed: func(limit core.Limit) {
			p, counter := r.policies.of(limit.Name(), limit), r.instruments.reservationsReturned
			if p.places {
				counter = r.instruments.placesReclaimed
			}
			counter.Add(background, 1, p.counted...)
		},
		Renewal: func(renewal core.Renewal) { r.renewed(background, &renewal) },
		Leased:  func(leased core.Leased) { r.leaseEnded(background, &leased) },
	}
}

// checked returns the function that reports checks that charge something, or nil if none are to be reported. Of
// alternatives it reports the one that counts.
func (r *Reporter) checked(ctx context.Context) func(core.Decided) {
	if !r.checks {
		return nil
	}
	return func(d core.Decided) {
		p := r.policies.of(d.Limit.Name(), d.Limit)
		switch {
		case d.Mode != core.Charge && d.Mode != core.OnDenial, d.Decision.Waived:
		case d.Err != nil:
			r.instruments.checks.Add(ctx, 1, p.failed(errored, core.FailureOf(d.Err), 0)...)
		case d.Decision.Degraded: // a shadow that alone was not answered
			r.instruments.checks.Add(ctx, 1, p.decided[errored]...)
		default:
			r.instruments.checks.Add(ctx, 1, p.decided[outcomeOf(d.Decision.Allowed, d.Shadow)]...)
		}
	}
}

// outcomeOf returns the outcome of a check.
func outcomeOf(passes, shadow bool) outcome {
	switch {
	case passes && shadow:
		return shadowAllowed
	case shadow:
		return shadowDenied
	case passes:
		return allowed
	}
	return denied
}

// leaseEnded reports the fate of a lease's units, and how much the lease has admitted too much.
func (r *Reporter) leaseEnded(ctx context.Context, leased *core.Leased) {
	p := r.policies.of(leased.Limit.Name(), leased.Limit)
	for _, one := range [...]struct {
		fate  string
		units int
	}{{"spent", leased.Spent}, {"returned", leased.Returned}, {"lapsed", leased.Lapsed}} {
		if one.units > 0 {
			r.instruments.leasedUnits.Add(ctx, int64(one.units), added(p.name, p.algorithm, fateKey.String(one.fate))...)
		}
	}
	how := recorded(p.name, p.algorithm)
	r.instruments.leasedOver.Record(ctx, float64(leased.Late)/float64(leased.Limit.Capacity()), how...)
	r.instruments.leasedTolerance.Record(ctx, leased.Over, how...)
}

// placesTaken reports places that were taken or given back.
func (r *Reporter) placesTaken(ctx context.Context, held *core.Held) {
	p := r.policies.of(held.Limit.Name(), held.Limit)
	r.instruments.placesHeld.Add(ctx, int64(held.Units), p.counted...)
	if held.Units < 0 {
		how := kept
		if held.Err != nil {
			how = lost
		}
		r.instruments.placesHoldDuration.Record(ctx, held.Elapsed.Seconds(), recorded(p.name, p.algorithm, leaseKey.String(how))...)
	}
}

// The fates of a lease.
const (
	kept       = "kept"
	lost       = "lost"
	unanswered = "unanswered"
)

// renewed reports leases that were to be renewed.
func (r *Reporter) renewed(ctx context.Context, renewal *core.Renewal) {
	for _, one := range [...]struct {
		what  string
		count int
	}{{kept, renewal.Held}, {lost, renewal.Lost}, {unanswered, renewal.Unanswered}} {
		if one.count > 0 {
			r.instruments.placesRenewals.Add(ctx, int64(one.count), added(leaseKey.String(one.what))...)
		}
	}
}

// sent reports a batch, which was a round trip to Redis.
func (r *Reporter) sent(ctx context.Context, batch *core.Batch) {
	s := r.servers.of(ctx, r.instruments.servers, batch.Server)
	r.instruments.batchDuration.Record(ctx, batch.Elapsed.Seconds(), s.sent(core.FailureOf(batch.Err))...)
	r.instruments.batchCalls.Record(ctx, int64(batch.Calls), s.measured...)
	r.instruments.batchChecks.Record(ctx, int64(batch.Checks), s.measured...)
	if batch.Err == nil {
		s.answered(ctx, r.instruments.servers)
	}
}

// waited reports a wait of a limiter.
func (r *Reporter) waited(ctx context.Context, wait *core.Wait) {
	how := about{outcome: allowed}
	if _, limited := errors.AsType[*core.LimitedError](wait.Err); limited {
		how.outcome = denied
	} else if failure := core.FailureOf(wait.Err); failure == core.GivenUp || failure == "other" && endedContext(wait.Err) {
		how.outcome = gaveUp
	} else if failure != "" {
		how = about{errored, failure}
	}
	p := r.policies.of(wait.Limit.Name(), wait.Limit)
	r.instruments.waitDuration.Record(ctx, wait.Elapsed.Seconds(), p.waited(how)...)
}

func endedContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
