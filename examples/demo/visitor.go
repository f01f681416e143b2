package main

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// The bounds of one visitor.
const (
	mostStreams  = 4   // a browser has six connections to a host
	mostInFlight = 300 // requests, also those in a queue
	mostAnswers  = 20  // on each card
	mostPresses  = 100 // instants of their own requests, to be sent again
)

var (
	errInFlight = errors.New("too many requests are still waiting for their answers")
	errFull     = errors.New("the demo has as many visitors as it takes; come back in a moment")
)

// visitor is a browser that has the page open, with keys of its own. Its fields
// change under the lock.
type visitor struct {
	sync.Mutex

	id     string // does not change, nor do the key, the client and which cards there are
	key    string
	client string // the address that he comes from

	known  context.Context    //nolint:containedctx // until he is forgotten: all that he has under way shares it
	ignore context.CancelFunc // forgets him

	cards     []*card // in the order of algorithms
	quotas    []*card // in the order of quotas
	attempts  map[string]*attempt
	answers   int64              // how many there have been
	presses   []press            // the visitor's own requests lately
	clicks    int64              // how many there have been
	buys      bool               // whether their credits are given up when they are forgotten
	purchases int64              // of credits, so far
	run       *comparison        // the last one, or nil
	streams   int                // open
	seen      time.Duration      // on the page's clock
	fresh     context.Context    //nolint:containedctx // until the next reset: many requests share it
	renew     context.CancelFunc // ends all requests under way
	given     int64              // attempts so far
}

// card is one algorithm, or one quota, for one visitor.
type card struct {
	algorithm // of a quota, only its name

	quota *quota // nil: the card is of an algorithm

	limit   core.Limit
	version int64    // counts the limits it has had
	kept    record   // the requests that the middleware has admitted
	answers []answer // the last ones, oldest first
	waiting int      // requests without an answer yet
}

// attempt is one request in flight: its visitor, its limit, and the
// middleware's decision.
type attempt struct {
	visitor *visitor
	card    *card
	limit   core.Limit
	key     string
	way     string // of a quota
	id      string
	press   int64          // which click it belongs to; 0: none of the cards'
	of      int            // how many requests that click has sent to the card
	decided *core.Decision // nil as long as the store has not answered
	policy  string         // that has decided
	at      time.Duration  // when it was decided, by the page's clock
	instant time.Duration  // the same by the store's, as far as the page's is behind it
	counts  bool           // whether the card's picture is about it
}

// press is one click's worth of requests.
type press struct {
	at    time.Duration
	count int
}

func newVisitor(ctx context.Context, now time.Duration, client string) *visitor {
	id := rand.Text()
	v := &visitor{id: id, key: "demo:" + id, client: client, attempts: make(map[string]*attempt), seen: now}
	v.known, v.ignore = context.WithCancel(ctx)
	v.fresh, v.renew = context.WithCancel(v.known)
	for _, a := range algorithms {
		v.cards = append(v.cards, &card{algorithm: a, limit: a.standard(), version: 1})
	}
	for i := range quotas {
		v.quotas = append(v.quotas, &card{algorithm: algorithm{Name: quotas[i].Name}, quota: &quotas[i], version: 1})
	}
	return v
}

// card returns the card of an algorithm, or nil.
func (v *visitor) card(name string) *card {
	for _, c := range v.cards {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// quota returns the card of a quota, or nil.
func (v *visitor) quota(name string) *card {
	for _, c := range v.quotas {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// limits returns the limits of all cards and quotas. The visitor is locked.
func (v *visitor) limits() []core.Limit {
	var limits []core.Limit
	for _, c := range v.cards {
		limits = append(limits, c.limit)
	}
	for _, c := range v.quotas {
		for _, r := range c.quota.Rows {
			limits = append(limits, r.Limit)
		}
	}
	return limits
}

// forget makes the cards as they were at first, with their limits, and gives up the requests that
// still wait. Their answers are discarded. It returns the limits to reset: the cards' earlier and
// present ones.
func (v *visitor) forget() []core.Limit {
	v.Lock()
	defer v.Unlock()
	v.renew()
	v.fresh, v.renew = context.WithCancel(v.known)
	clear(v.attempts)
	v.run = nil
	limits := v.limits()
	for _, c := range v.cards {
		c.limit, c.kept, c.answers, c.waiting = c.standard(), record{}, nil, 0
		c.version++
	}
	for _, c := range v.quotas {
		c.answers, c.waiting = nil, 0
		c.version++
	}
	return append(limits, v.limits()...)
}

// has reports whether a card has that limit.
func (v *visitor) has(c *card, limit core.Limit) bool {
	v.Lock()
	defer v.Unlock()
	return c.limit == limit
}

// change gives a card another limit, which starts afresh.
func (v *visitor) change(c *card, limit core.Limit) {
	v.Lock()
	defer v.Unlock()
	c.limit, c.kept, c.answers = limit, record{}, nil
	c.version++
}

// click counts a click on a button of the cards, and returns its number.
func (v *visitor) click() int64 {
	v.Lock()
	defer v.Unlock()
	v.clicks++
	return v.clicks
}

// remember takes down a press, to be sent again by a comparison.
func (v *visitor) remember(at time.Duration, count int) {
	v.Lock()
	defer v.Unlock()
	v.presses = append(v.presses, press{at, count})
	if excess := len(v.presses) - mostPresses; excess > 0 {
		v.presses = append(v.presses[:0], v.presses[excess:]...)
	}
}

// visitors are the visitors that the page knows: a bounded number, in all and from one address.
type visitors struct {
	sync.Mutex

	most         int
	mostOfClient int
	byID         map[string]*visitor
}

// find returns the visitor of an id, or nil.
func (s *visitors) find(id string, now time.Duration) *visitor {
	s.Lock()
	defer s.Unlock()
	v := s.byID[id]
	if v != nil {
		v.Lock()
		v.seen = now
		v.Unlock()
	}
	return v
}

// absence is how long a visitor has to be away before a new stream may take their place.
const absence = 10 * time.Second

// admit makes a visitor. If there is no room, the visitor who has been away longest is forgotten. If none is away, the new one
// takes the place of a visitor from the same address, or from the address with the most visitors, and the streams of that one end. So a
// client that opens many pages locks no other out.
func (s *visitors) admit(ctx context.Context, now time.Duration, client string, opensPage bool) (*visitor, error) {
	s.Lock()
	defer s.Unlock()
	of := make(map[string]int)
	for _, v := range s.byID {
		of[v.client]++
	}
	if crowded := of[client] >= s.mostOfClient; crowded || len(s.byID) >= s.most {
		leaves := s.longest(func(v *visitor) bool {
			return v.away() && (opensPage || now-v.lastSeen() >= absence) && (!crowded || v.client == client)
		})
		if leaves == nil && opensPage {
			from := client
			for other, n := range of {
				if !crowded && n > max(of[from], of[client]+1) {
					from = other
				}
			}
			leaves = s.longest(func(v *visitor) bool { return v.client == from })
		}
		if leaves == nil {
			return nil, errFull
		}
		leaves.ignore()
		delete(s.byID, leaves.id)
	}
	v := newVisitor(ctx, now, client)
	s.byID[v.id] = v
	return v, nil
}

// longest returns the visitor of some who has done nothing for longest, or nil.
func (s *visitors) longest(of func(*visitor) bool) (longest *visitor) {
	for _, v := range s.byID {
		if of(v) && (longest == nil || v.lastSeen() < longest.lastSeen()) {
			longest = v
		}
	}
	return longest
}

func (v *visitor) away() bool {
	v.Lock()
	defer v.Unlock()
	return v.streams == 0
}

func (v *visitor) lastSeen() time.Duration {
	v.Lock()
	defer v.Unlock()
	return v.seen
}

// open takes one of the visitor's streams, if there is one left.
func (v *visitor) open() bool {
	v.Lock()
	defer v.Unlock()
	if v.streams == mostStreams {
		return false
	}
	v.streams++
	return true
}

// shut gives a stream back.
func (v *visitor) shut(now time.Duration) {
	v.Lock()
	defer v.Unlock()
	v.streams--
	v.seen = now
}
