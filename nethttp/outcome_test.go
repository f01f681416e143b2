package ratelimit

import (
	"slices"
	"testing"
)

func TestPoliciesReportedTogetherHaveDistinctNames(t *testing.T) {
	for _, c := range []struct{ names, want []string }{
		{[]string{"a"}, []string{"a"}},
		{[]string{"a", "b"}, []string{"a", "b"}},
		{[]string{"a", "a", "a"}, []string{"a", "a-2", "a-3"}},
		{[]string{"a", "A"}, []string{"a", "A-2"}},
		{[]string{"a-2", "a", "a"}, []string{"a-2", "a", "a-3"}},
		{[]string{"a", "a", "a-2"}, []string{"a", "a-2", "a-2-2"}},
	} {
		together := make([]Outcome, 0, len(c.names))
		var nested *exchange
		for _, name := range c.names {
			together = append(together, Outcome{Policy: name})
			nested = nested.with([]Outcome{{Policy: name}}, nil)
		}
		var none *exchange
		if got := policyNames(none.with(together, nil)); !slices.Equal(got, c.want) {
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
	outer := &exchange{outcomes: append(make([]Outcome, 0, 8), Outcome{Policy: "a"})}
	b, c := outer.with([]Outcome{{Policy: "b"}}, nil), outer.with([]Outcome{{Policy: "c"}}, nil)
	for _, x := range []struct {
		*exchange

		want []string
	}{{outer, []string{"a"}}, {b, []string{"a", "b"}}, {c, []string{"a", "c"}}} {
		if got := policyNames(x.exchange); !slices.Equal(got, x.want) {
			t.Errorf("an exchange became %q, want %q", got, x.want)
		}
	}
}
