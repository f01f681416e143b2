package guard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	// matched is that of [Guard.Decide]. Choose is called for each request, by many goroutines at once, and its
	// result is not changed. The request panics if a set is not there. The default is nil, which picks the first set; with more
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

// met returns the generation that a request meets.
func (s *setGenerations) met(r *http.Request, matched keyfuncs.Matched) *generation {
	switch places := s.choose(r, matched); len(places) {
	case 0:
		return s.unreadable
	case 1:
		return s.generations[places[0]]
	default:
		return s.unions.of(places)
	}
}

// predecessor returns the generation from which the next one goes on: one with a fallback, if there is one.
func (g *generation) predecessor() *generation {
	if g == nil || g.sets == nil {
		return g
	}
	for _, one := range g.sets.generations {
		if one.fallback != nil {
			return one
		}
	}
	return g
}

// newGenerationOfRules returns the generation of some rules, which may have several sets. All sets know the same of the store.
func newGenerationOfRules(old *generation, limiter *core.Limiter, options Options, rules Rules) (*generation, error) {
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
	generations := make([]*generation, len(rules.Sets))
	before := old.predecessor()
	for i, set := range rules.Sets {
		g, err := newGeneration(before, limiter, options, rules.policies(set))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", rules.name(set), err)
		}
		if generations[i] = g; before == nil || before.fallback == nil || g.fallback != nil {
			before = g
		}
	}
	first := generations[0]
	if rules.Choose == nil {
		return first, nil
	}
	unreadable := *first
	unreadable.unreadable, unreadable.plain = true, nil
	first.sets = &setGenerations{generations: generations, choose: rules.Choose, unreadable: &unreadable}
	first.sets.unions = &unions{rules: rules, options: options, predecessor: first.predecessor()}
	if _, err := first.sets.unions.newUnion(all(len(rules.Policies))); err != nil {
		return nil, err // else none of a part of them
	}
	return first, nil
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

// name returns the name of a set in errors.
func (r *Rules) name(set []int) string {
	names := make([]string, len(set))
	for i, place := range set {
		if names[i] = fmt.Sprintf("policy %d", place); place < len(r.Names) {
			names[i] = r.Names[place]
		}
	}
	return "policies: " + strings.Join(names, " and ")
}

// mostUnions is how many unions of sets are kept. Clients choose which of them are asked for, among the sets that there are.
const mostUnions = 1_000

// of returns the generation of all policies of some sets.
func (u *unions) of(sets []int) *generation {
	var places []int
	for _, set := range sets {
		places = append(places, u.rules.Sets[set]...)
	}
	slices.Sort(places)
	places = slices.Compact(places)
	var key []byte
	for _, place := range places {
		key = binary.AppendUvarint(key, uint64(place))
	}
	u.mu.RLock()
	g := u.built[string(key)]
	u.mu.RUnlock()
	if g != nil {
		return g
	}
	g, err := u.newUnion(places)
	if err != nil {
		panic("ratelimit: policies that make sense all together do not make sense in part: " + err.Error())
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.built) >= mostUnions {
		u.built = nil
	}
	if u.built == nil {
		u.built = make(map[string]*generation)
	}
	u.built[string(key)] = g
	return g
}

// newUnion returns the generation of the policies at some places. Policies that no request was to meet together may have limits of one
// name, so names are numbered. None of them waits for a place beside a ban that counts denials.
func (u *unions) newUnion(places []int) (*generation, error) {
	policies := u.rules.policies(places)
	if slices.ContainsFunc(policies, func(p Policy) bool { return p.Ban.StrikeOnDenial }) {
		for i := range policies {
			policies[i].Queue.MaxWait = 0
		}
	}
	g, err := buildGeneration(u.predecessor, u.predecessor.limiter, u.options, policies)
	if err == nil {
		g.union = true
	}
	return g, err
}
