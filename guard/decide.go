package guard

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// decideAny has the lists and the policies decide about a request, and tells of it.
func (g *generation) decideAny(v *Verdict) {
	e := Event{Request: v.Request}
	body := g.boundBody(v.Request)
	if g.decide(v.rc, &e, body) {
		g.tell(v, &e, body)
	}
}

// tell tells of the decision about a request, and makes the answer if it is a denial. body is as decide has it.
func (g *generation) tell(v *Verdict, e *Event, body *keyBody) {
	rc := v.rc
	if e.Status != 0 {
		v.Denial = g.deny(e)
		v.Denial.outer, v.Denial.upload = rc.outer, body.isUpload(rc.given)
	}
	if rc.reservation != nil {
		g.reportHolder(rc, e)
	} else {
		g.report(e)
	}
}

// reportHolder reports an event of a request that may have reserved something. Its places are given back if it does not
// go on, and all that was reserved if the observer panics.
func (g *generation) reportHolder(rc *requestContext, e *Event) {
	returned := false
	defer func() {
		switch {
		case !returned && e.Status == 0:
			rc.giveBack()
		case !returned || e.Status != 0:
			rc.releasePlaces()
		}
	}()
	g.report(e)
	returned = true
}

// decide has the lists and the policies decide about the request of an event, and tells the event the
// result. It returns false if no list and no policy applies. body is as their functions read it, or nil: it is not bounded.
func (g *generation) decide(rc *requestContext, e *Event, body *keyBody) (applies bool) {
	room := callRooms.Get().(*callRoom) //nolint:forcetypeassert // the pool holds nothing else
	c, decided := g.readKeys(rc, e, body, room.call)
	body.lift(e.Request)
	rc.keysRead(e.Request)
	if applies = decided || len(c.Checks) > 0; applies && !decided {
		start := time.Now()
		decisions, err := g.ask(e.Request.Context(), rc, &c, &room.asked)
		g.answer(rc, e, c, decisions, err, start)
		if err != nil || rc.reservation != nil { // the call may still be needed
			return true
		}
		room.Checks, room.Terms = c.Checks, c.Terms // they may have grown
	}
	room.empty()
	callRooms.Put(room)
	return applies
}

// answer tells an event the answer to a call, which began at start: the decisions, or an error. It holds a request that
// may go on until its turn.
func (g *generation) answer(rc *requestContext, e *Event, c call, decisions []core.Decision, err error, start time.Time) {
	ctx := e.Request.Context()
	if err != nil {
		d := g.decideDegraded(ctx, rc, c, err)
		if d.status != statusClientClosedRequest && !isEndedWait(d.err) {
			e.Unanswered = unanswered(&c, &d.call)
		}
		c, decisions, e.Status, e.Err = d.call, d.decisions, d.status, d.err
	}
	e.Held = rc.waited()
	e.Elapsed = time.Since(start) - e.Held
	if e.Status != 0 || len(c.Checks) == 0 || g.conclude(rc, e, c, decisions) || rc.reservation == nil {
		return
	}
	held, err := g.waitForTurn(ctx, rc)
	e.Held += held
	if err != nil {
		e.Status, e.Err = http.StatusServiceUnavailable, err // its time is up before its turn, or the server's
		if hungUp(ctx) {
			e.Status = statusClientClosedRequest
		}
		return
	}
	rc.makePermit()
}

// readKeys returns the call to make about the request of an event, with all that the functions of lists and policies read of
// it. If a list decides about the request, or a policy cannot name its check, it tells the event and returns true. The call may take
// the memory of an empty one.
func (g *generation) readKeys(rc *requestContext, e *Event, body *keyBody, room call) (c call, decided bool) {
	listed := g.options.Lists.used() && g.decideByList(e)
	var err error
	if !listed && g.unreadable {
		e.Status = http.StatusRequestURITooLong
		return c, true
	}
	if !listed {
		c, err = g.call(e.Request, rc, room)
	}
	if tooLong := body.tooLong(); tooLong != nil {
		e.Listed, e.Unanswered, e.Status, e.Err = false, nil, http.StatusRequestEntityTooLarge, tooLong
		return c, true
	}
	if err != nil {
		e.Unanswered, e.Status, e.Err = unanswered(&c, nil), http.StatusInternalServerError, err
	}
	return c, listed || err != nil
}

// decideByList has the lists decide about the request of an event. It returns false if the
// policies decide.
func (g *generation) decideByList(e *Event) (decided bool) {
	allowed, denied, err := g.options.Lists.find(e.Request)
	switch {
	case err != nil:
		e.Status, e.Err = http.StatusInternalServerError, err
		for i := range g.policies {
			c := g.uncheckable(i)
			e.Unanswered = append(e.Unanswered, unanswered(&c, nil)...)
		}
	case denied:
		e.Status = http.StatusForbidden
	}
	e.Listed = allowed || denied
	return err != nil || e.Listed
}

// conclude writes the outcomes of a call into an event, and into the request's context. If they deny the request, it
// writes the status of the answer, and returns true.
func (g *generation) conclude(rc *requestContext, e *Event, c call, decisions []core.Decision) (denied bool) {
	c, decisions = c.onlyBans(decisions)
	rc.setOutcomes(&c, decisions)
	e.Outcomes = rc.own()
	if !anyDenied(e.Outcomes) {
		return false
	}
	countStrikes(&c, e.Outcomes)
	e.Status = g.statusOfDenied(&c, e.Outcomes)
	return true
}

// boundBody bounds how much of a body the functions of policies and lists can read. It returns nil if there is nothing to
// bound.
func (g *generation) boundBody(r *http.Request) *keyBody {
	if !g.readsBodies || !hasBody(r) {
		return nil
	}
	most := g.options.maxKeyBody()
	b := &keyBody{ReadCloser: r.Body, most: most, left: most}
	r.Body = b
	return b
}

// countStrikes sets the costs of bans among the outcomes of a denied request: the strikes that were made.
func countStrikes(c *call, own []Outcome) {
	banned := slices.ContainsFunc(own, func(o Outcome) bool { return bannedBy(&o) })
	for i := range c.Checks {
		if o := &own[i]; o.isBan() && !o.Shadow {
			if o.Cost = 0; c.Checks[i].Mode == core.OnDenial && !banned {
				o.Cost = c.Checks[i].Units()
			}
		}
	}
}

// statusOfDenied returns the status of a request that some outcomes deny.
func (g *generation) statusOfDenied(c *call, own []Outcome) int {
	status := http.StatusTooManyRequests
	for i := range own {
		if bannedBy(&own[i]) && !c.Terms[i].TellBan {
			status = http.StatusForbidden
		}
	}
	return status
}

// deny returns the answer to the request of an event that has a status.
func (g *generation) deny(e *Event) *Denial {
	denial := &Denial{Status: e.Status, Banned: e.Banned(), hook: g.options.Denied}
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusForbidden:
		for i := range e.Outcomes {
			o := &e.Outcomes[i]
			if !o.Denies() || denial.Banned && !o.isBan() {
				continue
			}
			denial.ViolatedPolicies = append(denial.ViolatedPolicies, o.Policy)
			if e.Status == http.StatusTooManyRequests {
				denial.RetryAfter = max(denial.RetryAfter, o.Decision.RetryAfter, 1) // a store may say 0
			}
		}
	case http.StatusServiceUnavailable:
		denial.RetryAfter = time.Duration(1+rand.Int64N(3)) * time.Second // spread the clients' return
	}
	return denial
}

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
