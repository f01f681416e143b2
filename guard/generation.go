package guard

import (
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard/internal/fallback"
	"github.com/weir-go/ratelimit/guard/internal/mistakes"
	"github.com/weir-go/ratelimit/headers"
	"github.com/weir-go/ratelimit/internal/dialect"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// generation is the state of a [Guard] until the next [Guard.Swap]: its limiter, its options and its policies, and all that
// follows from them for every request. Each request has one generation from its beginning to its settlement.
type generation struct {
	limiter   *core.Limiter
	options   Options
	policies  []Policy
	names     []string // of the policies, or "" if that depends on the request
	fields    []string // that options.Headers may write
	writer    headers.Writer
	lone      dialect.Lone       // the writer, if it writes of one policy alone; nil: it does not
	fallback  *fallback.Fallback // nil: no policy asks for it
	log       *eventLog
	placement *mistakes.Placement
	capacity  *capacity // nil: the policies decide
	plain     *plain    // nil: requests need more than one check that is known but for its key
	asks      bool      // functions of the program other than keys
	// readsBodies says that functions of the program may read the body of a request.
	readsBodies bool

	sets       *setGenerations // several sets of rules, of which each request meets some; nil: there is this one alone
	union      bool            // of sets that a request meets by several readings of its path
	unreadable bool            // no policy is known for its requests: they are denied
}

// plain is the check of a generation with one policy, as known before the first request: the limit is a fixed one that counts
// requests, no request is exempt, and a request is neither held until its turn nor holds a place.
type plain struct {
	quota  core.Quota
	check  core.Check // of a request that costs one unit, without its key
	terms  []terms    // of the check alone
	counts bool       // each request costs one unit, and needs no room beside it
}

// setGenerations are the generations of several sets of rules, of which each request meets one, or the union of some.
type setGenerations struct {
	generations []*generation
	choose      func(*http.Request, keyfuncs.Matched) []int
	unions      *unions
	unreadable  *generation // of a request that meets no set
}

// capacity is how many requests are served at once, and how many are allowed to be.
type capacity struct {
	most   func() int
	inside atomic.Int64
}

// enter lets a request in, unless as many as allowed are inside.
func (c *capacity) enter() bool {
	most := int64(max(1, c.most()))
	for {
		inside := c.inside.Load()
		if inside >= most {
			return false
		}
		if c.inside.CompareAndSwap(inside, inside+1) {
			return true
		}
	}
}

func (c *capacity) release() { c.inside.Add(-1) }

// observe lets the fallback know the decisions of the store.
func (g *generation) observe(c *call, decisions []core.Decision, err error) {
	if g.fallback != nil && err == nil {
		g.fallback.Observe(c.Checks, decisions)
	}
}

// report tells the log and the observer of an event.
func (g *generation) report(event *Event) {
	if event.Status >= http.StatusBadRequest || event.Err != nil { // others are not unusual
		g.log.event(event)
	}
	if g.options.Observe != nil {
		g.options.Observe(*event)
	}
}

// unions are the generations of requests that meet several sets of policies together. Few requests do, so each is built when
// the first one comes.
type unions struct {
	rules       Rules
	options     Options
	predecessor *generation

	mu    sync.RWMutex
	built map[string]*generation
}
