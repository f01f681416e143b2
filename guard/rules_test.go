package guard_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/lists"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// ruleSet is a set that a test replaces.
type ruleSet struct {
	rules     guard.Rules
	followers []func(guard.Rules) (func(), error)
}

func (s *ruleSet) Follow(prepare func(guard.Rules) (func(), error)) error {
	use, err := prepare(s.rules)
	if err == nil {
		use()
		s.followers = append(s.followers, prepare)
	}
	return err
}

func (s *ruleSet) swap(rules guard.Rules) error {
	for _, prepare := range s.followers {
		use, err := prepare(rules)
		if err != nil {
			return err
		}
		use()
	}
	return nil
}

func byPath(r *http.Request, _ keyfuncs.Matched) []int {
	switch r.URL.Path {
	case "/b":
		return []int{1}
	case "/a/../b":
		return []int{0, 1}
	case "/none":
		return nil
	}
	return []int{0}
}

// twoRules limits /b to n, and nothing else.
func twoRules(n int) guard.Rules {
	return guard.Rules{
		Policies: [][]guard.Policy{{{Limit: core.Leaky(n, core.PerDay(1)).Named("b"), By: keyfuncs.Global}}},
		Sets:     [][]int{nil, {0}},
		Choose:   byPath,
	}
}

func TestFollowedRulesAreReplaced(t *testing.T) {
	set := &ruleSet{rules: twoRules(2)}
	h, err := guard.Follow(core.New(core.NewMemory()), guard.Options{}, set)
	if err != nil {
		t.Fatal(err)
	}
	handler := ratelimit.FromGuard(h)(fine)
	if got := statuses(handler, 9, "/a"); got[200] != 9 {
		t.Errorf("/a: %v", got)
	}
	if got := statuses(handler, 3, "/b"); got[200] != 2 || got[429] != 1 {
		t.Errorf("/b: %v", got)
	}
	if err := set.swap(twoRules(5)); err != nil {
		t.Fatal(err)
	}
	if got := statuses(handler, 5, "/b"); got[200] != 3 || got[429] != 2 {
		t.Errorf("/b after 2 of 5 are used: %v", got)
	}
	wrong := twoRules(0)
	wrong.Names = []string{"one"}
	if err := set.swap(wrong); err == nil || !strings.HasPrefix(err.Error(), "policies: one: ") {
		t.Errorf("%v, want an error of policy one", err)
	}
	if got := statuses(handler, 1, "/b"); got[429] != 1 {
		t.Errorf("/b after what makes no sense: %v", got)
	}
}

// All rules know the same of the store, so that none of them lets a client begin anew when it is down.
func TestRulesFallBackTogether(t *testing.T) {
	everywhere := guard.Policy{Limit: core.Leaky(3, core.PerDay(1)).Named("all"), By: keyfuncs.Global, OnError: guard.Fallback}
	other := guard.Policy{Limit: core.Unlimited, By: keyfuncs.Global}
	set := &ruleSet{rules: guard.Rules{
		Policies: [][]guard.Policy{{everywhere}, {other}},
		Sets:     [][]int{{0}, {0, 1}, {1}},
		Choose:   byPath,
	}}
	store := down{core.NewMemory()}
	h, err := guard.Follow(core.New(store), guard.Options{}, set)
	if err != nil {
		t.Fatal(err)
	}
	handler := ratelimit.FromGuard(h)(fine)
	passed := statuses(handler, 2, "/a")[200] + statuses(handler, 2, "/b")[200]
	if err := set.swap(set.rules); err != nil {
		t.Fatal(err)
	}
	passed += statuses(handler, 2, "/b")[200]
	if passed != 3 {
		t.Errorf("%d of 6 pass, want 3", passed)
	}
}

func TestFollowRefuses(t *testing.T) {
	limiter, deny := core.New(core.NewMemory()), guard.Lists{Deny: lists.Of("192.0.2.1")}
	withLists := twoRules(1)
	withLists.Lists = deny
	for want, test := range map[string]struct {
		set     guard.RuleSet
		options guard.Options
	}{
		"ratelimit: the set of policies is nil":                                                 {nil, guard.Options{}},
		"ratelimit: no policy given":                                                            {&ruleSet{}, guard.Options{}},
		"ratelimit: the rules have several sets and no Choose":                                  {&ruleSet{rules: guard.Rules{Sets: make([][]int, 2)}}, guard.Options{}},
		"ratelimit: both the rules and Options.Lists have lists: leave one of them out":         {&ruleSet{rules: withLists}, guard.Options{Lists: deny}},
		"policies: : ratelimit: OnError is ErrorMode(9), want FailOpen, FailClosed or Fallback": {&ruleSet{rules: twoRules(1)}, guard.Options{OnError: 9}},
	} {
		if _, err := guard.Follow(limiter, test.options, test.set); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A request that meets two sets meets all of their policies in one call, each once.
func TestSetsAreMetTogether(t *testing.T) {
	limit := func(name string, n int) []guard.Policy {
		return []guard.Policy{{Limit: core.Leaky(n, core.PerDay(1)).Named(name), By: keyfuncs.Global}}
	}
	rules := func(a int) guard.Rules {
		return guard.Rules{
			Policies: [][]guard.Policy{limit("all", 9), limit("a", a), limit("b", 3), limit("B", 2)}, // of two sets, so that the names may be one
			Sets:     [][]int{{0, 1, 2}, {0, 3}},
			Choose:   byPath,
		}
	}
	set := &ruleSet{rules: rules(5)}
	limiter := core.New(core.NewMemory())
	h := guard.Must(guard.Follow(limiter, guard.Options{}, set))
	handler := ratelimit.FromGuard(h)(fine)
	if got := statuses(handler, 3, "/a/../b"); got[200] != 2 || got[429] != 1 {
		t.Errorf("under the limits of both: %v, want 2 of 3", got)
	}
	for name, want := range map[string]int{"all": 7, "a": 3, "b": 1, "B": 0} {
		capacity := map[string]int{"all": 9, "a": 5, "b": 3, "B": 2}[name]
		d, err := limiter.Peek(t.Context(), "global", core.Leaky(capacity, core.PerDay(1)).Named(name))
		if err != nil || d.Remaining != want {
			t.Errorf("%s: %d left (%v), want %d", name, d.Remaining, err, want)
		}
	}
	if err := set.swap(rules(1)); err != nil {
		t.Fatal(err)
	}
	if got := statuses(handler, 1, "/a/../b"); got[429] != 1 {
		t.Errorf("after a replacement that leaves nothing: %v", got)
	}
}

// A request of which nobody knows the policies does not pass, whatever passes while the store is down.
func TestWhoMeetsNoSetIsDenied(t *testing.T) {
	var events []guard.Event
	observe := guard.Options{Observe: func(e guard.Event) { events = append(events, e) }}
	h := guard.Must(guard.Follow(core.New(down{core.NewMemory()}), observe, &ruleSet{rules: twoRules(2)}))
	if got := statuses(ratelimit.FromGuard(h)(fine), 1, "/none"); got[414] != 1 {
		t.Errorf("%v, want 414", got)
	}
	if len(events) != 1 || events[0].Status != 414 || h.Explain(httptest.NewRequest(http.MethodGet, "/none", nil), nil).Status != 414 {
		t.Errorf("events %+v", events)
	}
}

// Policies that would not do in one set do together: nobody waits for a place beside a ban that counts denials.
func TestSetsAreMetTogetherWithoutWaiting(t *testing.T) {
	set := &ruleSet{rules: guard.Rules{
		Policies: [][]guard.Policy{
			{{Limit: core.Concurrent(1, time.Minute), By: keyfuncs.Global, Queue: guard.QueuePolicy{MaxWait: time.Hour}}},
			{{By: keyfuncs.RemoteIP, Ban: guard.BanPolicy{Ban: core.Ban{Strikes: core.SlidingLog(2, time.Hour), First: time.Hour}, StrikeOnDenial: true}}},
		},
		Sets:   [][]int{{0}, {1}},
		Choose: byPath,
	}}
	limiter := core.New(core.NewMemory())
	t.Cleanup(func() { _ = limiter.Close() })
	permit, err := limiter.Acquire(t.Context(), "global", core.Concurrent(1, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	handler := ratelimit.FromGuard(guard.Must(guard.Follow(limiter, guard.Options{}, set)))(fine)
	if got := statuses(handler, 3, "/a/../b"); got[429] != 2 || got[403] != 1 {
		t.Errorf("%v, want two denials and a ban", got)
	}
	permit.Release()
}

// Lists hold for requests that no policy limits, too.
func TestRulesHaveLists(t *testing.T) {
	rules := twoRules(1)
	rules.Lists.Deny = lists.Of("192.0.2.1")
	h, err := guard.Follow(core.New(core.NewMemory()), guard.Options{}, &ruleSet{rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	ratelimit.FromGuard(h)(fine).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/a", nil))
	if w.Code != http.StatusForbidden {
		t.Errorf("status %d, want 403", w.Code)
	}
}
