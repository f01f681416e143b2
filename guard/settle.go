package guard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/unexported"
)

// Spend tells how many units a request has spent, for a [SettlePolicy].Cost to read in
// [Served].Spent: units that only the handler can count, such as the tokens of a streamed answer. It
// takes the context of the request. The units of several calls are added up; less than 0 takes
// units back. There is one sum for a request, for all policies and all limiters
// in front: each Settle says whether it counts it.
//
// Nothing is charged at once, and nothing at all if no policy has a Settle. Units are lost that are
// told after the request was settled, or of a request that no limiter has
// decided about. Spend may be called by many goroutines at once.
func Spend(ctx context.Context, units int) {
	for rc := requestContextFrom(ctx); rc != nil; rc = rc.enclosing() {
		for inner := rc; inner != nil; inner = inner.outer {
			if inner.settles() {
				rc.outermost().spent.Add(int64(units))
				return
			}
		}
	}
}

// settle settles the cost of a request when its handler has returned or panicked. If
// the handler leaves the answer to others, settle waits for it, or for the end of the request,
// unless the context never ends or has ended already.
func (g *generation) settle(rc *requestContext, r *http.Request, served Served) {
	s := &rc.reservation.settlement
	later := served.Unanswered && rc.Done() != nil && rc.Err() == nil && rc.settles()
	leave := func() {}
	if rc.reservation.holdsPlaces() {
		leave = rc.reservation.handlerReturned(later)
	}
	defer func() { leave() }()
	if later {
		r = detached(r)
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.settled && !s.waiting {
			s.waiting, s.served = true, served
			if rc.reservation.strikes() {
				s.leave, leave = leave, func() {}
			}
			s.stop = context.AfterFunc(rc.Context, func() { g.settleUnanswered(rc, r) })
		}
		return
	}
	s.mu.Lock()
	first := !s.settled
	s.settled = true
	if s.waiting {
		s.stop()
	}
	s.mu.Unlock()
	if first {
		g.settleBy(rc, r, served, false)
	}
}

// settleUnanswered settles a request that has ended and was not seen to be answered. It
// runs on a goroutine of its own, where a panic would end the program.
func (g *generation) settleUnanswered(rc *requestContext, r *http.Request) {
	defer func() { //nolint:contextcheck // the request has it
		if reason := recover(); reason != nil {
			g.log.panicked(r.Context(), reason)
		}
	}()
	if served, waited := rc.reservation.settlement.answered(); waited {
		g.settleBy(rc, r, served, false)
	}
}

// settleBy settles the cost of a request, as the policies' Settle functions say. It
// is one call to the store for all policies, and none if the reserved costs are
// right. It goes through even if the client has gone away. Options.Observe is told. If first is set, or a policy wants
// it, it waits for the answer. It returns the outcomes as they are settled. If a Settle function panics, its cost and those
// of the functions behind it are the reserved ones, and the panic goes on when all is settled.
func (g *generation) settleBy(rc *requestContext, r *http.Request, served Served, first bool) (outcomes []Outcome) {
	v := rc.reservation
	if leave := v.settlement.leave; leave != nil {
		defer leave()
	}
	served.Spent = int(rc.outermost().spent.Load())
	ctx := context.WithoutCancel(r.Context())
	defer func() { // also after a panic
		if v.settles() {
			outcomes = g.settleOwn(ctx, rc, r, served, first)
		}
	}()
	for _, charge := range v.outside {
		g.settleOutside(ctx, r, charge, served)
	}
	return nil
}

// settleOwn settles the costs that this limiter has reserved for a request.
func (g *generation) settleOwn(ctx context.Context, rc *requestContext, r *http.Request, served Served, first bool) []Outcome {
	v := rc.reservation
	v.settlement.growth.Lock()
	v.settlement.closed = true
	v.settlement.growth.Unlock()
	reserved := rc.reservedOutcomes()
	outcomes := slices.Clone(reserved)
	defer func() { // also after a panic
		costs := rc.leastCostsOf().settle(outcomes)
		at := len(costs) - len(v.local.Terms)
		stored, local := costs[:len(v.stored.Terms)], costs[at:]
		start := time.Now()
		if g.fallback != nil {
			g.observeSettled(ctx, v, stored)
		}
		var err error
		if v.local.Reservation != nil {
			err = v.local.settle(ctx, local, outcomes[at:])
		}
		event := &Event{
			Request: r, Outcomes: outcomes, Reserved: reserved, Status: served.Status, Settled: true,
		}
		if !first && !v.stored.settlesFirst(outcomes) {
			g.settleBeside(v, stored, event, start, err) //nolint:contextcheck // the request has it
			return
		}
		event.Err = errors.Join(v.stored.settle(ctx, stored, outcomes), err)
		event.Elapsed = time.Since(start)
		g.report(event) //nolint:contextcheck // the request has it
	}()
	v.stored.realCosts(r, outcomes[:len(v.stored.Terms)], served)
	if len(v.local.Terms) > 0 {
		v.local.realCosts(r, outcomes[len(outcomes)-len(v.local.Terms):], served)
	}
	return outcomes
}

// settleBeside settles a call of the store beside the response, and then tells the event. local is the error of the checks that this
// process has decided by itself.
func (g *generation) settleBeside(v *reservation, costs []int, e *Event, start time.Time, local error) {
	report := func(err error) {
		e.Err, e.Elapsed = errors.Join(err, local), time.Since(start)
		g.report(e)
	}
	if v.stored.Reservation == nil || !v.stored.changes(costs) {
		if v.stored.Reservation != nil {
			local = errors.Join(unexported.SettleBeside(v.stored.Reservation, nil, costs...), local)
		}
		report(nil)
		return
	}
	e.Request = detached(e.Request)
	err := unexported.SettleBeside(v.stored.Reservation, func(err error) {
		defer func() { // of the observer, where a panic would end the program
			if reason := recover(); reason != nil {
				g.log.panicked(e.Request.Context(), reason)
			}
		}()
		report(err)
	}, costs...)
	if err != nil {
		report(err)
	}
}

// changes reports whether some costs differ from the reserved ones.
func (v *reserved) changes(costs []int) bool {
	for i := range v.Checks {
		if c := &v.Checks[i]; costs[i] != c.Units() || v.takesPlace(i) {
			return true
		}
	}
	return false
}

// settlesFirst reports whether the response waits for the settlement, of which these are the outcomes.
func (v *reserved) settlesFirst(outcomes []Outcome) bool {
	for i := range v.Terms {
		if o := &outcomes[i]; v.Terms[i].First || v.Terms[i].Bans && v.Terms[i].Settle != nil && o.Cost != 0 && !o.Decision.Waived {
			return true
		}
	}
	return false
}

// reservedOutcomes returns the outcomes of a request with the costs that are reserved, which may have grown.
func (rc *requestContext) reservedOutcomes() []Outcome {
	v, list := rc.reservation, slices.Clone(rc.own())
	for i := range v.stored.Terms {
		list[i].Cost = v.stored.Checks[i].Cost
	}
	for i, first := 0, len(list)-len(v.local.Terms); i < len(v.local.Terms); i++ {
		list[first+i].Cost = v.local.Checks[i].Cost
	}
	return list
}

// realCosts writes the real costs of the checks, as their policies say, into their
// outcomes.
func (v *reserved) realCosts(r *http.Request, outcomes []Outcome, served Served) {
	for i := range v.Terms {
		o, settle := &outcomes[i], v.Terms[i].Settle
		if settle != nil && o.Decision.Allowed && !o.Decision.Waived {
			served.Cost = o.Cost
			if o.Cost = settle(r, served); !v.Terms[i].Bans {
				o.Cost = max(0, o.Cost)
			}
		}
	}
}

// settle settles a call at its real costs, and writes the units left into its outcomes.
func (v *reserved) settle(ctx context.Context, costs []int, outcomes []Outcome) error {
	if v.Reservation == nil {
		return nil
	}
	err := v.Settle(ctx, costs...)
	if err != nil && v.SettleLater(costs...) == nil { //nolint:contextcheck // its warning belongs to no request
		return fmt.Errorf("ratelimit: the settlement has failed and is tried again: %w", err)
	}
	if err == nil {
		for i, decision := range v.Decisions() {
			outcomes[i].Decision = decision
		}
	}
	return err
}

// settleOutside has a limiter in front settle its charge, as a policy of this
// one says. If that is still to be settled, the limiter in front tells of it.
func (g *generation) settleOutside(ctx context.Context, r *http.Request, c outsideCharge, served Served) {
	reserved := c.by.own()[c.index : c.index+1]
	charged := reserved[0]
	charged.Cost = max(0, c.settle(r, served))
	more := c.by.costAtLeast(c.index, charged.Cost)
	if more == 0 || charged.Shadow {
		return
	}
	start := time.Now()
	err := c.by.guard.charge(ctx, &charged, more)
	g.report(&Event{ //nolint:contextcheck // the request has it
		Request: r, Outcomes: []Outcome{charged}, Reserved: reserved,
		Status: served.Status, Settled: true, Err: err, Elapsed: time.Since(start),
	})
}

// charge charges the key of an outcome more, in the store or this process, and writes the units left into the outcome.
func (g *generation) charge(ctx context.Context, o *Outcome, more int) error {
	if g.fallback != nil {
		g.fallback.ObserveCharged(ctx, o.Key, o.Decision.Limit, more)
	}
	if o.Decision.Degraded {
		return nil
	}
	var left core.Decision
	var err error
	switch limit := o.Decision.Limit.(type) {
	case core.Quota:
		left, err = g.limiter.Charge(ctx, o.Key, limit, more)
	case core.Bans:
		left, err = g.limiter.Strike(ctx, o.Key, limit.Ban(), more)
	default: // a request never owes more places
		return nil
	}
	if err == nil {
		o.Decision = left
	}
	return err
}

// giveBack gives back in the background all that was reserved for a request that does not reach its handler.
func (rc *requestContext) giveBack() {
	v := rc.reservation
	if v == nil {
		return
	}
	rc.releasePlaces()
	rc.guard.observeSettled(context.WithoutCancel(rc), v, make([]int, len(v.stored.Terms)))
	for _, own := range [...]*reserved{&v.stored, &v.local} {
		if own.Reservation != nil {
			_ = own.SettleLater(make([]int, len(own.Decisions()))...)
		}
	}
}

// releasePlaces gives back the places of a request that does not reach its handler.
func (rc *requestContext) releasePlaces() {
	if rc.holdsPlaces() {
		rc.reservation.release()
	}
}
