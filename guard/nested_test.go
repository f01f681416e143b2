package guard_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// shared is the limit of policies in several middlewares.
var shared = core.FixedWindow(100, 24*time.Hour).Named("shared")

// nested has one request served behind two middlewares with the shared limit and key,
// and returns how much that has used, and the events.
func nested(t *testing.T, outer, inner guard.Policy) (used int, events []guard.Event) {
	t.Helper()
	limiter := core.New(core.NewMemory())
	h := http.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, p := range []guard.Policy{inner, outer} {
		p.Limit, p.By = shared, keyfuncs.Global
		h = ratelimit.New(limiter, guard.Options{Observe: func(e guard.Event) { events = append(events, e) }}, p)(h)
	}
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	d, err := limiter.Peek(t.Context(), events[0].Outcomes[0].Key, shared)
	if err != nil {
		t.Fatal(err)
	}
	return shared.Capacity() - d.Remaining, events
}

func costs(n int) func(*http.Request) int { return func(*http.Request) int { return n } }

func settles(n int) func(*http.Request, guard.Served) int {
	return func(*http.Request, guard.Served) int { return n }
}

func settlesAsReserved(_ *http.Request, s guard.Served) int { return s.Cost }

// Whoever is further inside has a say in what a limit is charged that was met in front.
func TestNestedPoliciesChargeWhatIsDearest(t *testing.T) {
	for name, c := range map[string]struct {
		outer, inner guard.Policy
		want         int
		told         bool
	}{
		"the same cost":                      {guard.Policy{}, guard.Policy{}, 1, false},
		"a dearer cost inside":               {guard.Policy{}, guard.Policy{Cost: costs(40)}, 40, true},
		"a dearer cost in front":             {guard.Policy{Cost: costs(40)}, guard.Policy{Cost: costs(2)}, 40, false},
		"a dearer cost inside that is right": {guard.Policy{}, guard.Policy{Cost: costs(40), Settle: guard.SettlePolicy{Cost: settlesAsReserved}}, 40, true},
		"a settlement inside":                {guard.Policy{}, guard.Policy{Settle: guard.SettlePolicy{Cost: settles(30)}}, 30, true},
		"a cheaper settlement inside":        {guard.Policy{Cost: costs(5)}, guard.Policy{Settle: guard.SettlePolicy{Cost: settles(3)}}, 5, false},
		"settlements in both":                {guard.Policy{Settle: guard.SettlePolicy{Cost: settles(20)}}, guard.Policy{Settle: guard.SettlePolicy{Cost: settles(30)}}, 30, true},
	} {
		t.Run(name, func(t *testing.T) {
			used, events := nested(t, c.outer, c.inner)
			if used != c.want {
				t.Errorf("%d are used, want %d", used, c.want)
			}
			settled := 0
			for _, e := range events {
				if e.Settled {
					settled = max(settled, e.Outcomes[0].Cost)
				}
			}
			if told := settled == c.want; told != c.told {
				t.Errorf("a settlement at %d is told, of %d", settled, c.want)
			}
		})
	}
}

// Two policies that ask with one check are each told their own cost.
func TestJoinedPoliciesSettleTheirOwnCost(t *testing.T) {
	limiter := core.New(core.NewMemory())
	limitFor := func(*http.Request) core.Limit { return shared }
	var key string
	h := ratelimit.New(limiter, guard.Options{Observe: func(e guard.Event) { key = e.Outcomes[0].Key }},
		guard.Policy{LimitFor: limitFor, By: keyfuncs.Global, Cost: costs(1), Settle: guard.SettlePolicy{Cost: settlesAsReserved}},
		guard.Policy{LimitFor: limitFor, By: keyfuncs.Global, Cost: costs(50), Settle: guard.SettlePolicy{Cost: settles(2)}},
	)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	if d, err := limiter.Peek(t.Context(), key, shared); err != nil || d.Remaining != 98 {
		t.Errorf("%v, %v, want the dearer 2 to be used", d, err)
	}
}

// outage is a store that can be taken away.
type outage struct {
	core.Store

	down atomic.Bool
}

func (o *outage) Decide(ctx context.Context, calls []core.Call) (answered int, err error) {
	if o.down.Load() {
		return 0, errors.New("down")
	}
	return o.Store.Decide(ctx, calls)
}

// What is charged for a policy further inside is known to the fallback in front.
func TestFallbackKnowsWhatNestedPoliciesCharge(t *testing.T) {
	store := &outage{Store: core.NewMemory()}
	limiter := core.New(store)
	limit := func(settle func(*http.Request, guard.Served) int) func(http.Handler) http.Handler {
		return ratelimit.New(limiter, guard.Options{OnError: guard.Fallback},
			guard.Policy{Limit: shared, By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: settle}})
	}
	page := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	outer := limit(nil)
	h := outer(limit(settles(100))(page))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	store.down.Store(true)
	w := httptest.NewRecorder()
	outer(page).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusTooManyRequests {
		t.Errorf("all are used, and the fallback answers %d", w.Code)
	}
}
