package guard

import (
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Handle is a [Guard] that another one can replace while requests are served: what the
// middleware of every adapter serves with. Each request has one Guard from its beginning to
// its settlement; requests that begin after a Swap have the new one.
//
// A Handle may be used by many goroutines at once. Make one with [NewHandle]: the zero value
// has no Guard until the first Swap, and panics if it has to decide before.
type Handle struct {
	swapping sync.Mutex
	current  atomic.Pointer[choice]
}

// NewHandle returns a Handle with the Guard that [New] returns, or the error of New.
func NewHandle(limiter *core.Limiter, options Options, policies ...Policy) (*Handle, error) {
	h := new(Handle)
	if err := h.Swap(limiter, options, policies...); err != nil {
		return nil, err
	}
	return h, nil
}

// Decide decides about a request with the current Guard: see [Guard.Decide].
func (h *Handle) Decide(r *http.Request, matched keyfuncs.Matched) Verdict {
	return h.guard(r, matched).Decide(r, matched)
}

// guard returns the Guard that a request meets.
func (h *Handle) guard(r *http.Request, matched keyfuncs.Matched) *Guard {
	c := h.current.Load()
	if c == nil {
		panic("ratelimit: the Handle has no policies: make it with NewHandle")
	}
	return c.of(r, matched)
}

// Swap replaces the Guard by a new one, as a whole: its options, its policies, and its
// limiter. Where [New] would return an error, Swap returns that error, and the Guard stays
// as it was.
//
// What clients have used is in the store. A named limit keeps it, also when its numbers
// change; so does an unnamed one with the same numbers. An unnamed limit with other numbers
// is another limit, and starts fresh. On the same limiter and with the same
// Options.Replicas, the [Fallback] mode goes on from what it knows. With the same
// Options.Logger, no warning is repeated.
//
// Requests that have begun go on with the Guard that began them: they are settled by its
// policies, and wait for their turn under its limits. So close a limiter that was replaced
// only when they have ended: what it can no longer settle stays charged.
func (h *Handle) Swap(limiter *core.Limiter, options Options, policies ...Policy) error {
	h.swapping.Lock()
	defer h.swapping.Unlock()
	g, err := replace(h.current.Load().heir(), limiter, options, policies)
	if err != nil {
		return err
	}
	h.current.Store(alone(g))
	return nil
}

// Explain returns what an observer would be told if the request came now: which policies it meets, with which keys and costs, what each
// of them says, and the status of the answer. It charges nothing, and leaves no trace: a body that the functions of policies read can be read
// again. Remaining is what is left now, before the request
// is charged. It knows nothing of limiters in front of this one and of [Adaptive],
// and does not wait for a place, as a MaxWait would.
//
// If the store cannot be asked, Err says why, and Unanswered has the policies. matched is as for [Handle.Decide].
func (h *Handle) Explain(r *http.Request, matched keyfuncs.Matched) Event {
	g := h.guard(r, matched)
	rc := &requestContext{Context: r.Context(), guard: g, given: r, matched: matched}
	e := Event{Request: r.WithContext(rc)} //nolint:contextcheck // it is made of the request's
	if g.capacity != nil {
		return e
	}
	body := g.boundBody(e.Request)
	body.keep()
	c, decided := g.readKeys(rc, &e, body)
	if body != nil {
		r.Body = body.rewind()
	}
	if form := e.Request.MultipartForm; form != nil && form != r.MultipartForm {
		_ = form.RemoveAll()
	}
	if decided || len(c.Checks) == 0 {
		return e
	}
	decisions, err := g.limiter.PeekAll(r.Context(), c.Checks...)
	if err != nil {
		e.Unanswered, e.Err = unanswered(&c, nil), err
		return e
	}
	g.conclude(rc, &e, c, decisions)
	return e
}
