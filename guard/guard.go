package guard

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Guard is the engine behind the middleware of every framework. It finds the keys of a
// request, asks all its policies in one call, and says whether the request may go on. An
// adapter for another framework puts the [Verdict] into the framework's idiom:
//
//	verdict := g.Decide(r, nil)
//	verdict.WriteHeader(w.Header())
//	if verdict.Denial != nil {
//		verdict.Denial.ServeHTTP(w, verdict.Request)
//		return
//	}
//	verdict.Serve(w, func(w http.ResponseWriter, r *http.Request) int {
//		next.ServeHTTP(w, r)
//		return 0 // or the status of an error that the framework is going to answer
//	})
//
// Its limiter, options and policies can be replaced while requests are served: see [Guard.Swap].
//
// A Guard may be used by many goroutines at once. Make one with [New], [Follow] or [Adaptive]: the zero value has no
// policies until the first Swap, and panics if it has to decide before.
type Guard struct {
	swapping sync.Mutex
	current  atomic.Pointer[generation]
}

// New returns a Guard that has the limiter decide about all policies of a request
// together. It sends nothing.
//
// It returns the reason as an error if the limiter is nil, if there is no policy, if one
// has an invalid limit, or both or neither of Limit and LimitFor, if two have one name,
// and if a mode, a number or a unit makes no sense.
func New(limiter *core.Limiter, options Options, policies ...Policy) (*Guard, error) {
	g := new(Guard)
	if err := g.Swap(limiter, options, policies...); err != nil {
		return nil, err
	}
	return g, nil
}

// Follow returns a Guard that serves by the rules of a set, and by the rules that replace them. A request meets one set
// of rules, as a whole: see [Guard.Swap] for the usage that is kept. Do not call Swap itself: the next
// rules would replace its policies. Follow returns the reason as an error
// if the limiter or the set is nil, and where [New] would for one of the sets.
func Follow(limiter *core.Limiter, options Options, set RuleSet) (*Guard, error) {
	if set == nil {
		return nil, errors.New("ratelimit: the set of policies is nil")
	}
	g := new(Guard)
	err := set.Follow(func(rules Rules) (func(), error) {
		next, err := newGenerationOfRules(g.current.Load(), limiter, options, rules)
		return func() { g.current.Store(next) }, err
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Must returns the Guard that [New] or [Follow] has returned, and panics with the message of the
// error if there is one. It is for programs and adapters that build a Guard when they start:
//
//	g := guard.Must(guard.New(limiter, guard.Options{}, policies...))
func Must(built *Guard, err error) *Guard {
	if err != nil {
		panic(err.Error())
	}
	return built
}

// Swap replaces the limiter, the options and the policies of a Guard, as a whole. A request keeps the ones that
// were in force when it began, until it is settled. Where [New] would return an error, Swap returns that error, and
// nothing changes.
//
// The store keeps the usage of clients. A named limit keeps it, also when its numbers
// change; so does an unnamed one with the same numbers. An unnamed limit with other numbers
// is another limit, and starts fresh. On the same limiter and with the same
// Options.Replicas, the [Fallback] mode keeps its snapshots. With the same
// Options.Logger, no warning is repeated.
//
// Requests that have begun are settled by the policies that they met, and wait for their turn under the old limits. So close the old limiter
// only when they have ended: costs that it can no longer settle stay charged.
func (g *Guard) Swap(limiter *core.Limiter, options Options, policies ...Policy) error {
	g.swapping.Lock()
	defer g.swapping.Unlock()
	next, err := newGeneration(g.current.Load().predecessor(), limiter, options, policies)
	if err != nil {
		return err
	}
	g.current.Store(next)
	return nil
}

// Decide decides about a request: by [Options].Lists, and then by all policies, which it asks in one call. It
// touches no response. Where limits shape traffic, it holds an admitted request until its turn. Where a policy
// has a MaxWait, it waits for a place.
//
// matched is the framework router's knowledge of the request; nil leaves the key
// functions with the request itself. [With] finds it again.
func (g *Guard) Decide(r *http.Request, matched keyfuncs.Matched) (verdict Verdict) {
	by := g.met(r, matched)
	if by.capacity != nil {
		return by.decideByCapacity(r)
	}
	if hasBody(r) {
		shareTrailer(r)
	}
	rc := by.newContext(r, matched)
	by.placement.Look(r)
	verdict = Verdict{Request: &rc.request, rc: rc}
	goesOn := false // or the limiter answers the request
	defer func() {  // also after a panic
		if rc.tellGiven(verdict.Request); rc.form != nil && !goesOn {
			rc.removeForm()
		}
	}()
	if by.plain != nil && rc.outer == nil && (!by.readsBodies || !hasBody(r)) {
		by.decidePlain(&verdict)
	} else {
		by.decideAny(&verdict)
	}
	goesOn = verdict.Denial == nil || verdict.Denial.hooked()
	return verdict
}

// met returns the generation that a request meets.
func (g *Guard) met(r *http.Request, matched keyfuncs.Matched) *generation {
	current := g.current.Load()
	if current == nil {
		panic("ratelimit: the Guard has no policies: make it with New")
	}
	if current.sets != nil {
		return current.sets.met(r, matched)
	}
	return current
}

// newContext returns the context of a request that meets a generation, with the copy of the request that has it.
func (g *generation) newContext(r *http.Request, matched keyfuncs.Matched) *requestContext {
	rc := &requestContext{Context: r.Context(), guard: g, given: r, matched: matched, readsKeys: true}
	rc.request = *r.WithContext(rc) //nolint:contextcheck // it is made of the request's
	if parent, ok := rc.Context.Value(requestContextKey{}).(*requestContext); ok {
		rc.enclose(parent, r)
	}
	return rc
}
