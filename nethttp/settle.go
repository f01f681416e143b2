package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// Served is what became of a request that was let through: what [Policy.Settle]
// decides by.
type Served struct {
	// Status is the status of the response: 200 if the handler has not set one, 101
	// if it has taken the connection over, and 500 if it panicked before it answered.
	Status int
	// Bytes is how much of the response's body the handler has written, whether the
	// client has read it or not. What goes over a connection that was taken over is not
	// counted.
	Bytes int64
	// Cost is what the policy has reserved: what to return if that was right.
	Cost int
	// Panicked says that the handler has panicked, which goes on after this.
	Panicked bool
	// Hijacked says that the handler has taken the connection over.
	Hijacked bool
}

// reservation is what a Guard has to settle about a request.
type reservation struct {
	stored reserved  // by the store, whose outcomes come first
	local  reserved  // by this process, about what the store has not answered
	asked  time.Time // when the store was
	// demands are those of policies whose limit a limiter in front has charged.
	demands []demand
}

// reserved is a reservation, or none.
type reserved struct {
	of     *core.Reservation
	askers []asker // of its checks
}

// reserving returns what there may be to settle of a request, to be added to.
func (x *exchange) reserving() *reservation {
	if x.reservation == nil {
		x.reservation = new(reservation)
	}
	return x.reservation
}

// demand is that of a policy whose limit a limiter in front has charged: it has a say in
// what the request has really cost.
type demand struct {
	of     *exchange // that has charged it
	place  int       // among its own outcomes
	settle func(*http.Request, Served) int
}

// raised is what limiters further inside have raised the costs to of those who have
// charged. The zero value is nothing.
type raised struct {
	mu sync.Mutex // a handler that has timed out may be served still
	// costs are the least costs of the outcomes, and when they have been settled, what
	// they have cost. Nil is nothing raised.
	costs   []int
	settled bool
}

// raise has a check that was charged cost so much at the least, and returns how much
// has to be charged now: nothing if it is still to be settled.
func (x *exchange) raise(place, cost int) (more int) {
	own, v := x.own(), x.reservation
	x.raised.mu.Lock()
	defer x.raised.mu.Unlock()
	if x.raised.costs == nil {
		x.raised.costs = make([]int, len(own))
	}
	least := &x.raised.costs[place]
	later := !x.raised.settled && v != nil && v.settles() && v.holds(place, len(own))
	charged := *least
	if !later && !x.raised.settled {
		charged = max(charged, own[place].Cost)
	}
	*least = max(*least, cost)
	if later {
		return 0
	}
	return max(0, cost-charged)
}

// settledAt raises what the outcomes have really cost, and returns it.
func (r *raised) settledAt(outcomes []Outcome) []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, least := range r.costs {
		outcomes[i].Cost = max(outcomes[i].Cost, least)
	}
	costs := make([]int, len(outcomes))
	for i := range outcomes {
		costs[i] = outcomes[i].Cost
	}
	r.costs, r.settled = slices.Clone(costs), true
	return costs
}

// holds reports whether one of some outcomes is that of a check which was reserved.
func (v *reservation) holds(place, outcomes int) bool {
	return place < len(v.stored.askers) || place >= outcomes-len(v.local.askers)
}

// reserves reports whether a question has to be remembered after it was answered.
func (q *question) reserves() bool {
	for i := range q.checks {
		if q.askers[i].settle != nil || shapes(&q.checks[i]) {
			return true
		}
	}
	return false
}

// shapes reports whether a check may have its request held.
func shapes(c *core.Check) bool { return !c.Shadow && c.Limit.Algorithm() == shapingName }

var shapingName = core.Shaping(1, core.PerSecond(1)).Algorithm()

// ask asks a question, and remembers what there may be to settle.
func (g *Guard) ask(ctx context.Context, x *exchange, asked *question) ([]core.Decision, error) {
	if !asked.reserves() {
		decisions, err := g.limiter.AllowAll(ctx, asked.checks...)
		g.saw(asked, decisions, err)
		return decisions, err
	}
	began := time.Now()
	of, err := g.limiter.Reserve(ctx, asked.checks...)
	if err != nil {
		return nil, err
	}
	g.saw(asked, of.Decisions(), nil)
	v := x.reserving()
	v.stored, v.asked = reserved{of, asked.askers}, began
	return of.Decisions(), nil
}

// saw lets the fallback know what the store has decided.
func (g *Guard) saw(asked *question, decisions []core.Decision, err error) {
	if g.fallback != nil && err == nil {
		g.fallback.Observe(asked.checks, decisions)
	}
}

// sawSettled lets the fallback know what a request has really cost.
func (g *Guard) sawSettled(v *reservation, costs []int) {
	if g.fallback != nil && v.stored.of != nil {
		g.fallback.ObserveSettled(v.stored.of, time.Since(v.asked), costs...)
	}
}

// reserve remembers what there may be to settle of what this process has decided by
// itself.
func (x *exchange) reserve(d decided) {
	if d.of != nil && d.reserves() {
		x.reserving().local = reserved{d.of, d.askers}
	}
}

// errDraining is why a request is held no longer when the server goes down.
var errDraining = errors.New("the server is shutting down")

// hold holds an admitted request until its turn, and returns how long that took. If it
// does not come, everything that it was charged is given back.
func (g *Guard) hold(ctx context.Context, x *exchange) (time.Duration, error) {
	if x.reservation == nil || delay(x.own()) == 0 {
		return 0, nil
	}
	start := time.Now()
	err := g.holdUntil(ctx, x)
	return time.Since(start), err
}

func (g *Guard) holdUntil(ctx context.Context, x *exchange) error {
	if g.options.Draining == nil {
		return held(g.wait(ctx, x.reservation))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(g.options.Draining, func() { cancel(errDraining) })() //nolint:contextcheck // it is the server's
	return held(g.wait(ctx, x.reservation))
}

// wait returns when the turn has come of all that was reserved. In the rare case that
// there is a queue in this process and one in the store, it stands in both in turn.
func (g *Guard) wait(ctx context.Context, v *reservation) error {
	if v.local.of != nil {
		if err := v.local.of.Wait(ctx); err != nil {
			if v.stored.of != nil {
				err = errors.Join(err, v.stored.of.Cancel(context.WithoutCancel(ctx)))
				g.sawSettled(v, make([]int, len(v.stored.askers)))
			}
			return err
		}
	}
	if v.stored.of == nil {
		return nil
	}
	err := v.stored.of.Wait(ctx)
	if err != nil {
		g.sawSettled(v, make([]int, len(v.stored.askers)))
		if v.local.of != nil {
			_ = v.local.of.Cancel(context.WithoutCancel(ctx)) // which is not asked of a server
		}
	}
	return err
}

func held(err error) error {
	if err != nil {
		return fmt.Errorf("ratelimit: %w", err)
	}
	return nil
}

// Settles reports whether a request that [Guard.Check] has returned, and let through,
// has something to settle when it has been served.
func (g *Guard) Settles(r *http.Request) bool {
	x, ok := r.Context().(*exchange)
	return ok && x.guard == g && x.reservation != nil && (x.reservation.settles() || len(x.reservation.demands) > 0)
}

// settles reports whether a policy says what was reserved has really cost.
func (v *reservation) settles() bool { return v.stored.settles() || v.local.settles() }

func (v *reserved) settles() bool {
	return slices.ContainsFunc(v.askers, func(a asker) bool { return a.settle != nil })
}

// Settle settles what a request has cost, by what the policies' Settle functions say.
// r is the request that [Guard.Check] has returned. Call it once, when the handler has
// returned or panicked; it does nothing if there is nothing to settle.
//
// It is one call to the store for all policies, and none if they have reserved what
// is right. It goes through even if the client has gone away. Options.Observe is told.
func (g *Guard) Settle(r *http.Request, served Served) {
	if !g.Settles(r) {
		return
	}
	x := r.Context().(*exchange) //nolint:forcetypeassert // Settles has found it to be one
	v := x.reservation
	ctx := context.WithoutCancel(r.Context())
	for _, d := range v.demands {
		g.settleOutside(ctx, r, d, served)
	}
	if !v.settles() {
		return
	}
	outcomes := append([]Outcome(nil), x.own()...)
	costs := x.realCosts(r, outcomes, served)
	stored, local := costs[:len(v.stored.askers)], costs[len(costs)-len(v.local.askers):]
	start := time.Now()
	g.sawSettled(v, stored)
	err := errors.Join(v.stored.settle(ctx, stored), v.local.settle(ctx, local))
	g.report(&Event{ //nolint:contextcheck // the request has it
		Request: r, Outcomes: outcomes, Reserved: x.own(), Status: served.Status, Settled: true, Err: err, Elapsed: time.Since(start),
	})
}

// realCosts returns what has really been the cost of each outcome, which it writes to
// the outcomes, too.
func (x *exchange) realCosts(r *http.Request, outcomes []Outcome, served Served) []int {
	v := x.reservation
	v.stored.settled(r, outcomes[:len(v.stored.askers)], served)
	v.local.settled(r, outcomes[len(outcomes)-len(v.local.askers):], served)
	return x.raised.settledAt(outcomes)
}

// settled writes what the checks have really cost, as their policies say, into their
// outcomes.
func (v *reserved) settled(r *http.Request, outcomes []Outcome, served Served) {
	for i := range v.askers {
		o, settle := &outcomes[i], v.askers[i].settle
		if settle != nil && o.Decision.Allowed {
			served.Cost = o.Cost
			o.Cost = max(0, settle(r, served))
		}
	}
}

func (v *reserved) settle(ctx context.Context, costs []int) error {
	if v.of == nil {
		return nil
	}
	return v.of.Settle(ctx, costs...)
}

// settleOutside has a limiter in front settle what it has charged, as a policy of this
// one demands. If that is still to be settled, the one in front tells of it.
func (g *Guard) settleOutside(ctx context.Context, r *http.Request, d demand, served Served) {
	reserved := d.of.own()[d.place : d.place+1]
	charged := reserved[0]
	charged.Cost = max(0, d.settle(r, served))
	more := d.of.raise(d.place, charged.Cost)
	if more == 0 || charged.Shadow {
		return
	}
	start := time.Now()
	err := d.of.guard.charge(ctx, &charged, more)
	g.report(&Event{ //nolint:contextcheck // the request has it
		Request: r, Outcomes: []Outcome{charged}, Reserved: reserved,
		Status: served.Status, Settled: true, Err: err, Elapsed: time.Since(start),
	})
}

// charge charges the key of an outcome some more: where that was decided.
func (g *Guard) charge(ctx context.Context, o *Outcome, more int) error {
	if g.fallback != nil {
		g.fallback.ObserveCharged(o.Key, o.Decision.Limit, more)
	}
	if o.Decision.Degraded {
		return nil
	}
	return g.limiter.Charge(ctx, o.Key, o.Decision.Limit, more)
}

// serve has a handler serve a request, and settles what that has cost.
func (g *Guard) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	watched := Watch(w)
	returned := false
	defer func() { g.Settle(r, watched.Served(!returned)) }()
	next.ServeHTTP(watched, r)
	returned = true
}
