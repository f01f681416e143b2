package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	of      *core.Reservation
	askers  []asker // of its checks
	settles bool    // one of them has Settle
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
	x.reservation = &reservation{
		of: of, askers: asked.askers,
		settles: slices.ContainsFunc(asked.askers, func(a asker) bool { return a.settle != nil }),
	}
	return of.Decisions(), nil
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
	return ok && x.guard == g && x.reservation != nil && x.reservation.settles
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
	outcomes := append([]Outcome(nil), x.own()...)
	costs := make([]int, len(x.reservation.askers)) // what this process has decided by itself comes after them
	for i := range costs {
		o, settle := &outcomes[i], x.reservation.askers[i].settle
		if settle != nil && o.Decision.Allowed {
			served.Cost = o.Cost
			o.Cost = max(0, settle(r, served))
		}
		costs[i] = o.Cost
	}
	start := time.Now()
	err := x.reservation.of.Settle(context.WithoutCancel(r.Context()), costs...)
	g.report(&Event{ //nolint:contextcheck // the request has it
		Request: r, Outcomes: outcomes, Reserved: x.own(), Status: served.Status, Settled: true, Err: err, Elapsed: time.Since(start),
	})
}

// serve has a handler serve a request, and settles what that has cost.
func (g *Guard) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	watched := Watch(w)
	returned := false
	defer func() { g.Settle(r, watched.Served(!returned)) }()
	next.ServeHTTP(watched, r)
	returned = true
}
