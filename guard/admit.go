package guard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Check decides about a request, and writes the limits' headers to h, which is
// the header of the response. It returns the request that goes on, whose context
// [DecisionFrom] understands, and nil if it may, or otherwise the answer to give.
//
// matched is what the framework's router knows about the request; nil leaves the
// key functions with the request itself. Where limits shape traffic, Check holds
// an admitted request until its turn.
func (g *Guard) Check(h http.Header, r *http.Request, matched keyfuncs.Matched) (*http.Request, *Denial) {
	if !g.options.LimitPreflights && isPreflight(r) {
		return r, nil
	}
	rc := &requestContext{Context: r.Context(), guard: g, given: r, matched: matched, outer: requestContextFrom(r.Context())}
	g.place.look(rc, r)
	r = r.WithContext(rc)
	ctx := r.Context()
	event := Event{Request: r}
	asked, err := g.call(r, rc)
	g.place.keysRead(rc, r)
	if err != nil {
		event.Unanswered = asked.unanswered(nil)
		return r, g.deny(h, &event, http.StatusInternalServerError, err)
	}
	if len(asked.checks) == 0 {
		return r, nil
	}

	start := time.Now()
	decisions, err := g.ask(ctx, rc, &asked)
	switch {
	case err == nil:
	case givenUp(ctx, err) != 0:
		event.Elapsed = time.Since(start)
		status := givenUp(ctx, err)
		if status != statusClientClosedRequest {
			event.Unanswered = asked.unanswered(nil)
		}
		return r, g.deny(h, &event, status, timeUp(ctx, err))
	default:
		left := g.decideWithout(ctx, rc, asked, err)
		if left.status != statusClientClosedRequest {
			event.Unanswered = asked.unanswered(&left.call)
		}
		if left.status != 0 {
			event.Elapsed = time.Since(start)
			return r, g.deny(h, &event, left.status, left.err)
		}
		asked, decisions, event.Err = left.call, left.decisions, left.err
	}
	event.Elapsed = time.Since(start)
	if len(asked.checks) == 0 {
		g.report(&event)
		return r, nil
	}

	rc.decided(&asked, decisions)
	rc.write(h, rc.room.report[:0])
	event.Outcomes = rc.own()
	for i := range event.Outcomes {
		if denied(&event.Outcomes[i]) {
			return r, g.deny(h, &event, http.StatusTooManyRequests, event.Err)
		}
	}
	if event.Held, err = g.hold(ctx, rc); err != nil {
		status := http.StatusServiceUnavailable // its time is up before its turn, or the server's
		if hungUp(ctx) {
			status = statusClientClosedRequest
		}
		return r, g.deny(h, &event, status, err)
	}
	g.report(&event)
	return r, nil
}

// report tells the log and the observer of an event.
func (g *Guard) report(event *Event) {
	g.log.event(event)
	if g.options.Observe != nil {
		g.options.Observe(*event)
	}
}

// hungUp reports whether the client has gone away. A deadline that passes is the
// server's own.
func hungUp(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// givenUp returns the status for a request that has no time left to be decided about, after
// an error: 499 if the client has gone away, 503 if its deadline has passed, and otherwise
// 0. No mode of a policy lets such a request through.
func givenUp(ctx context.Context, err error) int {
	switch {
	case hungUp(ctx):
		return statusClientClosedRequest
	case errors.Is(ctx.Err(), context.DeadlineExceeded), core.FailureOf(err) == core.GivenUp:
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

// isPreflight reports whether a request is a CORS preflight, which carries no
// credentials and whose denial a browser reports as a network error.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// deny reports an event and returns the answer to it, whose headers it writes.
func (g *Guard) deny(h http.Header, event *Event, status int, err error) *Denial {
	event.Status, event.Err = status, err
	denial := &Denial{Status: status, hook: g.options.Denied}
	switch status {
	case http.StatusTooManyRequests:
		for i := range event.Outcomes {
			if o := &event.Outcomes[i]; denied(o) {
				denial.ViolatedPolicies = append(denial.ViolatedPolicies, o.Policy)
				denial.RetryAfter = max(denial.RetryAfter, o.Decision.RetryAfter, 1) // a wait, whatever a store may say
			}
		}
	case http.StatusServiceUnavailable:
		for rc, ok := event.Request.Context().(*requestContext); ok && rc != nil; rc = rc.outer {
			for _, field := range rc.guard.fields { // 503 tells of no quota
				h.Del(field)
			}
		}
		denial.RetryAfter = time.Duration(1+rand.Int64N(3)) * time.Second // spread the clients' return
	}
	denial.writeHeaders(h)
	g.report(event)
	return denial
}
