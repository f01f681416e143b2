package guard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// decideAbout is [Guard.Decide] for one generation.
func (g *generation) decideAbout(r *http.Request, matched keyfuncs.Matched) (verdict Verdict) {
	if g.capacity != nil {
		return g.decideByCapacity(r)
	}
	if hasBody(r) {
		shareTrailer(r)
	}
	rc := g.newContext(r, matched)
	g.placement.Look(r)
	verdict = Verdict{Request: r.WithContext(rc), rc: rc}
	defer func() { // also after a panic
		if rc.tellGiven(verdict.Request); rc.form != nil && !rc.goesOn {
			rc.removeForm()
		}
	}()
	if g.plain != nil && rc.outer == nil && (!g.readsBodies || !hasBody(r)) {
		g.decidePlain(&verdict)
	} else {
		g.decideAny(&verdict)
	}
	rc.goesOn = verdict.Denial == nil || verdict.Denial.hooked()
	return verdict
}

// decideAny has the lists and the policies decide about a request, and tells of it.
func (g *generation) decideAny(v *Verdict) {
	e := Event{Request: v.Request}
	if g.decide(v.rc, &e) {
		g.tell(v, &e)
	}
}

// tell tells of the decision about a request, and makes the answer if it is a denial.
func (g *generation) tell(v *Verdict, e *Event) {
	rc := v.rc
	if e.Status != 0 {
		v.Denial = g.deny(e)
		v.Denial.outer, v.Denial.upload = rc.outer, rc.body.isUpload(rc.given)
	}
	if rc.reservation != nil {
		g.reportHolder(rc, e)
	} else {
		g.report(e)
	}
}

// decide has the lists and the policies decide about the request of an event, and tells the event the
// result. It returns false if no list and no policy applies.
func (g *generation) decide(rc *requestContext, e *Event) (applies bool) {
	rc.body = g.boundBody(e.Request)
	c, decided := g.readKeys(rc, e, rc.body)
	rc.body.lift(e.Request)
	rc.keysRead(e.Request)
	if decided || len(c.Checks) == 0 {
		return decided
	}
	start := time.Now()
	decisions, err := g.ask(e.Request.Context(), rc, &c)
	g.answer(rc, e, c, decisions, err, start)
	return true
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
	held, err := g.hold(ctx, rc)
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
// it. If a list decides about the request, or a policy cannot name its check, it tells the event and returns true.
func (g *generation) readKeys(rc *requestContext, e *Event, body *keyBody) (c call, decided bool) {
	listed := g.options.Lists.used() && g.decideByList(e)
	var err error
	if !listed && g.unreadable {
		e.Status = http.StatusRequestURITooLong
		return c, true
	}
	if !listed {
		c, err = g.call(e.Request, rc)
	}
	if tooLong := body.tooLong(); tooLong != nil {
		e.Listed, e.Unanswered, e.Status, e.Err = Unlisted, nil, http.StatusRequestEntityTooLarge, tooLong
		return c, true
	}
	if err != nil {
		e.Unanswered, e.Status, e.Err = unanswered(&c, nil), http.StatusInternalServerError, err
	}
	return c, listed || err != nil
}

// conclude writes the outcomes of a call into an event, and into the request's context. If they deny the request, it
// writes the status of the answer, and returns true.
func (g *generation) conclude(rc *requestContext, e *Event, c call, decisions []core.Decision) (denied bool) {
	c, decisions = c.OnlyBans(decisions)
	rc.setOutcomes(&c, decisions)
	e.Outcomes = rc.own()
	if !anyDenied(e.Outcomes) {
		return false
	}
	countStrikes(&c, e.Outcomes)
	e.Status = g.statusOfDenied(&c, e.Outcomes)
	return true
}

// ask has the store decide about a call, and remembers a reservation.
func (g *generation) ask(ctx context.Context, rc *requestContext, c *call) ([]core.Decision, error) {
	if !c.Reserves() {
		decisions, err := g.limiter.AllowAll(ctx, c.Checks...)
		g.observe(c, decisions, err)
		return decisions, err
	}
	v := rc.reserving()
	v.asked = time.Now()
	var decisions []core.Decision
	var stored *core.Reservation
	var err error
	if longest := c.MaxWait.Longest; longest > 0 && c.TakesPlaces() {
		stored, decisions, err = g.waitForPlaces(ctx, c, longest)
		v.waited = time.Since(v.asked)
		if stored != nil {
			v.waited = stored.Waited()
		}
		v.asked = v.asked.Add(v.waited)
	} else if stored, err = g.limiter.Reserve(ctx, c.Checks...); err == nil {
		decisions = stored.Decisions()
	}
	if err != nil {
		return nil, err
	}
	g.observe(c, decisions, nil)
	if stored != nil {
		v.stored = reservedBy(c, stored)
	}
	return decisions, nil
}

// observe lets the fallback know the decisions of the store.
func (g *generation) observe(c *call, decisions []core.Decision, err error) {
	if g.fallback != nil && err == nil {
		g.fallback.Observe(c.Checks, decisions)
	}
}

// observeSettled lets the fallback know the real cost of a request.
func (g *generation) observeSettled(ctx context.Context, v *reservation, costs []int) {
	if g.fallback != nil && v.stored.Reservation != nil {
		g.fallback.ObserveSettled(ctx, v.stored.Reservation, v.stored.Checks, time.Since(v.asked), costs)
	}
}

// reserve remembers the reservation of a call that this process has decided by itself.
func (rc *requestContext) reserve(local reserved) {
	if local.Reservation != nil && local.Reserves() {
		rc.reserving().local = local
	}
}

// report tells the log and the observer of an event.
func (g *generation) report(event *Event) {
	if event.Status != 0 || event.Err != nil {
		g.log.event(event)
	}
	if g.options.Observe != nil {
		g.options.Observe(*event)
	}
}

// hungUp reports whether the client has gone away. A deadline that passes is the
// server's own.
func hungUp(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// givenUp returns the status for a request that has no time left to be decided about, after
// an error: 499 if the client has gone away, 503 if its deadline has passed or the server is
// shutting down, and otherwise 0. No mode of a policy lets such a request through.
func givenUp(ctx context.Context, err error) int {
	switch {
	case hungUp(ctx):
		return statusClientClosedRequest
	case errors.Is(ctx.Err(), context.DeadlineExceeded), isEndedWait(err), core.FailureOf(err) == core.GivenUp:
		return http.StatusServiceUnavailable
	}
	return 0
}

// timeUp returns an error that tells of the request's deadline, if that has passed.
func timeUp(ctx context.Context, err error) error {
	if ended := ctx.Err(); errors.Is(ended, context.DeadlineExceeded) && !errors.Is(err, ended) {
		return fmt.Errorf("ratelimit: the deadline of the request has passed: %w (%w)", ended, err)
	}
	return err
}

// exempts reports whether no policy but bans is asked about a request.
func (o *Options) exempts(r *http.Request) bool { return o.ExemptPreflights && isPreflight(r) }

// isPreflight reports whether a request may be a CORS preflight, which has no body. Any client can write one.
func isPreflight(r *http.Request) bool {
	hasBody := r.ContentLength != 0 || len(r.TransferEncoding) > 0
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != "" && !hasBody
}
