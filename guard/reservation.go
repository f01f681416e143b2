package guard

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard/internal/writer"
	"github.com/weir-go/ratelimit/internal/unexported"
)

// reservation is the part of a request that a Guard has to settle.
type reservation struct {
	stored reserved      // by the store; its outcomes come first
	local  reserved      // by this process, for checks that the store has not answered
	asked  time.Time     // when the store was
	waited time.Duration // for places
	places places
	// outside are the checks that limiters in front have charged.
	outside    []outsideCharge
	settlement settlement
	served     servedSoFar // nil: the handler is not watched
	begun      func() bool // whether the response has begun
}

// settlement is how far a request is settled. It is settled once.
type settlement struct {
	mu      sync.Mutex
	settled bool
	growth  sync.Mutex // while the reservation grows, or its places are split off
	closed  bool       // nothing grows any more; growth is locked to look
	// waiting says that the handler has returned and left the answer to others. If no answer
	// is seen before the request ends, it is settled by served.
	waiting bool
	served  Served
	stop    func() bool // it no longer waits for the end of the request
	leave   func()      // gives back the places when the request has been settled; nil: they are not waited for
}

// answered returns the result to settle by, if the answer was waited for.
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

// reserved is a call that was reserved in one place, the store or this process.
type reserved struct {
	call
	*core.Reservation // nil: there was nothing to reserve

	settles bool              // a policy knows the real cost
	holds   bool              // there may be places to give back
	places  *core.Reservation // was split off; or nil
}

// reservedBy returns the reservation of a call.
func reservedBy(c *call, r *core.Reservation) reserved {
	return reserved{call: *c, Reservation: r, settles: c.knowsCost(), holds: r != nil && c.takesPlaces()}
}

func (v *reserved) allowed() bool { return v.Reservation == nil || v.Allowed() }

func (v *reserved) decisions() []core.Decision {
	if v.Reservation == nil {
		return nil
	}
	return v.Decisions()
}

// servedSoFar returns the result of a request while its handler runs.
type servedSoFar func() (*http.Request, Served)

// outsideCharge is a check of a policy that a limiter in front has charged. The policy has a
// say in the real cost of the request there.
type outsideCharge struct {
	by     *requestContext // of the limiter in front
	index  int             // among its own outcomes
	settle func(*http.Request, Served) int
}

// leastCosts are the least costs of a limiter's outcomes, as limiters further inside want
// them. The zero value is none.
type leastCosts struct {
	mu sync.Mutex // a handler that has timed out may be served still
	// costs are by outcome: the real costs, once the outcomes have been settled. Nil means that
	// no limiter wants one.
	costs   []int
	settled bool
}

// settle raises the real costs of the outcomes to the least costs, and returns them.
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

// reserves reports whether the check of an outcome was reserved, given the number of outcomes.
func (v *reservation) reserves(index, outcomes int) bool {
	return index < len(v.stored.Terms) || index >= outcomes-len(v.local.Terms)
}

// settles reports whether a policy knows the real cost.
func (v *reservation) settles() bool { return v.stored.settles || v.local.settles }

// watches reports whether there is something to do when the handler has returned.
func (v *reservation) watches() bool {
	return v.stored.settles || v.stored.holds || v.local.settles || v.local.holds || len(v.outside) > 0
}

// places are the places that a request has, until the last user leaves.
type places struct {
	permit *core.Permit
	users  users
}

// users count the users of a request's places: its handler, until that returns, and the connections that it has taken over,
// until those are closed.
type users struct {
	count atomic.Int32
	of    interface{ release() } // called once, when there are none any more
}

// begin counts the handler.
func (u *users) begin(of interface{ release() }) {
	u.of = of
	u.count.Store(1)
}

// leave counts one less.
func (u *users) leave() {
	if u.count.Add(-1) == 0 {
		u.of.release()
	}
}

// takenOver wraps a connection that the handler takes over, and counts it.
func (u *users) takenOver(connection net.Conn) net.Conn {
	u.count.Add(1)
	return writer.OnClose(connection, u.leave)
}

func (v *reservation) holdsPlaces() bool { return v.stored.holds || v.local.holds }

// strikes reports whether the answer to a request may be a strike.
func (v *reservation) strikes() bool { return v.stored.strikes() || v.local.strikes() }

// mayStrike is strikes for a handler that may be reserving more on another goroutine.
func (v *reservation) mayStrike() bool {
	v.settlement.growth.Lock()
	defer v.settlement.growth.Unlock()
	return v.strikes()
}

func (v *reserved) strikes() bool {
	for i := range v.Checks {
		if t := &v.Terms[i]; t.Bans && t.Settle != nil {
			return true
		}
	}
	return false
}

// handlerReturned is called when the handler of a request with places has returned. The result is to be called when the request has been
// settled, if that is not later. Places that are still in use are not settled with the other checks. Beside a ban by response, the places of a
// request that is settled later are: else the next request would take the place before the strike is made.
func (v *reservation) handlerReturned(later bool) (settled func()) {
	if later && !v.strikes() || v.places.users.count.Load() > 1 {
		v.split()
	}
	return v.places.users.leave
}

// release gives back the places that were not settled with the other checks, and does not wait for the answer.
func (v *reservation) release() {
	v.split()
	v.stored.release()
	v.local.release()
}

// split keeps the places of a request from being given back when the other checks are settled. The handler may be growing the
// reservation at the same time.
func (v *reservation) split() {
	v.settlement.growth.Lock()
	defer v.settlement.growth.Unlock()
	v.stored.split()
	v.local.split()
}

// split keeps the places of a call from being given back when the other checks are settled.
func (v *reserved) split() {
	if v.Reservation != nil && v.places == nil {
		v.places = unexported.Split(v.Reservation).(*core.Reservation) //nolint:forcetypeassert // it returns nothing else
	}
}

func (v *reserved) release() {
	if v.places != nil {
		_ = unexported.SettleBeside(v.places, nil, make([]int, len(v.Decisions()))...)
	}
}

// observeSettled lets the fallback know the real cost of a request.
func (g *generation) observeSettled(ctx context.Context, v *reservation, costs []int) {
	if g.fallback != nil && v.stored.Reservation != nil {
		g.fallback.ObserveSettled(ctx, v.stored.Reservation, v.stored.Checks, time.Since(v.asked), costs)
	}
}

// reserving returns the reservation of a request, to be added to.
func (rc *requestContext) reserving() *reservation {
	if rc.reservation == nil {
		rc.reservation = new(reservation)
	}
	return rc.reservation
}

// settles reports whether there is something to settle when the request has been served.
func (rc *requestContext) settles() bool {
	return rc.reservation != nil && (rc.reservation.settles() || len(rc.reservation.outside) > 0)
}

// waited returns how long the request has waited for places.
func (rc *requestContext) waited() time.Duration {
	if rc.reservation == nil {
		return 0
	}
	return rc.reservation.waited
}

// holdsPlaces reports whether there may be places to give back.
func (rc *requestContext) holdsPlaces() bool {
	return rc.reservation != nil && rc.reservation.holdsPlaces()
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

// leastCostsOf returns the least costs of the outcomes, to be raised.
func (rc *requestContext) leastCostsOf() *leastCosts {
	if least := rc.leastCosts.Load(); least != nil {
		return least
	}
	rc.leastCosts.CompareAndSwap(nil, new(leastCosts))
	return rc.leastCosts.Load()
}

// reserve remembers the reservation of a call that this process has decided by itself.
func (rc *requestContext) reserve(local reserved) {
	if local.Reservation != nil && local.remembered() {
		rc.reserving().local = local
	}
}
