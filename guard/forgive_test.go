package guard_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// A response forgives all strikes of its key, unless it is a strike itself. Where two policies share a ban, that of one counts for both.
func TestResponsesForgive(t *testing.T) {
	ban := core.Ban{Strikes: core.SlidingLog(4, time.Minute), First: time.Minute}
	strikes := func(n int) func(*http.Request, guard.Served) int {
		return func(_ *http.Request, s guard.Served) int { return n * (s.Status % 100) }
	}
	succeeds := func(_ *http.Request, s guard.Served) bool { return s.Status < 300 }
	const strike, neither, success = 401, 400, 200
	for name, c := range map[string]struct {
		bans   []guard.BanPolicy
		left   int // strikes after two were made and the answers came
		answer int
	}{
		"a success":                          {[]guard.BanPolicy{{Ban: ban, Strike: strikes(1), Forgive: succeeds}}, 4, success},
		"another answer":                     {[]guard.BanPolicy{{Ban: ban, Strike: strikes(1), Forgive: succeeds}}, 2, neither},
		"a strike":                           {[]guard.BanPolicy{{Ban: ban, Strike: strikes(1), Forgive: func(*http.Request, guard.Served) bool { return true }}}, 1, strike},
		"less than none is no strike":        {[]guard.BanPolicy{{Ban: ban, Strike: strikes(-1)}}, 2, strike},
		"a policy that does nothing else":    {[]guard.BanPolicy{{Ban: ban, Forgive: succeeds}}, 4, success},
		"one of two policies":                {[]guard.BanPolicy{{Ban: ban, Strike: strikes(1)}, {Ban: ban, Forgive: succeeds}}, 4, success},
		"a strike of one, none of the other": {[]guard.BanPolicy{{Ban: ban, Strike: strikes(1)}, {Ban: ban, Forgive: succeeds}}, 1, strike},
		"a strike of one, forgiven by the other": {
			[]guard.BanPolicy{{Ban: ban, Strike: strikes(1)}, {Ban: ban, Forgive: func(*http.Request, guard.Served) bool { return true }}}, 4, strike,
		},
	} {
		limiter := core.New(core.NewMemory())
		policies := make([]guard.Policy, len(c.bans))
		for i, own := range c.bans {
			policies[i] = guard.Policy{Ban: own, By: keyfuncs.Global}
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		key, err := keyfuncs.Global(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := limiter.Strike(t.Context(), key, ban, 2); err != nil {
			t.Fatal(err)
		}
		guard.Must(guard.New(limiter, guard.Options{}, policies...)).Decide(r, nil).Serve(httptest.NewRecorder(), func(w http.ResponseWriter, _ *http.Request) int {
			w.WriteHeader(c.answer)
			return 0
		})
		if d, err := limiter.Peek(t.Context(), key, ban.Limit()); err != nil || d.Remaining != c.left {
			t.Errorf("%s: %d strikes are left, %v, want %d", name, d.Remaining, err, c.left)
		}
	}
}

// A policy that forgives makes sense for a ban whose strikes are made before the response is known by other requests.
func TestForgiveIsOfBansByResponse(t *testing.T) {
	forgives := func(*http.Request, guard.Served) bool { return true }
	one := func(*http.Request) int { return 1 }
	ban := core.Ban{Strikes: core.SlidingLog(4, time.Minute)}
	for name, policy := range map[string]guard.Policy{
		"without a ban":     {Limit: core.Leaky(1, core.PerSecond(1)), Ban: guard.BanPolicy{Forgive: forgives}},
		"a ban by requests": {By: keyfuncs.Global, Cost: one, Ban: guard.BanPolicy{Ban: ban, Forgive: forgives}},
	} {
		if _, err := guard.New(core.New(core.NewMemory()), guard.Options{}, policy); err == nil {
			t.Errorf("%s: Forgive is taken", name)
		}
	}
}
