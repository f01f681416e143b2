package guard

import (
	"encoding/binary"
	"slices"
	"sync"
)

// mostUnions is how many unions of sets are kept. Clients choose which of them are asked for, among the sets that there are.
const mostUnions = 1_000

// unions are the generations of requests that meet several sets of policies together. Few requests do, so each is built when
// the first one comes.
type unions struct {
	rules   Rules
	options Options
	heir    *generation

	mu    sync.RWMutex
	built map[string]*generation
}

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
	g, err := u.build(places)
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

// build returns the generation of the policies at some places. Policies that no request was to meet together may have limits of one
// name, so names are numbered. None of them waits for a place beside a ban that counts denials.
func (u *unions) build(places []int) (*generation, error) {
	policies := u.rules.policies(places)
	if slices.ContainsFunc(policies, func(p Policy) bool { return p.Ban.StrikeOnDenial }) {
		for i := range policies {
			policies[i].Queue.MaxWait = 0
		}
	}
	g, err := build(u.heir, u.heir.limiter, u.options, policies)
	if err == nil {
		g.union = true
	}
	return g, err
}
