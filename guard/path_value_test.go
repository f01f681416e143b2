package guard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/lists"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// routed is a router that has found a route with three wildcards.
type routed struct{}

func (routed) Route() string { return "/t/{tenant}/items/{id}/{...}" }

func (routed) PathValue(name string) string {
	return map[string]string{"tenant": "acme", "id": "7", "*": "a/b"}[name]
}

func byTenant(r *http.Request) (string, error) {
	if tenant := r.PathValue("tenant"); tenant != "" {
		return "tenant:" + tenant, nil
	}
	return "", keyfuncs.ErrNoKey
}

// values returns the path values of a request that a policy has decided about.
func values(t *testing.T, policy guard.Policy) [3]string {
	t.Helper()
	r := guard.Must(guard.New(memory(), guard.Options{}, policy)).Decide(httptest.NewRequest(http.MethodGet, "/", nil), routed{}).Request
	return [3]string{r.PathValue("tenant"), r.PathValue("id"), r.PathValue("*")}
}

// The values cost two allocations, which nobody pays without a function that may read them.
func TestPathValuesAreSetForFunctionsOfTheProgramOnly(t *testing.T) {
	ten := core.Leaky(10, core.PerSecond(1))
	one := func(*http.Request) int { return 1 }
	for name, policy := range map[string]guard.Policy{
		"By": {Limit: ten, By: byTenant}, "a join": guard.PolicyFor(ten, keyfuncs.RemoteIP, byTenant), "Cost": {Limit: ten, Cost: one},
		"Headroom": {Limit: ten, Headroom: func(*http.Request) int { return 0 }}, "Skip": {Limit: ten, Skip: func(*http.Request) bool { return false }},
		"LimitFor": {LimitFor: func(*http.Request) core.Limit { return ten }},
		"Settle":   {Limit: ten, Settle: guard.SettlePolicy{Cost: func(*http.Request, guard.Served) int { return 1 }}},
		"User":     {Limit: ten, By: keyfuncs.User(func(*http.Request) string { return "" })},
	} {
		if got := values(t, policy); got != [3]string{"acme", "7", "a/b"} {
			t.Errorf("%s: values %q, want those of the router", name, got)
		}
	}
	for name, policy := range map[string]guard.Policy{
		"the default": {Limit: ten}, "RemoteIP": {Limit: ten, By: keyfuncs.RemoteIP}, "IP": {Limit: ten, By: keyfuncs.IP(keyfuncs.TrustedHops(1))},
		"PathValue": {Limit: ten, By: keyfuncs.PathValue("id")}, "a join": guard.PolicyFor(ten, keyfuncs.RemoteIP, keyfuncs.Route),
		"layers": guard.Layers(guard.Policy{Limit: ten}, guard.Policy{Limit: ten, By: keyfuncs.Header("A")})[1],
		"With":   {Limit: ten, Skip: guard.With(func(routed) bool { return false })},
	} {
		if got := values(t, policy); got != [3]string{} {
			t.Errorf("%s: values %q, want none", name, got)
		}
	}
}

func TestAValueThatTheRequestHasStays(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.SetPathValue("tenant", "own")
	var key string
	options := guard.Options{Observe: func(e guard.Event) { key = e.Outcomes[0].Key }}
	guard.Must(guard.New(memory(), options, guard.Policy{Limit: core.Leaky(10, core.PerSecond(1)), By: byTenant})).Decide(r, routed{})
	if key != "tenant:own" || r.PathValue("id") != "7" {
		t.Errorf("key %q and id %q", key, r.PathValue("id"))
	}
}

// A list asks its key function first, and an explanation is asked as a request is.
func TestPathValuesForListsAndExplanations(t *testing.T) {
	denied := guard.Lists{Deny: lists.Of("key:tenant:acme"), By: byTenant}
	h := guard.Must(guard.New(memory(), guard.Options{Lists: denied}, perHour(5)))
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if e := h.Explain(r, routed{}); !e.Listed || e.Status != http.StatusForbidden {
		t.Errorf("explained: %+v, want the list to deny it", e)
	}
	if verdict := h.Decide(r, routed{}); verdict.Denial == nil {
		t.Error("decided: the list does not deny it")
	}
}

// The handler may call key functions from many goroutines.
func TestAHandlerMayCallAKeyFunctionAsItLikes(t *testing.T) {
	by := keyfuncs.Or(byTenant)
	mux := http.NewServeMux()
	mux.HandleFunc("/t/{tenant}", func(_ http.ResponseWriter, r *http.Request) {
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				if key, err := by(r); key != "tenant:acme" {
					t.Errorf("the handler is told %q, %v", key, err)
				}
			})
		}
		group.Wait()
	})
	for _, key := range []keyfuncs.Func{keyfuncs.RemoteIP, by} {
		visit(ratelimit.New(memory(), guard.Options{}, guard.Policy{Limit: core.Leaky(10, core.PerSecond(1)), By: key})(mux), "/t/acme")
	}
}

// Under the Use of chi, no router has found a route when the limiter asks.
func TestAKeyFunctionThatFindsNothingIsLoggedOnce(t *testing.T) {
	var log journal
	options := log.options()
	handle := guard.Must(guard.New(memory(), options, guard.PolicyFor(core.Leaky(10_000, core.PerSecond(1)), byTenant)))
	router := &chiRouter{use: ratelimit.FromGuard(handle), routes: twoRoutes(fine)}
	for n := range 1000 {
		if n%300 == 250 {
			if err := handle.Swap(memory(), options, guard.PolicyFor(core.Leaky(10_000, core.PerSecond(1)), byTenant)); err != nil {
				t.Fatal(err)
			}
		}
		visit(router, fmt.Sprintf("/items/%d", n))
	}
	lines := log.take(t)
	if len(lines) != 1 || lines[0]["function"] != "github.com/weir-go/ratelimit/guard_test.byTenant" || lines[0]["requests"] != 100.0 {
		t.Errorf("logged %v, want one warning about the function", lines)
	}
}

func TestAKeyFunctionThatFindsAKeyIsNotLogged(t *testing.T) {
	var log journal
	h := ratelimit.New(memory(), log.options(), guard.Policy{Limit: core.Leaky(10_000, core.PerSecond(1)), By: byTenant})
	mux := http.NewServeMux()
	mux.HandleFunc("/t/{tenant}", func(http.ResponseWriter, *http.Request) {})
	for n := range 200 {
		path := "/health"
		if n == 99 {
			path = "/t/acme"
		}
		visit(h(mux), path)
	}
	log.expectNothing(t)
}
