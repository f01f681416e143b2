package guard_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

func statuses(h http.Handler, n int, path string) map[int]int {
	counts := make(map[int]int)
	for range n {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		counts[w.Code]++
	}
	return counts
}

var fine = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// The same limit in two stores is two limits.
func TestTwoStoresAreTwoLimits(t *testing.T) {
	local, fleet := core.New(core.NewMemory()), core.New(core.NewMemory())
	limit := core.Leaky(5, core.PerHour(1))
	h := ratelimit.New(local, guard.Options{}, guard.PolicyFor(limit))(
		ratelimit.New(fleet, guard.Options{}, guard.PolicyFor(limit))(fine))
	statuses(h, 3, "/")
	for name, limiter := range map[string]*core.Limiter{"local": local, "fleet": fleet} {
		if d, err := limiter.Peek(t.Context(), "ip:192.0.2.1", limit); err != nil || d.Remaining != 2 {
			t.Errorf("%s: %d remain of 5 after 3 requests (%v)", name, d.Remaining, err)
		}
	}
}

// Who only looks does not pay for who charges.
func TestLookingIsNotPaying(t *testing.T) {
	limiter := core.New(core.NewMemory())
	limit := core.Leaky(2, core.PerHour(1))
	h := ratelimit.New(limiter, guard.Options{}, guard.Policy{Limit: limit, Cost: func(*http.Request) int { return 0 }})(
		ratelimit.New(limiter, guard.Options{}, guard.PolicyFor(limit))(fine))
	if got := statuses(h, 5, "/"); got[http.StatusOK] != 2 || got[http.StatusTooManyRequests] != 3 {
		t.Errorf("statuses %v, want 2 of 200 and 3 of 429", got)
	}
}

// A policy has one name, whichever others apply to the request.
func TestAPolicyHasOneName(t *testing.T) {
	limit := core.Leaky(5, core.PerSecond(1))
	var seen []string
	h := ratelimit.New(core.New(core.NewMemory()), guard.Options{
		Observe: func(e guard.Event) {
			for _, o := range e.Outcomes {
				seen = append(seen, o.Key+" "+o.Policy)
			}
		},
	}, guard.Policy{Limit: limit, Skip: func(r *http.Request) bool { return r.URL.Path == "/b" }},
		guard.Policy{Limit: limit, By: keyfuncs.Global})(fine)
	statuses(h, 1, "/a")
	statuses(h, 1, "/b")
	want := []string{"ip:192.0.2.1 leaky:5:1/s", "global leaky:5:1/s-2", "global leaky:5:1/s-2"}
	for i := range want {
		if i >= len(seen) || seen[i] != want[i] {
			t.Fatalf("names %q, want %q", seen, want)
		}
	}
}
