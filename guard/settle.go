package guard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard/internal/writer"
)

// Served is what became of a request that was let through: what [SettlePolicy.Cost]
// decides by.
type Served struct {
	// Status is the status of the response: 200 if none was set, 499 if none was set and the client has gone, and 101 if the
	// handler has taken the connection over. If a limiter further inside has denied a remote procedure call, it is the
	// Status of that [Denial], which the call's protocol may have as 200. If Unanswered is set, no response was seen: it
	// is then the status of the error, or 500.
	Status int
	// Bytes is how much of the response's body the handler has written, whether the
	// client has read it or not. It does not count what goes over a connection that was
	// taken over, nor what others write who answer an error of the handler.
	Bytes int64
	// Cost is the number of units that the policy has reserved: return it if that was right.
	Cost int
	// Spent is the sum that [Spend] was told for the request, by the handler or by others, until it
	// is settled. It is 0 if nobody has told anything.
	Spent int
	// Panicked says that the handler has panicked, or has called [runtime.Goexit], which
	// goes on after this.
	Panicked bool
	// Hijacked says that the handler has taken the connection over.
	Hijacked bool
	// ClientGone says that the client had gone when the response began, or before the handler returned without one: the
	// context of the request was cancelled, and not by a deadline. A proxy
	// may tell that with 502. A policy that gives units back by such a status is free for clients that hang up when the work is
	// done. No [BanPolicy].Forgive is asked then.
	ClientGone bool
	// Unanswered says that the handler has left an error or a panic behind without an
	// answer, and no answer was seen before the request ended. The client may
	// have got an empty 200, a broken connection, or the answer of a middleware that went
	// around the limiter.
	Unanswered bool
}

// Spend tells how many units a request has spent, for a [SettlePolicy].Cost to read in
// [Served].Spent: what only the handler finds out, such as the tokens of a streamed answer. It
// takes the context of the request. The units of several calls are added up; less than 0 takes
// back what was told before. There is one sum for a request, for all policies and all limiters
// in front: each Settle says whether it counts it.
//
// Nothing is charged at once, and nothing at all if no policy has a Settle. What is told after
// the request was settled is lost, and so is what is told of a request that no limiter has
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

// outermost returns what the outermost limiter knows of the request, of those that have
// decided about it.
func (rc *requestContext) outermost() *requestContext {
	for rc.outer != nil {
		rc = rc.outer
	}
	return rc
}

// reservation is what a Guard has to settle about a request.
type reservation struct {
	stored reserved      // by the store, whose outcomes come first
	local  reserved      // by this process, about what the store has not answered
	asked  time.Time     // when the store was
	waited time.Duration // for places
	places places
	// outside are the checks that limiters in front have charged.
	outside    []outsideCharge
	settlement settlement
	served     servedSoFar // nil: the handler is not watched
	begun      func() bool // whether the response has begun
}

// settlement is how far a request is settled. That happens once, whoever asks for it.
type settlement struct {
	mu      sync.Mutex
	settled bool
	growth  sync.Mutex // while what is reserved grows, or its places are split off
	closed  bool       // nothing grows any more; growth is locked to look
	// waiting says that the handler has returned and left the answer to others. served is
	// then what to settle by if nobody is seen to answer before the request ends.
	waiting bool
	served  Served
	stop    func() bool // it no longer waits for the end of the request
	leave   func()      // gives back the places when the request has been settled; nil: they are not waited for
}

// reserved is a call that was reserved in one place, the store or this process.
type reserved struct {
	call
	*core.Reservation // nil: there was nothing to reserve

	settles bool              // a policy says what was reserved has really cost
	holds   bool              // there may be places to give back
	places  *core.Reservation // what was split off; nil: nothing was
}

// reservedBy returns what a call has reserved.
func reservedBy(c *call, r *core.Reservation) reserved {
	return reserved{call: *c, Reservation: r, settles: c.Settles(), holds: r != nil && c.TakesPlaces()}
}

func (v *reserved) allowed() bool { return v.Reservation == nil || v.Allowed() }

func (v *reserved) decisions() []core.Decision {
	if v.Reservation == nil {
		return nil
	}
	return v.Decisions()
}

// reserving returns what there may be to settle of a request, to be added to.
func (rc *requestContext) reserving() *reservation {
	if rc.reservation == nil {
		rc.reservation = new(reservation)
	}
	return rc.reservation
}

// outsideCharge is a check of a policy that a limiter in front has charged. The policy has a
// say in what the request has really cost there.
type outsideCharge struct {
	by     *requestContext // of the limiter in front
	index  int             // among its own outcomes
	settle func(*http.Request, Served) int
}

// leastCosts are the least costs of a limiter's outcomes, as limiters further inside want
// them. The zero value is none.
type leastCosts struct {
	mu sync.Mutex // a handler that has timed out may be served still
	// costs are by outcome. Once the outcomes have been settled, they are what those have
	// cost. Nil means that nothing was asked for.
	costs   []int
	settled bool
}

// costAtLeast has a charged check cost so much at the least, and returns how much has to
// be charged now: nothing if the check is still to be settled.
func (rc *requestContext) costAtLeast(index, cost int) (more int) {
	own, v, least := rc.own(), rc.reservation, rc.leastCostsOf()
	least.mu.Lock()
	defer least.mu.Unlock()
	if least.costs == nil {
		least.costs = make([]int, len(own))
	}
	later := !least.settled && v != nil && v.settles() && v.reserves(index, len(own))
	charged := least.costs[index]
	if !later && !least.settled {
		charged = max(charged, own[index].Cost)
	}
	least.costs[index] = max(least.costs[index], cost)
	if later {
		return 0
	}
	return max(0, cost-charged)
}

// leastCostsOf returns the least costs of the outcomes, to be added to.
func (rc *requestContext) leastCostsOf() *leastCosts {
	if least := rc.leastCosts.Load(); least != nil {
		return least
	}
	rc.leastCosts.CompareAndSwap(nil, new(leastCosts))
	return rc.leastCosts.Load()
}

// settle raises what the outcomes have really cost to the least costs, and returns it.
func (l *leastCosts) settle(outcomes []Outcome) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, least := range l.costs {
		if least > 0 { // strikes may be less
			outcomes[i].Cost = max(outcomes[i].Cost, least)
		}
	}
	costs := make([]int, len(outcomes))
	for i := range outcomes {
		costs[i] = outcomes[i].Cost
	}
	l.costs, l.settled = slices.Clone(costs), true
	return costs
}

// reserves reports whether the check of an outcome, of so many, was reserved.
func (v *reservation) reserves(index, outcomes int) bool {
	return index < len(v.stored.Terms) || index >= outcomes-len(v.local.Terms)
}

// settles reports whether there is something to settle when the request has been served.
func (rc *requestContext) settles() bool {
	return rc.reservation != nil && (rc.reservation.settles() || len(rc.reservation.outside) > 0)
}

// settles reports whether a policy says what was reserved has really cost.
func (v *reservation) settles() bool { return v.stored.settles || v.local.settles }

// watches reports whether there is something to do when the handler has returned.
func (v *reservation) watches() bool {
	return v.stored.settles || v.stored.holds || v.local.settles || v.local.holds || len(v.outside) > 0
}

// settle settles what a request has cost, when its handler has returned or panicked. If
// the answer is left to others, that waits until they give it, or until the request ends.
// If nobody would tell of that end, or it has come already, it does not wait.
func (g *generation) settle(rc *requestContext, r *http.Request, served Served) {
	s := &rc.reservation.settlement
	later := served.Unanswered && rc.Done() != nil && rc.Err() == nil && rc.settles()
	leave := func() {}
	if rc.holdsPlaces() {
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

// answered returns what to settle by, if the answer was waited for.
func (s *settlement) answered() (served Served, waited bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settled || !s.waiting {
		return Served{}, false
	}
	s.settled = true
	s.stop()
	return s.served, true
}

// Answered tells that the response to a request begins, with its status. The writer that
// [Verdict.Serve] gives to the handler notices that by itself. So an adapter needs this only
// where a framework can answer past that writer and has a hook for it. It matters only
// when the handler has left the answer to others, and then once. Informational responses do
// not count. It may be called by many goroutines at once.
func (v Verdict) Answered(status int) {
	rc := v.rc
	if rc == nil || rc.reservation == nil || !writer.Final(status) {
		return
	}
	if served, waited := rc.reservation.settlement.answered(); waited {
		served.Status, served.Unanswered, served.ClientGone = status, false, writer.Gone(v.Request)
		rc.guard.settleBy(rc, v.Request, served, false)
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

// settleBy settles what a request has cost, by what the policies' Settle functions say. It
// is one call to the store for all policies, and none if they have reserved what is
// right. It goes through even if the client has gone away. Options.Observe is told. If first is set, or a policy wants
// it, it waits for the answer. It returns the outcomes as they are settled. If a Settle function panics, that and those behind
// it have said what was reserved, and the panic goes on when all is settled.
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

// settleOwn settles what this limiter has reserved for a request.
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

// settleBeside settles a call of the store beside the response. When that is done, the event is told, with the error of what this process has
// decided by itself.
func (g *generation) settleBeside(v *reservation, costs []int, e *Event, start time.Time, local error) {
	report := func(err error) {
		e.Err, e.Elapsed = errors.Join(err, local), time.Since(start)
		g.report(e)
	}
	if v.stored.Reservation == nil || !v.stored.changes(costs) {
		if v.stored.Reservation != nil {
			local = errors.Join(v.stored.SettleBeside(nil, costs...), local)
		}
		report(nil)
		return
	}
	e.Request = detached(e.Request)
	err := v.stored.SettleBeside(func(err error) {
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

// changes reports whether some costs differ from what is reserved.
func (v *reserved) changes(costs []int) bool {
	for i := range v.Checks {
		if c := &v.Checks[i]; costs[i] != c.Units() || v.TakesPlace(i) {
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

// realCosts writes what the checks have really cost, as their policies say, into their
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

// settle settles a call at its real costs, and tells its outcomes what is left.
func (v *reserved) settle(ctx context.Context, costs []int, outcomes []Outcome) error {
	if v.Reservation == nil {
		return nil
	}
	err := v.Settle(ctx, costs...)
	if err != nil && v.SettleLater(costs...) == nil {
		return fmt.Errorf("ratelimit: what was not settled is tried again: %w", err)
	}
	if err == nil {
		for i, decision := range v.Decisions() {
			outcomes[i].Decision = decision
		}
	}
	return err
}

// settleOutside has a limiter in front settle what it has charged, as a policy of this
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

// charge charges the key of an outcome some more, where that was decided, and tells the outcome what is left.
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
	default: // nobody owes more places
		return nil
	}
	if err == nil {
		o.Decision = left
	}
	return err
}
