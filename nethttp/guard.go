package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
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
	names    []string // what the policies are called, or "" if that depends on the request
	fields   []string // that options.Headers may write
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
		options.Observe = new(outageLog).observe
	}
	policies = slices.Clone(policies)
	for i := range policies {
		if policies[i].By == nil {
			policies[i].By = keyfuncs.RemoteIP
		}
	}
	return &Guard{
		limiter:  l,
		options:  options,
		policies: policies,
		names:    names(policies),
		fields:   headers.Names(options.Headers),
	}
}

// names returns what policies are called in headers: the names of their limits,
// with numbers where they would be the same. A policy has the same name in every
// response.
func names(policies []Policy) []string {
	names := make([]string, len(policies))
	for i := range policies {
		if p := &policies[i]; p.LimitFor == nil && !p.Shadow {
			names[i] = distinct(p.Limit.Name(), func(name string) bool {
				return slices.ContainsFunc(names[:i], func(other string) bool { return strings.EqualFold(other, name) })
			})
		}
	}
	return names
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
	checks, names, err := g.checks(r, before)
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
	case err != nil && hungUp(ctx):
		return r, g.refuse(h, &event, statusClientClosedRequest, err)
	case err != nil && g.options.OnError == FailClosed:
		return r, g.refuse(h, &event, http.StatusServiceUnavailable, err)
	case err != nil:
		event.Err = err
		g.options.Observe(event)
		return r, nil
	}

	x := before.with(outcomes(checks, names, decisions), g.limiter)
	g.options.Headers.Write(h, reported(x.outcomes))
	ctx = context.WithValue(ctx, exchangeKey{}, x)
	r = r.WithContext(ctx)
	event.Outcomes = x.outcomes[len(x.outcomes)-len(checks):]
	if slices.ContainsFunc(event.Outcomes, refused) {
		return r, g.refuse(h, &event, http.StatusTooManyRequests, nil)
	}
	if err := hold(ctx, delay(event.Outcomes)); err != nil {
		status := http.StatusServiceUnavailable // the request's time was up before its turn
		if hungUp(ctx) {
			status = statusClientClosedRequest
		}
		return r, g.refuse(h, &event, status, err)
	}
	g.options.Observe(event)
	return r, nil
}

// hungUp reports whether the client has gone away. A deadline that passes is the
// server's own.
func hungUp(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// isPreflight reports whether a request is a CORS preflight, which carries no
// credentials and whose refusal a browser reports as a network error.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// checks returns what is to be asked about a request and what the policies are
// called that ask it: shadow checks last, and none that was charged before.
func (g *Guard) checks(r *http.Request, before *exchange) (checks []core.Check, names []string, err error) {
	checks = make([]core.Check, 0, len(g.policies))
	names = make([]string, 0, len(g.policies))
	for _, shadow := range [...]bool{false, true} {
		for i := range g.policies {
			p := &g.policies[i]
			if p.Shadow != shadow || p.Skip != nil && p.Skip(r) {
				continue
			}
			check, err := p.check(r)
			if err != nil {
				return nil, nil, fmt.Errorf("ratelimit: policy %d: %w", i, err)
			}
			unlimited := check.Limit == core.Limit{}
			if unlimited || before.charged(&check, g.limiter) || slices.ContainsFunc(checks, func(c core.Check) bool { return sameQuestion(&c, &check) }) {
				continue
			}
			name := g.names[i]
			if name == "" {
				name = check.Limit.Name()
			}
			checks, names = append(checks, check), append(names, name)
		}
	}
	return checks, names, nil
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

func outcomes(checks []core.Check, names []string, decisions []core.Decision) []Outcome {
	outcomes := make([]Outcome, len(checks))
	for i := range checks {
		c := &checks[i]
		outcomes[i] = Outcome{Policy: names[i], Key: c.Key, Cost: c.Cost, Shadow: c.Shadow, Decision: decisions[i]}
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

// hold waits, unless the context ends before. It does not begin a wait that cannot
// end in time.
func hold(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return fmt.Errorf("ratelimit: the turn comes in %v, after the request's deadline: %w", d, context.DeadlineExceeded)
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
		for _, field := range g.fields { // an outer limiter's, too: 503 tells of no quota
			h.Del(field)
		}
		refusal.retryAfter = 1 + rand.Int64N(3) // spread the clients' return
	}
	refusal.writeHeaders(h)
	g.options.Observe(*event)
	return refusal
}
