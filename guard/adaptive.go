package guard

import (
	"net/http"
	"sync/atomic"

	"github.com/weir-go/ratelimit/guard/internal/mistakes"
)

// Adaptive returns a [Guard] that lets n() requests be served at once by this process, and answers all others with
// 503, a Retry-After of one to three seconds, and no limit headers. It knows no store and no key, so that other
// processes have numbers of their own.
//
// n is asked before each request, by many goroutines at once, so it must not block. Less than 1 counts as 1, so that
// there is always a request to measure. When n() becomes smaller, requests in progress go on, and no request is let in until there are
// fewer. Adaptive panics if n is nil.
//
// A request counts until its handler has returned, panicked or ended its goroutine, and until connections that the handler has taken
// over are closed. [OutcomesFrom] and [PermitFrom] know nothing of it, and no
// observer is told: count the answers by their status.
func Adaptive(n func() int) *Guard {
	if n == nil {
		panic("ratelimit: Adaptive: the function is nil")
	}
	g := new(Guard)
	g.current.Store(&generation{capacity: &capacity{most: n}, log: new(eventLog), placement: mistakes.NewPlacement(nil, mistakes.Peer{})})
	return g
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

// decideByCapacity decides about a request by nothing else than how many are inside.
func (g *generation) decideByCapacity(r *http.Request) Verdict {
	if !g.capacity.enter() {
		denial := g.deny(&Event{Status: http.StatusServiceUnavailable})
		denial.outer, denial.upload = requestContextFrom(r.Context()), (*keyBody)(nil).isUpload(r)
		return Verdict{Request: r, Denial: denial, outer: denial.outer}
	}
	inside := new(users)
	inside.begin(g.capacity)
	if !hasBody(r) {
		return Verdict{Request: r, inside: inside}
	}
	shareTrailer(r)
	return Verdict{Request: r.WithContext(r.Context()), inside: inside, given: r} // its body is going to be watched
}

// serveInside runs a handler that is inside until it has returned.
func (v Verdict) serveInside(w http.ResponseWriter, next func(http.ResponseWriter, *http.Request) (unanswered int)) {
	defer v.inside.leave()
	if v.given != nil {
		rc := requestContext{Context: v.given.Context(), given: v.given}
		defer func() { // also after a panic
			rc.tellGiven(v.Request)
			rc.removeForm()
		}()
	}
	next(v.watch(w, nil, v.inside.takenOver), v.Request)
}
