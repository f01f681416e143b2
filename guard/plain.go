package guard

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// plain is the check of a generation with one policy, as known before the first request: the limit is a fixed one that counts
// requests, no request is exempt, and a request is neither held until its turn nor holds a place.
type plain struct {
	quota  core.Quota
	check  core.Check // of a request that costs one unit, without its key
	terms  []terms    // of the check alone
	counts bool       // each request costs one unit, and needs no room beside it
}

// findPlain returns the plain check of a generation, or nil if its requests need more than that.
func (g *generation) findPlain() *plain {
	p := &g.policies[0]
	switch {
	case len(g.policies) > 1, g.options.Lists.used(), g.options.ExemptPreflights:
		return nil
	case p.LimitFor != nil, p.Skip != nil, p.Shadow, p.bans():
		return nil
	}
	quota, counts := p.Limit.(core.Quota)
	if !counts || quota == core.Unlimited || p.kind.Delays {
		return nil
	}
	check := core.Check{Limit: quota, Cost: 1}
	p.suit(&check)
	return &plain{quota: quota, check: check, terms: []terms{g.terms(0, &check)}, counts: p.Cost == nil && p.Headroom == nil && p.Settle.Cost == nil}
}

// decidePlain decides about a request by the plain check alone: no limiter in front may have charged it, and there is no body
// that a function of the program could read.
func (g *generation) decidePlain(v *Verdict) {
	rc := v.rc
	check, err := g.plainCheck(v)
	if rc.keysRead(v.Request); err != nil {
		undecided := g.uncheckable(0)
		g.tell(v, &Event{
			Request: v.Request, Unanswered: unanswered(&undecided, nil), Status: http.StatusInternalServerError,
			Err: fmt.Errorf("ratelimit: policy 0: %w", err),
		})
		return
	}
	start := time.Now()
	decision, err := g.askPlain(rc, check, start)
	if err != nil {
		e, c := Event{Request: v.Request}, call{Checks: []core.Check{check}, Terms: slices.Clone(g.plain.terms)}
		g.answer(rc, &e, c, nil, err, start)
		g.tell(v, &e)
		return
	}
	terms := &g.plain.terms[0]
	rc.plainOutcome[0] = Outcome{Policy: terms.Name, Key: check.Key, Unit: terms.Unit, Cost: check.Cost, Decision: decision}
	rc.outcomes = rc.plainOutcome[:]
	if decision.Allowed && g.fallback == nil && g.options.Observe == nil {
		return
	}
	e := Event{Request: v.Request, Outcomes: rc.outcomes, Elapsed: time.Since(start)}
	if !decision.Allowed {
		e.Status = http.StatusTooManyRequests
	}
	if g.fallback != nil {
		g.fallback.Observe([]core.Check{check}, []core.Decision{decision})
	}
	g.tell(v, &e)
}

// plainCheck returns the check of a request, as the functions of the policy say.
func (g *generation) plainCheck(v *Verdict) (core.Check, error) {
	p, check := &g.policies[0], g.plain.check
	if !g.plain.counts {
		if g.asks {
			v.rc.SetPathValues(v.Request)
		}
		if err := p.weigh(v.Request, &check); err != nil {
			return core.Check{}, err
		}
	}
	var err error
	if check.Key, err = p.By(v.Request); check.Key == "" || err != nil {
		check.Key, err = orAnonymous(v.Request, check.Key, err)
	}
	return check, err
}

// askPlain has the store decide about the check of a request, and remembers a reservation.
func (g *generation) askPlain(rc *requestContext, check core.Check, start time.Time) (core.Decision, error) {
	switch {
	case g.plain.counts:
		return g.limiter.Allow(rc, check.Key, g.plain.quota)
	case g.plain.terms[0].Settle == nil:
		decisions, err := g.limiter.AllowAll(rc, check)
		if err != nil {
			return core.Decision{}, err
		}
		return decisions[0], nil
	}
	checks := []core.Check{check}
	stored, err := g.limiter.Reserve(rc, checks...)
	if err != nil {
		return core.Decision{}, err
	}
	own := reserved{call: call{Checks: checks, Terms: g.plain.terms}, Reservation: stored, settles: true}
	rc.reservation = &reservation{stored: own, asked: start}
	return stored.Decisions()[0], nil
}

// orAnonymous returns the key of a request, or the anonymous key in place of a missing one.
func orAnonymous(r *http.Request, key string, err error) (string, error) {
	if errors.Is(err, keyfuncs.ErrNoKey) || err == nil && key == "" {
		return keyfuncs.Anonymous(r)
	}
	return key, err
}
