package guard

import (
	"slices"
	"testing"

	"github.com/weir-go/ratelimit/core"
)

// decide returns the request context of a limiter behind an outer one, whose policies have
// these names.
func decide(t *testing.T, outer *requestContext, names ...string) *requestContext {
	t.Helper()
	rc := &requestContext{Context: t.Context(), guard: new(generation), outer: outer}
	terms := make([]terms, len(names))
	for i, name := range names {
		terms[i].Name = name
	}
	rc.setOutcomes(&call{Checks: make([]core.Check, len(names)), Terms: terms}, make([]core.Decision, len(names)))
	return rc
}

func TestPoliciesReportedTogetherHaveDistinctNames(t *testing.T) {
	for _, c := range []struct{ names, want []string }{
		{[]string{"a"}, []string{"a"}},
		{[]string{"a", "b"}, []string{"a", "b"}},
		{[]string{"a", "a", "a"}, []string{"a", "a-2", "a-3"}},
		{[]string{"a", "A"}, []string{"a", "A-2"}},
		{[]string{"a-2", "a", "a"}, []string{"a-2", "a", "a-3"}},
		{[]string{"a", "a", "a-2"}, []string{"a", "a-2", "a-2-2"}},
	} {
		var nested *requestContext
		for _, name := range c.names {
			nested = decide(t, nested, name)
		}
		if got := policyNames(decide(t, nil, c.names...)); !slices.Equal(got, c.want) {
			t.Errorf("%q in one limiter are %q, want %q", c.names, got, c.want)
		}
		if got := policyNames(nested); !slices.Equal(got, c.want) {
			t.Errorf("%q in nested limiters are %q, want %q", c.names, got, c.want)
		}
	}
}

func policyNames(rc *requestContext) []string {
	var names []string
	for _, o := range rc.outcomes {
		names = append(names, o.Policy)
	}
	return names
}

func TestTheOutcomesOfARequestContextDoNotChange(t *testing.T) {
	outer := decide(t, nil, "a")
	outer.outcomes = append(make([]Outcome, 0, 8), outer.outcomes...)
	b, c := decide(t, outer, "b"), decide(t, outer, "c")
	for _, row := range []struct {
		rc   *requestContext
		want []string
	}{{outer, []string{"a"}}, {b, []string{"a", "b"}}, {c, []string{"a", "c"}}} {
		if got := policyNames(row.rc); !slices.Equal(got, row.want) {
			t.Errorf("the outcomes became %q, want %q", got, row.want)
		}
	}
}
