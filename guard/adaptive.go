package guard

import "github.com/weir-go/ratelimit/guard/internal/mistakes"

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
