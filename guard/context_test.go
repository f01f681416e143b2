package guard

import (
	"slices"
	"testing"

	"github.com/weir-go/ratelimit/core"
)

// decide returns the exchange of a Guard behind an outer one, whose policies have
// these names.
func decide(t *testing.T, outer *exchange, names ...string) *exchange {
	t.Helper()
	x := &exchange{Context: t.Context(), guard: new(Guard), outer: outer}
	askers := make([]asker, len(names))
	for i, name := range names {
		askers[i].name = name
	}
	x.decided(&question{checks: make([]core.Check, len(names)), askers: askers}, make([]core.Decision, len(names)))
	return x
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
		var nested *exchange
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

func policyNames(x *exchange) []string {
	var names []string
	for _, o := range x.outcomes {
		names = append(names, o.Policy)
	}
	return names
}

func TestAnExchangeInAContextDoesNotChange(t *testing.T) {
	outer := decide(t, nil, "a")
	outer.outcomes = append(make([]Outcome, 0, 8), outer.outcomes...)
	b, c := decide(t, outer, "b"), decide(t, outer, "c")
	for _, x := range []struct {
		*exchange

		want []string
	}{{outer, []string{"a"}}, {b, []string{"a", "b"}}, {c, []string{"a", "c"}}} {
		if got := policyNames(x.exchange); !slices.Equal(got, x.want) {
			t.Errorf("an exchange became %q, want %q", got, x.want)
		}
	}
}
