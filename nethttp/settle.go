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
	of      *core.Reservation // nil: nothing
	askers  []asker           // of its checks
	settles bool              // one of them has Settle
	// demands are those of policies whose limit a limiter in front has charged.
	demands []demand

	mu sync.Mutex // a handler that has timed out may be served still
	// least are the least costs of the checks, as limiters further inside demand.
	least []int
	costs []int // what was settled, or nil
}

// demand is that of a policy whose limit a limiter in front has charged: it has a say in
// what the request has really cost.
type demand struct {
	of     *exchange // that has charged it
	place  int       // among its own outcomes
	settle func(*http.Request, Served) int
}

// demand notes a demand of a policy, if it settles.
func (x *exchange) demand(d demand) {
	if d.settle == nil {
		return
	}
	if x.reservation == nil {
		x.reservation = new(reservation)
	}
	x.reservation.demands = append(x.reservation.demands, d)
}

// raise has a check that was charged cost so much at the least: when it is settled, or
// if that has been, or will not be, at once.
func (x *exchange) raise(ctx context.Context, place, cost int) error {
	o := &x.own()[place]
	charged := o.Cost
	if r := x.reservation; r != nil && r.settles && place < len(r.askers) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.costs == nil {
			r.least[place] = max(r.least[place], cost)
			return nil
		}
		charged = r.costs[place]
		r.costs[place] = max(charged, cost)
	}
	if cost <= charged || o.Decision.Degraded || o.Shadow {
		return nil
	}
	return x.guard.limiter.Charge(ctx, o.Key, o.Decision.Limit, cost-charged)
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
		return g.limiter.AllowAll(ctx, asked.checks...)
	}
	of, err := g.limiter.Reserve(ctx, asked.checks...)
	if err != nil {
		return nil, err
	}
	reserved := &reservation{
		of: of, askers: asked.askers, least: make([]int, len(asked.askers)),
		settles: slices.ContainsFunc(asked.askers, func(a asker) bool { return a.settle != nil }),
	}
	if x.reservation != nil {
		reserved.demands = x.reservation.demands
	}
	x.reservation = reserved
	return of.Decisions(), nil
}

// errDraining is why a request is held no longer when the server goes down.
var errDraining = errors.New("the server is shutting down")

// hold holds an admitted request until its turn. If that does not come, everything that
// it was charged is given back.
func (g *Guard) hold(ctx context.Context, x *exchange) error {
	if x.reservation == nil || x.reservation.of == nil || delay(x.own()) == 0 {
		return nil
	}
	if g.options.Draining == nil {
		return held(x.reservation.of.Wait(ctx))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(g.options.Draining, func() { cancel(errDraining) })() //nolint:contextcheck // it is the server's
	return held(x.reservation.of.Wait(ctx))
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
	return ok && x.guard == g && x.reservation != nil && (x.reservation.settles || len(x.reservation.demands) > 0)
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
	ctx := context.WithoutCancel(r.Context())
	for _, d := range x.reservation.demands {
		g.settleOutside(ctx, r, d, served)
	}
	if !x.reservation.settles {
		return
	}
	outcomes := append([]Outcome(nil), x.own()...)
	costs := x.reservation.realCosts(r, outcomes, served)
	start := time.Now()
	err := x.reservation.of.Settle(ctx, costs...)
	g.options.Observe(Event{
		Request: r, Outcomes: outcomes, Status: served.Status, Settled: true, Err: err, Elapsed: time.Since(start),
	})
}

// realCosts returns what the checks of a reservation have really cost, which it writes
// to the outcomes, too.
func (r *reservation) realCosts(request *http.Request, outcomes []Outcome, served Served) []int {
	costs := make([]int, len(r.askers)) // what this process has decided by itself comes after them
	for i := range costs {
		o, settle := &outcomes[i], r.askers[i].settle
		if settle != nil && o.Decision.Allowed {
			served.Cost = o.Cost
			o.Cost = max(0, settle(request, served))
		}
		costs[i] = o.Cost
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range costs {
		costs[i] = max(costs[i], r.least[i])
		outcomes[i].Cost = costs[i]
	}
	r.costs = slices.Clone(costs)
	return costs
}

// settleOutside has a limiter in front settle what it has charged, as a policy of this
// one demands. The one in front tells of it when it settles.
func (g *Guard) settleOutside(ctx context.Context, r *http.Request, d demand, served Served) {
	outcome := d.of.own()[d.place]
	served.Cost = outcome.Cost
	outcome.Cost = max(0, d.settle(r, served))
	start := time.Now()
	if err := d.of.raise(ctx, d.place, outcome.Cost); err != nil {
		g.options.Observe(Event{
			Request: r, Outcomes: []Outcome{outcome}, Status: served.Status, Settled: true, Err: err, Elapsed: time.Since(start),
		})
	}
}

// serve has a handler serve a request, and settles what that has cost.
func (g *Guard) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	watched := Watch(w)
	returned := false
	defer func() { g.Settle(r, watched.Served(!returned)) }()
	next.ServeHTTP(watched, r)
	returned = true
}
