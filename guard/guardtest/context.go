package guardtest

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var contextCases = []testCase{
	{"a plan, a cost and an exemption come from the framework's context", testContext},
	{"without the framework's context, what asks it gets nothing", testNoContext},
}

// plan returns a limit for each user, and none for others.
func plan(user any) core.Limit {
	switch user {
	case "ann":
		return core.FixedWindow(2, time.Hour).Named("plan") // who asks for three
	case "staff":
		return core.Unlimited
	}
	return nil
}

func testContext(t *testing.T, s *suite) {
	if s.userValue == nil {
		t.Skip("the framework's context is the request's")
	}
	name := func(r *http.Request) string {
		name, _ := s.userValue(r).(string)
		return name
	}
	policy := guard.Policy{
		LimitFor: func(r *http.Request) core.Limit { return plan(s.userValue(r)) },
		Cost:     func(r *http.Request) int { return len(name(r)) },
		Skip:     func(r *http.Request) bool { return s.userValue(r) == "exempt" },
		By:       keyfuncs.User(name),
	}
	for user, want := range map[string]struct {
		status int
		cost   int // 0: not limited
	}{
		"ann":    {http.StatusTooManyRequests, 3},
		"staff":  {http.StatusOK, 0},
		"exempt": {http.StatusOK, 0},
		"nobody": {http.StatusInternalServerError, 0},
	} {
		f := s.fixture(t)
		h := f.serve(site{user: user, inside: []middleware{f.limited(policy)}, handler: f.handle})
		expectStatus(t, user, h, ask(http.MethodGet, "/items/7"), want.status)
		if want.cost == 0 {
			f.expectAsked(0)
		} else if o := f.event().Outcomes[0]; o.Cost != want.cost || o.Key != "user:"+user {
			t.Errorf("%s: a cost of %d for %q, want %d for user:%s", user, o.Cost, o.Key, want.cost, user)
		}
	}
}

func testNoContext(t *testing.T, s *suite) {
	if s.userValue == nil {
		t.Skip("the framework's context is the request's")
	}
	if got := s.userValue(ask(http.MethodGet, "/")); got != nil {
		t.Errorf("a request that has met no middleware gives %v", got)
	}
}
