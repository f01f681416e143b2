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

// decidePlain decides about a request by the plain check alone: no limiter in front may have charged it, and there is no body
// that a key function could read.
func (g *generation) decidePlain(v *Verdict) {
	rc, limit := v.rc, g.plain.check.Limit
	key, err := g.policies[0].By(v.Request)
	if key == "" || err != nil {
		key, err = orAnonymous(v.Request, key, err)
	}
	rc.keysRead(v.Request)
	if err != nil {
		undecided := g.uncheckable(0)
		g.tell(v, &Event{
			Request: v.Request, Unanswered: unanswered(&undecided, nil), Status: http.StatusInternalServerError, Err: fmt.Errorf("ratelimit: policy 0: %w", err),
		})
		return
	}
	start := time.Now()
	decision, err := g.limiter.Allow(rc, key, limit)
	if err != nil {
		e, c := Event{Request: v.Request}, call{Checks: []core.Check{g.plain.check}, Terms: []terms{g.plain.terms}}
		c.Checks[0].Key = key
		g.answer(rc, &e, c, nil, err, start)
		g.tell(v, &e)
		return
	}
	rc.plainOutcome[0] = Outcome{Policy: g.plain.terms.Name, Key: key, Unit: g.plain.terms.Unit, Cost: 1, Decision: decision}
	rc.outcomes = rc.plainOutcome[:]
	if decision.Allowed && g.fallback == nil && g.options.Observe == nil {
		return
	}
	e := Event{Request: v.Request, Outcomes: rc.outcomes, Elapsed: time.Since(start)}
	if !decision.Allowed {
		e.Status = http.StatusTooManyRequests
	}
	if g.fallback != nil {
		g.fallback.Observe([]core.Check{{Key: key, Limit: limit, Cost: 1}}, []core.Decision{decision})
	}
	g.tell(v, &e)
}

// orAnonymous returns the key of a request, or the anonymous key in place of a missing one.
func orAnonymous(r *http.Request, key string, err error) (string, error) {
	if errors.Is(err, keyfuncs.ErrNoKey) || err == nil && key == "" {
		return keyfuncs.Anonymous(r)
	}
	return key, err
}
