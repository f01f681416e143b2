package core

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/wait"
)

// Permit is a place of a [Concurrent] limit, or as many as a call has asked for, until Release. It is made by
// [Limiter.Acquire], [Limiter.TryAcquire] and [Reservation.Permit], and may be used by many goroutines at once.
//
// The lease of the places is renewed until Release, or until the limiter is closed. If this process dies, the places are
// free when their lease ends.
//
// Keep the Permit while the work goes on, as "defer permit.Release()" does, and not its Context alone: the places
// of a Permit that becomes unreachable without Release are given back when their lease would be renewed, and
// that is logged.
type Permit struct {
	limiter *Limiter
	hold    *wait.Hold      // nil: it has no places, since nothing limits them
	parent  context.Context //nolint:containedctx // Context is made of it

	once    sync.Once
	context context.Context //nolint:containedctx // the result of Context
}

// Acquire takes a place of a [Concurrent] limit. While no other call waits for the same, it asks at once. While there is
// no place, it waits as [Limiter.WaitAll] says.
//
// On Redis, calls that want the same are served in the order in which they came over all processes: a place that is given
// back is kept for the first of them, and its process is told. If that message is lost, a poll notices the place within
// 300 milliseconds. A process that dies while it waits costs the others its turn, for a second at most. On other stores
// there is no order between processes, and a place that another process gives back is noticed within a tenth of a second.
//
// ctx bounds the wait, and so does [WithLongestWait]. The [Permit.Context] is made of ctx.
//
// After an error the caller holds no place. The error is a [LimitedError] if there was no place in time. If the store has
// not answered, and may have granted a place, the place is given back in the background.
//
//	permit, err := limiter.Acquire(ctx, "tenant:7", exports)
//	if err != nil {
//		return err
//	}
//	defer permit.Release()
func (l *Limiter) Acquire(ctx context.Context, key string, limit Places, options ...WaitOption) (*Permit, error) {
	r, err := l.WaitAll(ctx, []Check{{Key: key, Limit: limit}}, options...)
	if err != nil { // a denied reservation holds nothing
		return nil, err
	}
	return r.Permit(ctx), nil
}

// TryAcquire is [Limiter.Acquire] without waiting. The error is a [LimitedError] if there is no place now, or if other
// calls wait for one.
func (l *Limiter) TryAcquire(ctx context.Context, key string, limit Places) (*Permit, error) {
	return l.Acquire(ctx, key, limit, WithLongestWait(0))
}

// Permit returns the places that a reservation holds under [Concurrent] limits. It is nil if the reservation was
// denied, or has checks of other limits alone: such a reservation holds no place. A check under [Unlimited] counts
// as one that does.
//
// A Context of the Permit is made of ctx. To release the Permit gives back nothing else of the reservation: its
// other charges stay until they are settled. To settle or to cancel the reservation gives back the places, too,
// and the Permit has nothing left to release then.
func (r *Reservation) Permit(ctx context.Context) *Permit {
	if r.hold == nil && (!r.Allowed() || !r.hasUnlimited()) {
		return nil
	}
	return &Permit{limiter: r.limiter, hold: r.hold, parent: ctx}
}

// split is unexported.Split.
func (r *Reservation) split() (places *Reservation) {
	if r.hold == nil {
		return nil
	}
	own := *r
	own.decisions = slices.Clone(r.decisions) // each of the two may be settled while the other one is
	own.ledger = r.ledger.split(len(r.checks), func(check int) bool { return r.checks[check].holds() })
	r.hold = nil
	return &own
}

// Release gives the places back. It returns when the store has answered, or at the end of the store's budget, however
// many other calls wait for the store. It works even if ctx has ended, and only the first call does anything. If the
// store does not answer, the release is tried again in the background for two seconds. After that the lease ends by
// itself.
func (p *Permit) Release() {
	list := p.hold.Release()
	if len(list) == 0 {
		return
	}
	ctx, cancel := p.limiter.withinBudget(context.Background())
	defer cancel()
	settlements := make([]Settlement, len(list))
	for i, place := range list {
		settlements[i] = Settlement{Check: checkOfPlace(place), Receipt: Receipt(place.Receipt)}
	}
	if err := p.limiter.settle(ctx, settlements); err != nil {
		p.limiter.giveBack(list) // to give places back twice is to give them back once
	}
}

// withinBudget bounds a context by the budget of the store, and a little more, so that a call which is sent at once is
// answered before. A store without a budget has bounds of its own.
func (l *Limiter) withinBudget(ctx context.Context) (bounded context.Context, cancel context.CancelFunc) {
	if l.budget == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, l.budget+l.budget/10)
}

// Context returns a context that ends when this process can no longer be sure that it holds the places: because no
// renewal was answered in time, because a [Limiter.Reset] has taken them away, because the limiter was closed, or because
// of Release. It ends with the context that the Permit was made with, too. [context.Cause] tells the reason. It is the
// same context at each call.
//
// A process that stands still, in a long pause for garbage or a suspended machine, does not notice in time.
// Where two holders at once would do harm, let the resource check the Token.
func (p *Permit) Context() context.Context {
	p.once.Do(func() { p.context = p.hold.Context(p.parent) })
	return p.context
}

// Err returns nil while this process can be sure that it holds the places, and otherwise the reason, which is
// [context.Canceled] after Release. It asks the clock, so it is right even where the Context has not had the time
// to end. It does not ask the context that the Permit was made with.
func (p *Permit) Err() error {
	return p.hold.Err()
}

// Token returns a number that is greater than the Tokens of all earlier holders of places of the key. A resource that
// remembers the greatest Token that it has seen, and refuses work with a smaller one, is safe from a holder that has lost
// its place without knowing.
//
// With n places, the resource lets the n greatest Tokens pass that it has seen: never more than n use it then. It
// also refuses a holder that is overtaken by n others which came after it.
//
// After a failover that has lost the state, Tokens go on from the server's clock. Of several limits it is the
// Token of the first one. It is 0 under [Unlimited].
func (p *Permit) Token() uint64 {
	return p.hold.Token()
}

// hasUnlimited reports whether a check under Unlimited counts.
func (r *Reservation) hasUnlimited() bool {
	for i := range r.checks {
		if r.checks[i].Limit == Unlimited && !r.decisions[i].Waived {
			return true
		}
	}
	return false
}

// checkOfPlace returns the check that has taken places.
func checkOfPlace(p *wait.Place) Check {
	return Check{Key: p.Key, Limit: Places{limit{p.Spec}}, Cost: p.Units, Shadow: p.Shadow}
}

// place returns the places that the check at an index has taken.
func (r *Reservation) place(index int) *wait.Place {
	c := &r.checks[index]
	return &wait.Place{
		Key: c.Key, Spec: c.Limit.known(), Units: c.Units(), Shadow: c.Shadow,
		Receipt: call.Receipt(r.receipts[index]), Token: r.decisions[index].Token,
	}
}

// placesOf returns the places of a limiter.
func placesOf(l *Limiter) *wait.Places {
	return wait.NewPlaces(wait.PlacesConfig{
		Renew:    l.renew,
		GiveBack: func(p *wait.Place) { l.giveBack([]*wait.Place{p}) },
		Held: func(p *wait.Place, units int, elapsed time.Duration, lost error) {
			if l.trace.Held != nil {
				l.trace.Held(Held{Limit: Places{limit{p.Spec}}, Units: units, Elapsed: elapsed, Err: lost})
			}
		},
		Lost: func(p *wait.Place) {
			c := checkOfPlace(p)
			l.wakeWaiters(&c)
		},
		Renewed: func(r wait.RenewalReport) {
			if l.trace.Renewal != nil {
				l.trace.Renewal(Renewal{Held: r.Held, Lost: r.NotHeld, Unanswered: r.Unanswered, Elapsed: r.Took, Err: r.Err})
			}
		},
		Logger: func() *slog.Logger { return l.logger() },
	})
}

// takePlaces begins the leases of the places that a reservation has taken: one lease for all places under a limit, since a store
// keeps them together.
func (r *Reservation) takePlaces() {
	var one [1]*wait.Place
	taken, allowed := one[:0], r.Allowed()
	for i := range r.checks {
		c := &r.checks[i]
		granted := allowed
		if c.Shadow {
			granted = r.decisions[i].Allowed
		}
		if !c.holds() || !granted || r.decisions[i].Waived {
			continue
		}
		p := r.place(i)
		if of := slices.IndexFunc(taken, p.Together); of >= 0 {
			taken[of].Units += p.Units
		} else {
			taken = append(taken, p)
		}
	}
	if len(taken) == 0 {
		return
	}
	r.hold = r.limiter.places.Hold()
	for _, p := range taken {
		r.hold.Add(p, r.asked, r.answered)
	}
	r.hold.Begin()
}

// holds reports whether a check takes places that have to be given back.
func (c *Check) holds() bool {
	_, places := c.Limit.(Places)
	return places && c.Mode == Charge
}

// renew renews the leases of places.
func (l *Limiter) renew(ctx context.Context, list []*wait.Place, answers []wait.Renewal) error {
	settlements := make([]Settlement, len(list))
	for i, p := range list {
		settlements[i] = Settlement{Check: checkOfPlace(p), Receipt: Receipt(p.Receipt), Renew: true}
	}
	err := l.store.Settle(ctx, settlements)
	partly, part := errors.AsType[*PartlySettledError](err)
	for i := range settlements {
		switch {
		case err != nil && (!part || slices.Contains(partly.NotDone, i)):
		case settlements[i].Lost:
			answers[i] = wait.NotHeld
		default:
			answers[i] = wait.Held
		}
	}
	return err
}

// giveBack gives places back in the background.
func (l *Limiter) giveBack(list []*wait.Place) {
	checks := make([]Check, len(list))
	for i, p := range list {
		checks[i] = checkOfPlace(p)
	}
	r := l.reservationFor(checks)
	for i, p := range list {
		r.receipts[i], r.decisions[i].Allowed = Receipt(p.Receipt), true
	}
	l.settleLater(laterSettlement{of: r, costs: make([]int, len(list))})
}

// giveBackUncertain gives back in the background the places that a call without an answer may have taken.
func (r *Reservation) giveBackUncertain(err error) {
	if errors.Is(err, ErrNotDone) {
		return
	}
	var list []*wait.Place
	for i := range r.checks {
		if r.checks[i].holds() && r.receipts[i] != (Receipt{}) {
			list = append(list, r.place(i))
		}
	}
	if len(list) > 0 {
		r.limiter.giveBack(list)
	}
}

// guess returns when a place may be free by how long places have lately been held, unless the lease that ends next was
// not renewed when it was due: its holder may be dead, and does not give its place back.
func guess(d *Decision, median time.Duration) time.Duration {
	lease := d.Limit.known().Period
	switch overdue := lease - d.RetryAfter - lease/3; {
	case overdue <= lease/10:
		return median
	case d.Limit.Capacity() == 1:
		return d.RetryAfter
	default:
		return max(median, overdue) // others may give theirs back
	}
}

// estimate sets the waits of denials to how long places have lately been held, if the store has only told when leases
// end. A lease that ends sooner counts instead. It reports whether there are such waits.
func (l *Limiter) estimate(decisions []Decision) (estimated bool) {
	for i := range decisions {
		d := &decisions[i]
		if !d.Estimated || d.RetryAfter == Never {
			continue
		}
		estimated = true
		if median, known := l.places.Times.Median(d.Limit.known()); known {
			d.RetryAfter = max(time.Microsecond, min(d.RetryAfter, guess(d, median)))
		}
	}
	return estimated
}
