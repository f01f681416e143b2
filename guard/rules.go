package guard

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Rules are policies of which each request meets some: those of one set, or, where it cannot be known how a router reads the request,
// those of several sets together.
type Rules struct {
	// Policies are all policies. Those of one element go together, such as the alternatives of [FirstOf].
	Policies [][]Policy

	// Names say in errors which of Policies is meant: where it stands in a file, say. The default is its number.
	Names []string

	// Sets are the sets of policies that requests meet, as places in Policies. One may be empty: its requests are not limited. The
	// default is one set of all policies.
	Sets [][]int

	// Choose returns which of Sets a request meets. All policies of several sets are decided together, each once. A request
	// that meets none cannot be read, and is denied with 414.
	// matched is what was given to [Guard.Decide]. Choose is called for each request, by many goroutines at once, and what it
	// returns is not changed. The request panics if a set is not there. The default is nil, which picks the first set; with more
	// than one it is needed.
	Choose func(r *http.Request, matched keyfuncs.Matched) []int

	// Lists are those of the rules, in place of Options.Lists. It is an error if both have some.
	Lists Lists
}

// RuleSet is where rules come from that may change while requests are served: a set of package policies, say.
type RuleSet interface {
	// Follow calls prepare with the rules of now, and then with all that are to replace them. If prepare returns an
	// error, the rules make no sense: Follow returns the error, or the old rules stay in force. Otherwise, use puts
	// them in force. Follow calls it at once, and later when all who follow the set have prepared. It calls prepare
	// and use one after the other.
	Follow(prepare func(Rules) (use func(), err error)) error
}

// Follow returns a Handle that serves by the rules of a set, and by those that replace them. A request meets one set
// of rules, as a whole: what [Handle.Swap] says of keeping what was used holds here, too. Do not call Swap itself: the next
// rules would replace what it has set. Follow returns the reason as an error
// if the limiter or the set is nil, and where [New] would for one of the alternatives.
func Follow(limiter *core.Limiter, options Options, set RuleSet) (*Handle, error) {
	if set == nil {
		return nil, errors.New("ratelimit: the set of policies is nil")
	}
	h := new(Handle)
	err := set.Follow(func(rules Rules) (func(), error) {
		next, err := chosen(h.current.Load(), limiter, options, rules)
		return func() { h.current.Store(next) }, err
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// choice is what a [Handle] serves with: a Guard, or several of which each request meets one.
type choice struct {
	guards     []*Guard
	choose     func(*http.Request, keyfuncs.Matched) []int // nil: the first
	unions     *unions                                     // nil: there is one Guard only
	unreadable *Guard                                      // of a request that meets no set
}

// of returns the Guard that a request meets.
func (c *choice) of(r *http.Request, matched keyfuncs.Matched) *Guard {
	if c.choose == nil {
		return c.guards[0]
	}
	switch sets := c.choose(r, matched); len(sets) {
	case 0:
		return c.unreadable
	case 1:
		return c.guards[sets[0]]
	default:
		return c.unions.of(sets)
	}
}

// alone returns the choice of one Guard.
func alone(g *Guard) *choice { return &choice{guards: []*Guard{g}} }

// heir returns the Guard that others go on from: one that knows what the store has said, if there is one, or nil.
func (c *choice) heir() *Guard {
	if c == nil {
		return nil
	}
	for _, g := range c.guards {
		if g.fallback != nil {
			return g
		}
	}
	return c.guards[0]
}

// chosen returns the Guards of some rules. All of them know the same of the store.
func chosen(old *choice, limiter *core.Limiter, options Options, rules Rules) (*choice, error) {
	if rules.Sets == nil && len(rules.Policies) > 0 {
		rules.Sets = [][]int{all(len(rules.Policies))}
	}
	switch {
	case len(rules.Sets) == 0:
		return nil, errors.New("ratelimit: no policy given")
	case len(rules.Sets) > 1 && rules.Choose == nil:
		return nil, errors.New("ratelimit: the rules have several sets and no Choose")
	case rules.Lists.used() && options.Lists.used():
		return nil, errors.New("ratelimit: both the rules and Options.Lists have lists: leave one of them out")
	case rules.Lists.used():
		options.Lists = rules.Lists
	}
	c := &choice{choose: rules.Choose, guards: make([]*Guard, len(rules.Sets))}
	before := old.heir()
	for i, set := range rules.Sets {
		g, err := replace(before, limiter, options, rules.policies(set))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", rules.name(set), err)
		}
		if c.guards[i] = g; before == nil || before.fallback == nil || g.fallback != nil {
			before = g
		}
	}
	if c.choose == nil {
		return c, nil
	}
	unreadable := *c.guards[0]
	unreadable.unreadable = true
	c.unreadable = &unreadable
	c.unions = &unions{rules: rules, options: options, heir: c.heir()}
	if _, err := c.unions.build(all(len(rules.Policies))); err != nil {
		return nil, err // else none of a part of them
	}
	return c, nil
}

// all returns the numbers below n.
func all(n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// policies returns the policies of a set.
func (r *Rules) policies(set []int) []Policy {
	var policies []Policy
	for _, place := range set {
		policies = append(policies, r.Policies[place]...)
	}
	if len(policies) == 0 {
		return []Policy{{Limit: core.Unlimited, By: keyfuncs.Global}}
	}
	return policies
}

// name returns what a set is called in errors.
func (r *Rules) name(set []int) string {
	names := make([]string, len(set))
	for i, place := range set {
		if names[i] = fmt.Sprintf("policy %d", place); place < len(r.Names) {
			names[i] = r.Names[place]
		}
	}
	return "policies: " + strings.Join(names, " and ")
}
