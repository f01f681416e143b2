package main

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// What one visitor may have at once.
const (
	mostStreams  = 4   // a browser has six connections to a host
	mostInFlight = 300 // requests, those that wait their turn included
	mostAnswers  = 20  // on each card
	mostPresses  = 100 // instants of his own requests, to be sent again
)

var (
	errInFlight = errors.New("too many requests are still waiting for their answers")
	errFull     = errors.New("the demo has as many visitors as it takes; come back in a moment")
)

// visitor is somebody who has the page open, with keys of his own. What changes
// in it needs the lock.
type visitor struct {
	sync.Mutex

	id  string // does not change, nor do the key and which cards there are
	key string

	cards    []*card // in the order of algorithms
	quotas   []*card // in the order of quotas
	attempts map[string]*attempt
	answers  int64              // how many there have been
	presses  []press            // the visitor's own requests lately
	clicks   int64              // how many there have been
	run      *comparison        // the last one, or nil
	streams  int                // open
	seen     time.Duration      // on the page's clock
	fresh    context.Context    //nolint:containedctx // until the next reset: many requests share it
	renew    context.CancelFunc // ends all requests under way
	given    int64              // attempts so far
}

// card is one algorithm, or one quota, for one visitor.
type card struct {
	algorithm // of a quota, only its name

	quota *quota // nil: the card is of an algorithm

	limit   core.Limit
	version int64    // counts the limits it has had
	kept    record   // what the middleware has admitted
	answers []answer // the last ones, oldest first
	waiting int      // requests without an answer yet
}

// attempt is one request under way: whose it is, what it meets, and what the
// middleware said about it.
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
	policy  string         // whose decision it is
	at      time.Duration  // when it was decided, by the page's clock
	instant time.Duration  // the same by the store's, as far as the page's is behind it
	counts  bool           // whether the card's picture is about it
}

// press is one click's worth of requests.
type press struct {
	at    time.Duration
	count int
}

func newVisitor(ctx context.Context, now time.Duration) *visitor {
	id := rand.Text()
	v := &visitor{id: id, key: "demo:" + id, attempts: make(map[string]*attempt), seen: now}
	v.fresh, v.renew = context.WithCancel(ctx)
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
// still wait. Their answers are nobody's any more. It returns the limits to reset: those that the
// cards had, and those that they have now.
func (v *visitor) forget(ctx context.Context) []core.Limit {
	v.Lock()
	defer v.Unlock()
	v.renew()
	v.fresh, v.renew = context.WithCancel(ctx)
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

// visitors are those whom the page knows, most of them at most.
type visitors struct {
	sync.Mutex

	most int
	byID map[string]*visitor
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

// admit makes a visitor. Where there are as many as there may be, the one who has
// been away longest is forgotten; who has the page open is not.
func (s *visitors) admit(ctx context.Context, now time.Duration) (*visitor, error) {
	s.Lock()
	defer s.Unlock()
	if len(s.byID) >= s.most {
		var longest *visitor
		for _, v := range s.byID {
			if v.away() && (longest == nil || v.lastSeen() < longest.lastSeen()) {
				longest = v
			}
		}
		if longest == nil {
			return nil, errFull
		}
		longest.leave()
		delete(s.byID, longest.id)
	}
	v := newVisitor(ctx, now)
	s.byID[v.id] = v
	return v, nil
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

// leave ends what a visitor has under way.
func (v *visitor) leave() {
	v.Lock()
	defer v.Unlock()
	v.renew()
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
