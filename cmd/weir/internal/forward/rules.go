package forward

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// checked is a set of which no rules come into force that need more than a check can know.
type checked struct{ guard.RuleSet }

// Follow implements [guard.RuleSet].
func (c checked) Follow(prepare func(guard.Rules) (use func(), err error)) error {
	return c.RuleSet.Follow(func(rules guard.Rules) (use func(), err error) {
		for i, policies := range rules.Policies {
			for j := range policies {
				if reason := unfit(&policies[j]); reason != "" {
					return nil, fmt.Errorf("policies: %s: %s", nameOf(rules, i), reason)
				}
			}
		}
		if choose := rules.Choose; choose != nil {
			rules.Choose = func(r *http.Request, matched keyfuncs.Matched) []int { return chooseAll(choose, r, matched) }
		}
		return prepare(rules)
	})
}

// chooseAll returns the sets that a request meets, however the service behind the proxy reads its path.
func chooseAll(choose func(*http.Request, keyfuncs.Matched) []int, r *http.Request, matched keyfuncs.Matched) []int {
	sets := choose(r, matched)
	for _, u := range otherReadings(r.URL) {
		other := *r
		other.URL = u
		more := choose(&other, matched)
		if len(sets) == 0 || len(more) == 0 {
			return nil // a reading is too long
		}
		sets = slices.Clone(sets)
		for _, set := range more {
			if !slices.Contains(sets, set) {
				sets = append(sets, set)
			}
		}
	}
	return sets
}

func nameOf(rules guard.Rules, policy int) string {
	if policy < len(rules.Names) {
		return rules.Names[policy]
	}
	return fmt.Sprintf("policy %d", policy)
}

// unfit returns the reason why a policy cannot be part of a check, or "".
func unfit(p *guard.Policy) string {
	_, places := p.Limit.(core.Places)
	switch {
	case places:
		return "a concurrent limit holds a place while the request is served. A check has ended before that, so nobody would give the place back:" +
			" limit the service itself, or use a limit that counts over time"
	case p.Limit != nil && p.Limit.Algorithm() == "shaping":
		return "a shaping limit holds the request until its turn. The proxy would wait for the check, and go on without it at some time: use leaky," +
			" which has the same numbers and does not wait"
	case p.LimitFor != nil:
		return "the plan of a request is known to a program alone: write a policy for each plan, with a header in its match"
	case p.Settle.Cost != nil:
		return "settle depends on the response, which a check never sees: leave settle out, or limit the service itself"
	case p.Ban.Strike != nil || p.Ban.Forgive != nil:
		return "strike by status depends on the response, which a check never sees: write strike: denials, or leave strike out to heed bans only"
	}
	return ""
}
