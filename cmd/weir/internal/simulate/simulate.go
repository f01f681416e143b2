// Package simulate says which requests of a log policies would have denied: it has the guard decide each of them at its instant, with the
// arithmetic of the store.
package simulate

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/policies"
)

// Options have the values that the program would give the policies.
type Options struct {
	// Names are the key functions of the program that return a value of the log: the number of that among [accesslog.Options].Values.
	Names map[string]int
	// Plan is the number of the value that is the plan of a request, or -1.
	Plan int
	// Keys is how many keys are kept, by the store and of each limit. 0 means a million.
	Keys int

	parts int // for tests: how many goroutines decide, or 0
}

// Simulation replays requests. It is an [arrival.Sink] for arrivals with their requests, and must not be used concurrently.
//
// Where no limit counts the requests of several addresses together, some goroutines decide at the same time, each about the addresses of its
// own. Their decisions are counted in the order of the log, so the result is that of one goroutine.
type Simulation struct {
	parts   []*part
	waiting *round
	rounds  chan *round   // those that are free
	counted chan struct{} // closed when all earlier rounds are counted
	tally   tally
}

// A round is some requests that follow each other, and the decisions about them.
type round struct {
	order []uint8 // the number of the part of each request
	parts []share
	bytes int // of the requests
}

// empty empties a round, and keeps its space.
func (r *round) empty() {
	r.order, r.bytes = r.order[:0], 0
	for i := range r.parts {
		of := &r.parts[i]
		clear(of.arrived) // they refer to requests, and outcomes to keys
		clear(of.outcomes)
		of.arrived, of.outcomes = of.arrived[:0], of.outcomes[:0]
	}
}

// New returns a simulation of a document.
func New(d *policies.Document, o Options) (*Simulation, error) {
	if o.Keys == 0 {
		o.Keys = 1_000_000
	}
	s := &Simulation{rounds: make(chan *round, mostRounds), counted: make(chan struct{}), tally: tally{mostKeys: o.Keys}}
	close(s.counted)
	d, s.tally.notes = playable(d)
	if o.parts == 0 {
		o.parts = 1
		if apart(d) {
			o.parts = max(1, min(runtime.GOMAXPROCS(0), mostParts, o.Keys/leastKeys))
		}
	}
	o.Keys /= o.parts
	for range o.parts {
		p, notes, err := newPart(d, o)
		if err != nil {
			return nil, fmt.Errorf("the policies cannot be replayed: %w", err)
		}
		if s.parts = append(s.parts, p); len(s.parts) == 1 {
			s.tally.notes = append(s.tally.notes, notes...)
		}
	}
	for range mostRounds {
		s.rounds <- &round{parts: make([]share, o.parts)}
	}
	s.waiting = <-s.rounds
	return s, nil
}

// playable returns the document as far as a log can replay it: a queue that shapes traffic denies as a leaky bucket does, without a wait, and
// limits of requests in progress are left out. The notes say so.
func playable(d *policies.Document) (*policies.Document, []string) {
	shaped, concurrent := false, false
	replaced := func(limit core.Limit) core.Limit {
		switch limit.Algorithm() {
		case "shaping":
			shaped = true
			leaky := core.Leaky(limit.Capacity(), limit.Rate())
			if limit.Identity() != limit { // it has a name
				leaky = leaky.Named(limit.Name())
			}
			return leaky
		case "concurrent":
			concurrent = true
			return core.Unlimited
		}
		return limit
	}
	c := *d
	c.Limits, c.Plans = make(map[string]core.Limit), make(map[string]map[string]core.Limit)
	for name, limit := range d.Limits {
		c.Limits[name] = replaced(limit)
	}
	for name, plans := range d.Plans {
		c.Plans[name] = make(map[string]core.Limit)
		for plan, limit := range plans {
			c.Plans[name][plan] = replaced(limit)
		}
	}
	var replacePolicies func(all []policies.Policy) []policies.Policy
	replacePolicies = func(all []policies.Policy) []policies.Policy {
		out := make([]policies.Policy, len(all))
		for i := range all {
			p := all[i]
			p.FirstOf = replacePolicies(p.FirstOf)
			p.MaxWait, p.Undelayed = 0, 0
			if limit, err := core.ParseLimit(p.Limit); err == nil && c.Limits[p.Limit] == nil && c.Plans[p.Limit] == nil {
				if other := replaced(limit); other != limit {
					p.Limit = other.String()
				}
			}
			// A limit that always has room needs no more fields, some of which do not go with it.
			unlimited := func(p policies.Policy) bool { return p.Limit == "unlimited" || c.Limits[p.Limit] == core.Unlimited }
			if unlimited(p) || slices.ContainsFunc(p.FirstOf, unlimited) {
				p = policies.Policy{Name: p.Name, Match: p.Match, Limit: "unlimited", Key: p.Key}
			}
			out[i] = p
		}
		return out
	}
	c.Policies = replacePolicies(d.Policies)
	var notes []string
	if shaped {
		notes = append(notes, "Limits that shape traffic deny requests here as they would, and no request waits.")
	}
	if concurrent {
		notes = append(notes, "Limits of what is in progress (concurrent) are left out: a log does not tell how long requests ran.")
	}
	return &c, notes
}

// apart reports whether all that counts for a request counts by its address, so that requests of two addresses have nothing to do with each
// other.
func apart(d *policies.Document) bool {
	byAddress := func(p *policies.Policy, key string) bool {
		words := strings.Fields(key)
		return p.Limit == "unlimited" || len(words) > 0 && words[0] == "ip" && (len(words) == 1 || words[1] == "and")
	}
	for i := range d.Policies {
		p := &d.Policies[i]
		if len(p.FirstOf) == 0 && !byAddress(p, p.Key) {
			return false
		}
		for j := range p.FirstOf {
			if one := &p.FirstOf[j]; !byAddress(one, cmp.Or(one.Key, p.Key)) {
				return false
			}
		}
	}
	return true
}

const (
	// mostWaiting is for how many requests it is waited before they are decided, and mostBytes how many bytes they may have.
	mostWaiting, mostBytes = 4096, 1 << 20
	// mostRounds is how many rounds there are: one is filled while the parts decide about others and another one is counted.
	mostRounds = 4
	// mostParts is how many goroutines decide at most, and leastKeys how many keys each follows at least.
	mostParts, leastKeys = 16, 50_000
)

// Second implements [arrival.Sink].
func (s *Simulation) Second(arrivals []arrival.Arrival) {
	for i := range arrivals {
		a, r := &arrivals[i], s.waiting
		number := s.partOf(a.Request.Peer)
		r.order = append(r.order, uint8(number))
		of := &r.parts[number]
		of.arrived = append(of.arrived, arrived{instant: a.Instant, logged: a.Request})
		if r.bytes += a.Request.Size(); len(r.order) >= mostWaiting || r.bytes > mostBytes {
			s.decide()
		}
	}
}

// partOf returns the number of the part that decides about the requests of an address.
func (s *Simulation) partOf(peer string) int {
	if len(s.parts) == 1 {
		return 0
	}
	return int(hashOf(peer) % uint64(len(s.parts)))
}

// hashOf returns the same hash for all addresses that share a key.
func hashOf(peer string) uint64 {
	var address netip.Addr
	if plain, ok := strings.CutSuffix(peer, ":1"); ok { // most lines have no port: this is quicker
		address, _ = netip.ParseAddr(plain)
	}
	if !address.Is4() {
		read, _ := netip.ParseAddrPort(peer)
		address = read.Addr().Unmap()
	}
	if address.Is4() && !address.IsUnspecified() {
		bytes := address.As4()
		return maphash.Bytes(seed, bytes[:]) // most addresses are of IPv4, and need no key
	}
	key, _ := keyfuncs.RemoteIP(&http.Request{RemoteAddr: peer}) // it never fails
	return maphash.String(seed, key)
}

// seed is that of the hashes of addresses.
var seed = maphash.MakeSeed()

// decide has the parts decide about the requests that wait, and their decisions counted, while the next requests come.
func (s *Simulation) decide() {
	r := s.waiting
	var deciding sync.WaitGroup
	for number, p := range s.parts {
		before, done := p.ready, make(chan struct{})
		p.ready = done
		deciding.Go(func() {
			<-before
			p.decide(&r.parts[number])
			close(done)
		})
	}
	before, counted := s.counted, make(chan struct{})
	s.counted = counted
	go func() {
		deciding.Wait()
		<-before
		s.tally.count(r)
		r.empty()
		close(counted)
		s.rounds <- r
	}()
	s.waiting = <-s.rounds
}
