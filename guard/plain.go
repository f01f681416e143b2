package guard

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/algorithm"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// plain is the check of a generation with one policy about which everything but the key is known before the first request:
// a fixed limit that counts requests, a cost of one unit, and nothing that depends on the request or happens after it.
type plain struct {
	check core.Check // without its key
	terms terms
}

// findPlain returns the plain check of a generation, or nil if its requests need more than that.
func (g *generation) findPlain() *plain {
	p := &g.policies[0]
	switch {
	case len(g.policies) > 1, g.options.Lists.used(), g.options.ExemptPreflights:
		return nil
	case p.LimitFor != nil, p.Cost != nil, p.Headroom != nil, p.Skip != nil, p.Settle.Cost != nil, p.Shadow, p.bans():
		return nil
	case p.Limit == core.Unlimited, algorithm.Holds(p.Limit), algorithm.Delays(p.Limit):
		return nil
	}
	check := core.Check{Limit: p.Limit, Cost: 1}
	return &plain{check: check, terms: g.terms(0, &check)}
}

// isPlain reports whether a request needs no more than the plain check: no limiter in front may have charged it, and
// there is no body that a key function could read.
func (g *generation) isPlain(rc *requestContext, r *http.Request) bool {
	return g.plain != nil && rc.outer == nil && (!g.readsBodies || !hasBody(r))
}

// decidePlain decides about a request by the plain check alone.
func (g *generation) decidePlain(rc *requestContext, e *Event) {
	c := call{Checks: rc.room.check[:], Terms: rc.room.terms[:]}
	check := &c.Checks[0]
	*check, c.Terms[0] = g.plain.check, g.plain.terms
	var err error
	check.Key, err = g.policies[0].By(e.Request)
	if errors.Is(err, keyfuncs.ErrNoKey) || err == nil && check.Key == "" {
		check.Key, err = keyfuncs.Anonymous(e.Request)
	}
	rc.keysRead(e.Request)
	if err != nil {
		undecided := g.uncheckable(0)
		e.Unanswered, e.Status, e.Err = unanswered(&undecided, nil), http.StatusInternalServerError, fmt.Errorf("ratelimit: policy 0: %w", err)
		return
	}
	start := time.Now()
	decisions, err := g.limiter.AllowAll(e.Request.Context(), c.Checks...)
	if err != nil {
		g.answer(rc, e, c, nil, err, start)
		return
	}
	if g.fallback != nil {
		g.fallback.Observe(c.Checks, decisions)
	}
	e.Elapsed = time.Since(start)
	rc.room.outcome[0] = Outcome{Policy: c.Terms[0].Name, Key: check.Key, Unit: c.Terms[0].Unit, Cost: 1, Decision: decisions[0]}
	rc.outcomes = rc.room.outcome[:]
	if e.Outcomes = rc.outcomes; !decisions[0].Allowed {
		e.Status = http.StatusTooManyRequests
	}
}
