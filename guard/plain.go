package guard

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// decidePlain decides about a request by the plain check alone: no limiter in front may have charged it, and there is no body
// that a function of the program could read.
func (g *generation) decidePlain(v *Verdict) {
	rc := v.rc
	check, err := g.plainCheck(rc, v.Request)
	if rc.keysRead(v.Request); err != nil {
		undecided := g.uncheckable(0)
		g.tell(v, &Event{
			Request: v.Request, Unanswered: unanswered(&undecided, nil), Status: http.StatusInternalServerError,
			Err: fmt.Errorf("ratelimit: policy 0: %w", err),
		}, nil)
		return
	}
	var start time.Time // for the observer alone
	if g.options.Observe != nil {
		start = time.Now()
	}
	decision, err := g.askPlain(rc, check)
	if err != nil {
		e, c := Event{Request: v.Request}, call{Checks: []core.Check{check}, Terms: slices.Clone(g.plain.terms)}
		g.answer(rc, &e, c, nil, err, start)
		g.tell(v, &e, nil)
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
	g.tell(v, &e, nil)
}

// plainCheck returns the check of a request, as the functions of the policy say.
func (g *generation) plainCheck(rc *requestContext, r *http.Request) (core.Check, error) {
	p, check := &g.policies[0], g.plain.check
	if !g.plain.counts {
		if g.asks {
			rc.SetPathValues(r)
		}
		if err := p.weigh(r, &check); err != nil {
			return core.Check{}, err
		}
	}
	var err error
	if check.Key, err = p.By(r); check.Key == "" || err != nil {
		check.Key, err = orAnonymous(r, check.Key, err)
	}
	return check, err
}

// askPlain has the store decide about the check of a request, and remembers a reservation.
func (g *generation) askPlain(rc *requestContext, check core.Check) (core.Decision, error) {
	switch {
	case g.plain.counts:
		return g.limiter.AllowN(rc, check.Key, g.plain.quota, 1)
	case g.plain.terms[0].Settle == nil:
		decisions, err := g.limiter.AllowAll(rc, check)
		if err != nil {
			return core.Decision{}, err
		}
		return decisions[0], nil
	}
	checks, asked := []core.Check{check}, time.Now()
	stored, err := g.limiter.Reserve(rc, checks...)
	if err != nil {
		return core.Decision{}, err
	}
	own := reserved{call: call{Checks: checks, Terms: g.plain.terms}, Reservation: stored, settles: true}
	rc.reservation = &reservation{stored: own, asked: asked}
	return stored.Decisions()[0], nil
}
