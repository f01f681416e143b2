package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Guard is the engine behind the middleware of every framework: it finds the keys
// of a request, asks all its policies in one question, writes the headers, and
// says whether the request may go on. An adapter for another framework translates
// that into the framework's idiom:
//
//	request, refusal := guard.Check(w.Header(), r, nil)
//	if refusal != nil {
//		refusal.ServeHTTP(w, r)
//		return
//	}
//	next(w, request)
//
// A Guard may be used by many goroutines at once.
type Guard struct {
	limiter  *core.Limiter
	options  Options
	policies []Policy
}

// NewGuard returns a Guard. It talks to nobody. It panics with the reason if the
// limiter is nil, if there is no policy, if one has an invalid limit, or both or
// neither of Limit and LimitFor, and if two have one name.
func NewGuard(l *core.Limiter, options Options, policies ...Policy) *Guard {
	if l == nil {
		panic("ratelimit: the limiter is nil")
	}
	if err := errors.Join(options.check(), checkPolicies(policies)); err != nil {
		panic("ratelimit: " + err.Error())
	}
	if options.Headers == nil {
		options.Headers = headers.Draft
	}
	if options.Observe == nil {
		options.Observe = func(Event) {}
	}
	policies = slices.Clone(policies)
	for i := range policies {
		if policies[i].By == nil {
			policies[i].By = keyfuncs.RemoteIP
		}
	}
	return &Guard{limiter: l, options: options, policies: policies}
}

// Check decides about a request, and writes the limits' headers to h, which is
// the header of the response. It returns the request that goes on, whose context
// [DecisionFrom] understands, and nil if it may, or otherwise the answer to give.
//
// matched is what the framework's router knows about the request; nil leaves the
// key functions with the request itself. Where limits shape traffic, Check holds
// an admitted request until its turn.
func (g *Guard) Check(h http.Header, r *http.Request, matched keyfuncs.Matched) (*http.Request, *Refusal) {
	if isPreflight(r) {
		return r, nil
	}
	ctx := keyfuncs.WithMatched(r.Context(), matched)
	if matched != nil {
		r = r.WithContext(ctx)
	}
	event := Event{Request: r}
	before := exchangeFrom(ctx)
	checks, err := g.checks(r, before)
	if err != nil {
		return r, g.refuse(h, &event, http.StatusInternalServerError, err)
	}
	if len(checks) == 0 {
		return r, nil
	}

	start := time.Now()
	decisions, err := g.limiter.AllowAll(ctx, checks...)
	event.Elapsed = time.Since(start)
	switch {
	case err != nil && ctx.Err() != nil:
		return r, g.refuse(h, &event, statusClientClosedRequest, err)
	case err != nil && g.options.OnError == FailClosed:
		return r, g.refuse(h, &event, http.StatusServiceUnavailable, err)
	case err != nil:
		event.Err = err
		g.options.Observe(event)
		return r, nil
	}

	x := before.with(outcomes(checks, decisions))
	g.options.Headers.Write(h, reported(x.outcomes))
	ctx = context.WithValue(ctx, exchangeKey{}, x)
	r = r.WithContext(ctx)
	event.Outcomes = x.outcomes[len(x.outcomes)-len(checks):]
	if slices.ContainsFunc(event.Outcomes, refused) {
		return r, g.refuse(h, &event, http.StatusTooManyRequests, nil)
	}
	if err := hold(ctx, delay(event.Outcomes)); err != nil {
		return r, g.refuse(h, &event, statusClientClosedRequest, err)
	}
	g.options.Observe(event)
	return r, nil
}

// isPreflight reports whether a request is a CORS preflight, which carries no
// credentials and whose refusal a browser reports as a network error.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// checks returns what is to be asked about a request: shadow checks last, and
// none that was asked before.
func (g *Guard) checks(r *http.Request, before *exchange) ([]core.Check, error) {
	checks := make([]core.Check, 0, len(g.policies))
	for i := range g.policies {
		p := &g.policies[i]
		if p.Skip != nil && p.Skip(r) {
			continue
		}
		check, err := p.check(r)
		if err != nil {
			return nil, fmt.Errorf("ratelimit: policy %d: %w", i, err)
		}
		unlimited := check.Limit == core.Limit{}
		if unlimited || before.asked(&check) || slices.ContainsFunc(checks, func(c core.Check) bool { return sameQuestion(&c, &check) }) {
			continue
		}
		checks = append(checks, check)
	}
	slices.SortStableFunc(checks, func(a, b core.Check) int {
		switch {
		case a.Shadow == b.Shadow:
			return 0
		case b.Shadow:
			return -1
		}
		return 1
	})
	return checks, nil
}

func sameQuestion(a, b *core.Check) bool {
	return a.Key == b.Key && a.Shadow == b.Shadow && a.Limit.Same(b.Limit)
}

// check returns what a policy asks about a request, or the zero Check if it does
// not limit it.
func (p *Policy) check(r *http.Request) (core.Check, error) {
	check := core.Check{Limit: p.Limit, Cost: 1, Shadow: p.Shadow}
	if p.LimitFor != nil {
		check.Limit = p.LimitFor(r)
		if check.Limit == (core.Limit{}) {
			return core.Check{}, nil
		}
		if err := check.Limit.Validate(); err != nil {
			return core.Check{}, err
		}
	}
	if p.Cost != nil {
		check.Cost = p.Cost(r)
		if check.Cost < 0 {
			return core.Check{}, fmt.Errorf("cost %d is negative", check.Cost)
		}
	}
	var err error
	check.Key, err = p.By(r)
	if errors.Is(err, keyfuncs.ErrNoKey) || err == nil && check.Key == "" {
		check.Key, err = keyfuncs.Anonymous(r)
	}
	return check, err
}

func outcomes(checks []core.Check, decisions []core.Decision) []Outcome {
	outcomes := make([]Outcome, len(checks))
	for i := range checks {
		c := &checks[i]
		outcomes[i] = Outcome{Policy: c.Limit.Name(), Key: c.Key, Cost: c.Cost, Shadow: c.Shadow, Decision: decisions[i]}
	}
	return outcomes
}

func refused(o Outcome) bool { return !o.Shadow && !o.Decision.Allowed }

// delay returns how long an admitted request has to be held back.
func delay(outcomes []Outcome) time.Duration {
	var longest time.Duration
	for i := range outcomes {
		if o := &outcomes[i]; !o.Shadow {
			longest = max(longest, o.Decision.Delay)
		}
	}
	return longest
}

// hold waits, unless the context ends before.
func hold(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("ratelimit: gave up a place in the queue: %w", context.Cause(ctx))
	}
}

// refuse reports an event and returns the answer to it, whose headers it writes.
func (g *Guard) refuse(h http.Header, event *Event, status int, err error) *Refusal {
	event.Status, event.Err = status, err
	refusal := &Refusal{Status: status, denied: g.options.Denied}
	switch status {
	case http.StatusTooManyRequests:
		violated := reported(slices.DeleteFunc(slices.Clone(event.Outcomes), func(o Outcome) bool { return !refused(o) }))
		refusal.retryAfter, _ = headers.RetryAfter(violated)
		for _, policy := range violated {
			refusal.violated = append(refusal.violated, policy.Name)
		}
	case http.StatusServiceUnavailable:
		refusal.retryAfter = 1 + rand.Int64N(3) // spread the clients' return
	}
	refusal.writeHeaders(h)
	g.options.Observe(*event)
	return refusal
}
