package guard_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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

func (s *ruleSet) replace(rules guard.Rules) error {
	for _, prepare := range s.followers {
		use, err := prepare(rules)
		if err != nil {
			return err
		}
		use()
	}
	return nil
}

func byPath(r *http.Request, _ keyfuncs.Matched) int {
	if r.URL.Path == "/b" {
		return 1
	}
	return 0
}

// twoRules limits /b to n, and nothing else.
func twoRules(n int) guard.Rules {
	return guard.Rules{
		Policies: [][]guard.Policy{nil, {{Limit: core.Leaky(n, core.PerDay(1)).Named("b"), By: keyfuncs.Global}}},
		Choose:   byPath,
	}
}

func TestFollowedRulesAreReplaced(t *testing.T) {
	set := &ruleSet{rules: twoRules(2)}
	h, err := guard.Follow(core.New(core.NewMemory()), guard.Options{}, set)
	if err != nil {
		t.Fatal(err)
	}
	handler := ratelimit.Use(h)(fine)
	if got := statuses(handler, 9, "/a"); got[200] != 9 {
		t.Errorf("/a: %v", got)
	}
	if got := statuses(handler, 3, "/b"); got[200] != 2 || got[429] != 1 {
		t.Errorf("/b: %v", got)
	}
	if err := set.replace(twoRules(5)); err != nil {
		t.Fatal(err)
	}
	if got := statuses(handler, 5, "/b"); got[200] != 3 || got[429] != 2 {
		t.Errorf("/b after 2 of 5 are used: %v", got)
	}
	wrong := twoRules(0)
	wrong.Names = []string{"one", "two"}
	if err := set.replace(wrong); err == nil || !strings.HasPrefix(err.Error(), "two: ") {
		t.Errorf("%v, want an error of rule two", err)
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
		Policies: [][]guard.Policy{{everywhere}, {everywhere, other}, {other}},
		Choose:   byPath,
	}}
	store := down{core.NewMemory()}
	h, err := guard.Follow(core.New(store), guard.Options{}, set)
	if err != nil {
		t.Fatal(err)
	}
	handler := ratelimit.Use(h)(fine)
	passed := statuses(handler, 2, "/a")[200] + statuses(handler, 2, "/b")[200]
	if err := set.replace(set.rules); err != nil {
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
		"ratelimit: the set of policies is nil":                                             {nil, guard.Options{}},
		"ratelimit: no policy given":                                                        {&ruleSet{}, guard.Options{}},
		"ratelimit: the rules have alternatives and no Choose":                              {&ruleSet{rules: guard.Rules{Policies: make([][]guard.Policy, 2)}}, guard.Options{}},
		"ratelimit: both the rules and Options.Lists have lists: leave one of them out":     {&ruleSet{rules: withLists}, guard.Options{Lists: deny}},
		"rule 0: ratelimit: OnError is ErrorMode(9), want FailOpen, FailClosed or Fallback": {&ruleSet{rules: twoRules(1)}, guard.Options{OnError: 9}},
	} {
		if _, err := guard.Follow(limiter, test.options, test.set); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
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
	ratelimit.Use(h)(fine).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/a", nil))
	if w.Code != http.StatusForbidden {
		t.Errorf("status %d, want 403", w.Code)
	}
}
