package core

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Permit is a place of a [Concurrent] limit, or as many as a call has asked for. It is made by
// [Limiter.Acquire] and its like, and may be used by many goroutines at once.
//
// The places are renewed until Release. If this process dies, they are free after exactly the lease. A Permit
// that becomes unreachable without Release is given back when its lease would be renewed, and that is logged.
type Permit struct {
	of     *Reservation
	parent context.Context //nolint:containedctx // Context is made of it

	once    sync.Once
	context context.Context //nolint:containedctx // it is what Context returns
}

// Acquire takes a place of a [Concurrent] limit. While there is none, it waits as [Limiter.Wait] does: first
// come, first served in this process, with no order between processes. A place that is given back in this
// process goes to the first waiter at once. One that another process gives back is noticed within a tenth of a
// second.
//
// ctx bounds the wait, and so does [WithLongestWait]. After an error nothing is held. It is a [LimitedError] if
// there was no place in time. The limit has to be a [Concurrent] one: others are errors.
//
//	permit, err := limiter.Acquire(ctx, "tenant:7", exports)
//	if err != nil {
//		return err
//	}
//	defer permit.Release()
func (l *Limiter) Acquire(ctx context.Context, key string, limit Limit, options ...WaitOption) (*Permit, error) {
	if err := validatePlace(key, limit); err != nil {
		return nil, err
	}
	r, err := l.WaitAll(ctx, []Check{{Key: key, Limit: limit}}, options...)
	if err != nil { // a denied reservation holds nothing
		return nil, err
	}
	return r.Permit(ctx), nil
}

// TryAcquire is [Limiter.Acquire] without waiting. It is denied with a [LimitedError] if there is no place now,
// and if others of this process wait for one.
func (l *Limiter) TryAcquire(ctx context.Context, key string, limit Limit) (*Permit, error) {
	return l.Acquire(ctx, key, limit, WithLongestWait(0))
}

// validatePlace returns the reason why there can be no Permit for a key, if there cannot be one.
func validatePlace(key string, limit Limit) error {
	if err := validate([]Check{{Key: key, Limit: limit}}); err != nil {
		return err
	}
	if limit != Unlimited && !limit.spec.Algorithm.Holds() {
		return invalid("core: %s has no places: acquire those of a core.Concurrent limit", limit)
	}
	return nil
}

// Permit returns the places that a reservation holds under [Concurrent] limits, or nil if it holds none. A
// Context of the Permit is made of ctx. To release the Permit gives back nothing else of the reservation.
func (r *Reservation) Permit(ctx context.Context) *Permit {
	if r.hold == nil && !unlimited(r.checks) {
		return nil
	}
	own := *r // the reservation may be split
	return &Permit{of: &own, parent: ctx}
}

// Split takes the places of [Concurrent] limits out of a reservation, and returns them as a reservation of
// their own, for work that outlives what the others are settled for. Each of the two is settled by itself, with as
// many costs as before, of which it leaves those of the other one aside. Split returns nil if there are no places. It
// is called once, before anything is settled. A [Permit] of the reservation goes on being one.
func (r *Reservation) Split() (places *Reservation) {
	if r.hold == nil {
		return nil
	}
	own := *r
	own.done, r.done = make([]bool, len(r.checks)), make([]bool, len(r.checks))
	for i := range r.checks {
		holds := r.checks[i].holds()
		own.done[i], r.done[i] = !holds, holds
	}
	r.hold = nil
	return &own
}

// Waited returns how long [Limiter.WaitAll] has waited, without the latest call to the store.
func (r *Reservation) Waited() time.Duration { return r.waited }

// Release gives the places back, and returns when the store has taken them, or within its bounds if it does not
// answer. It works whatever has become of ctx, and only the first call does anything. What the store has not
// taken is tried again in the background for two seconds. After that the lease ends by itself.
func (p *Permit) Release() {
	h := p.of.hold
	if h == nil {
		return
	}
	if _, first := h.claim(byPermit); !first {
		return
	}
	h.end(p.of)
	places := make([]*place, len(h.checks))
	for i, c := range h.checks {
		places[i] = &place{check: p.of.checks[c], receipt: p.of.receipts[c], decision: p.of.decisions[c]}
	}
	own := h.limiter.reservationOf(places...)
	costs := make([]int, len(places))
	if err := own.Settle(context.Background(), costs...); err != nil {
		own.settled = false // a release that was carried out changes nothing when it is repeated
		h.limiter.background.settle(laterSettlement{of: own, costs: costs})
	}
}

// Context returns a context that ends when this process can no longer be sure that it holds the places: because
// no renewal has been answered in time, because somebody has taken them away, or because of Release. It ends
// with the context of the call, too. [context.Cause] tells the reason.
//
// A process that stands still, in a long pause for garbage or a suspended machine, does not notice in time.
// Where two holders at once would do harm, let the resource check the Token.
func (p *Permit) Context() context.Context {
	p.once.Do(func() {
		p.context = p.parent
		if p.of.hold != nil {
			for i, x := range p.of.hold.leases {
				if !p.isShadow(i) {
					p.context = x.Context(p.context) //nolint:fatcontext // there are few of them
				}
			}
		}
	})
	return p.context
}

// Err returns nil while this process can be sure that it holds the places, and otherwise the reason. It asks the
// clock, so it is right even where the Context has not had the time to end.
func (p *Permit) Err() error {
	if p.of.hold == nil {
		return nil
	}
	for i, x := range p.of.hold.leases {
		if err := x.Err(); err != nil && !p.isShadow(i) {
			return err //nolint:wrapcheck // it says what it has to
		}
	}
	return nil
}

// isShadow reports whether a lease is that of a shadow check, which is nobody's concern.
func (p *Permit) isShadow(lease int) bool { return p.of.checks[p.of.hold.checks[lease]].Shadow }

// Token returns a number that is greater than those of all who got a place of the key before. A resource that
// remembers the greatest Token that it has seen, and refuses work with a smaller one, is safe from a holder
// that has lost its place without knowing. With n over 1, it has to let n different ones pass: see the
// documentation. After a failover that has lost the state, tokens go on from the server's clock.
//
// Of several limits it is that of the first one. It is 0 under [Unlimited].
func (p *Permit) Token() uint64 {
	if p.of.hold == nil {
		return 0
	}
	return p.of.decisions[p.of.hold.checks[0]].Token
}

// WaitAll is [Limiter.Reserve] that waits until the call passes, as [Limiter.Wait] does: for places of [Concurrent]
// limits and for the others to recover, or, [WithPlacesOnly], for places alone. Nothing is charged until all checks
// fit. The reservation has to be settled, or its places released, when the work is done.
//
// Calls about one place wait in the order in which they came, by the first [Concurrent] limit of theirs, or by
// their first check if there is none. For the turn of a [Shaping] limit, call [Reservation.Wait] afterwards.
//
// With a [LimitedError] there may be a reservation, too, which holds nothing: its Decisions are the latest answer
// to the call. It is nil if the call was never made, because others were before it all the time.
func (l *Limiter) WaitAll(ctx context.Context, checks []Check, options ...WaitOption) (*Reservation, error) {
	if len(checks) == 0 {
		return nil, invalid("core: a call needs at least one check")
	}
	if err := validate(checks); err != nil {
		return nil, err
	}
	began := time.Now()
	limited := limitedPartOf(checks).checks
	if len(limited) == 0 {
		return l.Reserve(ctx, checks...)
	}
	first := 0
	for i := range limited {
		if limited[i].holds() {
			first = i
			break
		}
	}
	denied := new(*Reservation)
	w := &waiting{request: waitRequest{key: limited[first].Key, limit: limited[first].Limit, cost: limited[first].Units(), all: checks, denied: denied}}
	r, err := l.waitFor(ctx, w, options)
	if _, late := errors.AsType[*LimitedError](err); late {
		r = *denied
	}
	if r != nil {
		r.waited = max(0, time.Since(began)-r.answered.Sub(r.asked))
	}
	if l.trace.Wait != nil {
		l.trace.Wait(Wait{Limit: w.request.limit, Units: w.request.cost, Elapsed: time.Since(began), Err: err})
	}
	return r, err
}

// unlimited reports whether all checks are under Unlimited.
func unlimited(checks []Check) bool { return len(limitedPartOf(checks).checks) == 0 }
