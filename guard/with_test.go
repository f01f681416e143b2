package guard_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// framed is what an adapter knows of a framework: its context.
type framed struct {
	counting

	plan string
}

// What asks for the framework's context does not ask for the route, which may be unknown yet.
func TestWithAsksForNoRoute(t *testing.T) {
	asked := 0
	g := guard.Must(guard.New(memory(), guard.Options{}, guard.Policy{
		LimitFor: guard.With(func(f framed) core.Limit { return core.FixedWindow(5, time.Hour).Named(f.plan) }), By: keyfuncs.Global,
	}))
	verdict := g.Decide(httptest.NewRequest(http.MethodGet, "/", nil), framed{counting{&asked}, "gold"})
	verdict.Serve(httptest.NewRecorder(), nothing)
	if d := guard.OutcomesFrom(verdict.Request.Context()); len(d) != 1 || d[0].Policy != "gold" || asked != 0 {
		t.Errorf("decided %+v, and the route was asked for %d times, want a policy named gold, and not at all", d, asked)
	}
}

// A middleware that knows nothing of a framework finds what the one in front knows.
func TestWithFindsTheFrameworkAroundNestedMiddleware(t *testing.T) {
	asked := 0
	plan := guard.With(func(f framed) string { return f.plan })
	policy := guard.Policy{Limit: core.Leaky(5, core.PerSecond(1)), By: keyfuncs.User(plan)}
	outer := guard.Must(guard.New(memory(), guard.Options{}, policy))
	inner := guard.Must(guard.New(memory(), guard.Options{}, policy))
	verdict := outer.Decide(httptest.NewRequest(http.MethodGet, "/", nil), framed{counting{&asked}, "gold"})
	verdict = inner.Decide(verdict.Request, nil)
	for _, o := range guard.OutcomesFrom(verdict.Request.Context()) {
		if o.Key != "user:gold" {
			t.Errorf("key %q, want user:gold", o.Key)
		}
	}
}

// A framework uses its context for another request when one has ended.
func TestWithFindsNothingOfARequestThatHasEnded(t *testing.T) {
	asked, found := 0, make(chan string, 1)
	plan := guard.With(func(f framed) string { return f.plan })
	g := guard.Must(guard.New(memory(), guard.Options{}, guard.Policy{
		Limit: core.Leaky(5, core.PerSecond(1)),
		Settle: guard.SettlePolicy{Cost: func(r *http.Request, _ guard.Served) int {
			route, _ := keyfuncs.Route(r)
			found <- plan(r) + " " + route
			return 1
		}},
	}))
	ctx, end := context.WithCancel(t.Context())
	verdict := g.Decide(httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil), framed{counting{&asked}, "gold"})
	verdict.Serve(httptest.NewRecorder(), func(http.ResponseWriter, *http.Request) int { return http.StatusUnauthorized })
	end()
	if got, want := <-found, " route:/items/{id}"; got != want {
		t.Errorf("found %q, want %q: the route, and nothing of the framework", got, want)
	}
}

func TestWithNeedsAFunction(t *testing.T) {
	defer func() {
		if message, _ := recover().(string); message != "ratelimit: With: the function is nil" {
			t.Errorf("panic %q, want one that names the function", message)
		}
	}()
	guard.With[framed, int](nil)
}
