package guard

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
//	request, refusal := g.Check(w.Header(), r, nil)
//	if refusal != nil {
//		refusal.ServeHTTP(w, request)
//		return
//	}
//	g.Serve(w, request, func(w http.ResponseWriter, r *http.Request) int {
//		next.ServeHTTP(w, r)
//		return 0 // or the status of an error that the framework is going to answer
//	})
//
// A Guard may be used by many goroutines at once.
type Guard struct {
	limiter  *core.Limiter
	options  Options
	policies []Policy
	names    []string // what the policies are called, or "" if that depends on the request
	fields   []string // that options.Headers may write
	writer   headers.Writer
	fallback *core.Fallback // nil: no policy asks for it
	log      *eventLog
	place    *placement
}

// New returns a Guard that has the limiter decide about all policies of a request
// together. It talks to nobody.
//
// It returns the reason as an error if the limiter is nil, if there is no policy, if one
// has an invalid limit, or both or neither of Limit and LimitFor, if two have one name,
// and if a mode, a number or a unit makes no sense.
func New(limiter *core.Limiter, options Options, policies ...Policy) (*Guard, error) {
	if limiter == nil {
		return nil, errors.New("ratelimit: the limiter is nil")
	}
	fallback, err := newFallback(options, policies)
	if err := errors.Join(options.check(), checkPolicies(policies), err); err != nil {
		return nil, fmt.Errorf("ratelimit: %w", err)
	}
	if options.Headers == nil {
		options.Headers = headers.Draft
	}
	if options.OnError == unsaid {
		options.OnError = FailOpen
	}
	if options.OnOverload == unsaid {
		options.OnOverload = FailClosed
	}
	warnOfEqual(limiter, &options, policies)
	place := newPlacement(&options, policies)
	policies = slices.Clone(policies)
	for i := range policies {
		if policies[i].By == nil {
			policies[i].By = keyfuncs.RemoteIP
		}
	}
	g := &Guard{
		limiter:  limiter,
		options:  options,
		policies: policies,
		names:    names(policies),
		fields:   headers.Names(options.Headers),
		log:      &eventLog{logger: options.Logger},
		place:    place,
	}
	g.writer = headers.Prepare(options.Headers, g.described())
	g.fallback = fallback
	return g, nil
}

// Must returns the Guard that [New] has returned, and panics with the message of its error
// if there is one. It is for programs and adapters that build a Guard when they start:
//
//	g := guard.Must(guard.New(limiter, guard.Options{}, policies...))
func Must(g *Guard, err error) *Guard {
	if err != nil {
		panic(err.Error())
	}
	return g
}

// described returns the policies as a client is told of them that meets this Guard
// alone, and all of its policies.
func (g *Guard) described() []headers.Policy {
	var described []headers.Policy
	for i := range g.policies {
		if p := &g.policies[i]; !p.Shadow && p.Limit != core.Unlimited {
			described = append(described, headers.Policy{Name: g.names[i], Unit: p.Unit, Decision: core.Decision{Limit: p.Limit}})
		}
	}
	return described
}

// names returns what policies are called in headers: the names of their limits,
// with numbers where they would be the same. A policy has the same name in every
// response.
func names(policies []Policy) []string {
	names := make([]string, len(policies))
	for i := range policies {
		if p := &policies[i]; p.LimitFor == nil && !p.Shadow {
			names[i] = headers.DistinctName(p.Limit.Name(), func(name string) bool {
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
	if !g.options.LimitPreflights && isPreflight(r) {
		return r, nil
	}
	x := &exchange{Context: r.Context(), guard: g, given: r, matched: matched, outer: exchangeFrom(r.Context())}
	g.place.look(x, r)
	r = r.WithContext(x)
	ctx := r.Context()
	event := Event{Request: r}
	asked, err := g.question(r, x)
	g.place.keysRead(x, r)
	if err != nil {
		event.Unanswered = asked.unanswered(nil)
		return r, g.refuse(h, &event, http.StatusInternalServerError, err)
	}
	if len(asked.checks) == 0 {
		return r, nil
	}

	start := time.Now()
	decisions, err := g.ask(ctx, x, &asked)
	switch {
	case err == nil:
	case givenUp(ctx, err) != 0:
		event.Elapsed = time.Since(start)
		status := givenUp(ctx, err)
		if status != statusClientClosedRequest {
			event.Unanswered = asked.unanswered(nil)
		}
		return r, g.refuse(h, &event, status, timeUp(ctx, err))
	default:
		left := g.decideWithout(ctx, x, asked, err)
		if left.status != statusClientClosedRequest {
			event.Unanswered = asked.unanswered(&left.question)
		}
		if left.status != 0 {
			event.Elapsed = time.Since(start)
			return r, g.refuse(h, &event, left.status, left.err)
		}
		asked, decisions, event.Err = left.question, left.decisions, left.err
	}
	event.Elapsed = time.Since(start)
	if len(asked.checks) == 0 {
		g.report(&event)
		return r, nil
	}

	x.decided(&asked, decisions)
	x.write(h, x.room.report[:0])
	event.Outcomes = x.own()
	for i := range event.Outcomes {
		if refused(&event.Outcomes[i]) {
			return r, g.refuse(h, &event, http.StatusTooManyRequests, event.Err)
		}
	}
	if event.Held, err = g.hold(ctx, x); err != nil {
		status := http.StatusServiceUnavailable // its time is up before its turn, or the server's
		if hungUp(ctx) {
			status = statusClientClosedRequest
		}
		return r, g.refuse(h, &event, status, err)
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
// credentials and whose refusal a browser reports as a network error.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// question is what a Guard asks about a request: shadow checks last, and none that
// was charged before.
type question struct {
	checks []core.Check
	askers []asker
}

// asker is what matters of a policy that asks.
type asker struct {
	name   string // what it is called
	unit   string // what it counts
	mode   ErrorMode
	settle func(*http.Request, Served) int // nil: what is reserved is right
}

// question returns what is to be asked about a request. With an error, it returns the
// policy that could not say.
func (g *Guard) question(r *http.Request, x *exchange) (question, error) {
	asked := question{checks: x.room.check[:0], askers: x.room.asker[:0]}
	if n := len(g.policies); n > 1 {
		asked = question{checks: make([]core.Check, 0, n), askers: make([]asker, 0, n)}
	}
	for _, shadow := range [...]bool{false, true} {
		for i := range g.policies {
			p := &g.policies[i]
			if p.Shadow != shadow || p.Skip != nil && p.Skip(r) {
				continue
			}
			check, err := p.check(r)
			if err != nil {
				return g.unasked(i), fmt.Errorf("ratelimit: policy %d: %w", i, err)
			}
			if check.Limit == core.Unlimited {
				continue
			}
			if charged, place := x.outer.charged(&check, g.limiter); charged != nil {
				if p.Settle != nil || check.Cost > charged.own()[place].Cost {
					v := x.reserving()
					v.demands = append(v.demands, demand{of: charged, place: place, settle: settling(p.Settle, check.Cost)})
				}
				continue
			}
			a := asker{name: g.names[i], unit: p.Unit, mode: p.OnError, settle: p.Settle}
			if a.name == "" {
				a.name = check.Limit.Name()
			}
			if a.mode == unsaid {
				a.mode = g.options.OnError
			}
			if same := asked.find(&check); same >= 0 { // one limit, charged once
				asked.askers[same].join(&asked.checks[same], a, &check)
				continue
			}
			asked.checks, asked.askers = append(asked.checks, check), append(asked.askers, a)
		}
	}
	return asked, nil
}

// unasked returns a policy that could not say what to ask, as far as it is known.
func (g *Guard) unasked(i int) question {
	p, name := &g.policies[i], g.names[i]
	if name == "" && p.LimitFor == nil {
		name = p.Limit.Name()
	}
	return question{checks: []core.Check{{Limit: p.Limit, Shadow: p.Shadow}}, askers: []asker{{name: name}}}
}

// unanswered returns who has asked, but for those of whose checks something was
// decided.
func (q *question) unanswered(decided *question) []Unanswered {
	var list []Unanswered
	for i := range q.checks {
		c, a := &q.checks[i], &q.askers[i]
		if decided == nil || decided.find(c) < 0 {
			list = append(list, Unanswered{Policy: a.name, Limit: c.Limit, Shadow: c.Shadow, Mode: a.mode})
		}
	}
	return list
}

// find returns the place of the check of the same state that is asked already, or -1.
func (q *question) find(check *core.Check) int {
	for i := range q.checks {
		if c := &q.checks[i]; c.Key == check.Key && c.Shadow == check.Shadow && c.Limit.Same(check.Limit) {
			return i
		}
	}
	return -1
}

// join has two policies ask with one check, as both want: it costs what the dearer one
// says, before and after, and the stricter one decides when the store cannot.
func (a *asker) join(check *core.Check, other asker, theirs *core.Check) {
	if a.settle != nil || other.settle != nil {
		own, others := settling(a.settle, check.Cost), settling(other.settle, theirs.Cost)
		a.settle = func(r *http.Request, s Served) int { return max(own(r, s), others(r, s)) }
	}
	check.Cost = max(check.Cost, theirs.Cost)
	check.Mode = min(check.Mode, theirs.Mode) // it is charged if one of them is
	check.Undelayed = min(check.Undelayed, theirs.Undelayed)
	a.mode = stricter(a.mode, other.mode)
}

// settling returns what a policy says that a request has really cost: what it has asked,
// if it says nothing.
func settling(settle func(*http.Request, Served) int, cost int) func(*http.Request, Served) int {
	if settle == nil {
		return func(*http.Request, Served) int { return cost }
	}
	return func(r *http.Request, s Served) int {
		s.Cost = cost // its own, not that of who asks together with it
		return settle(r, s)
	}
}

// stricter returns that of two modes which lets less through.
func stricter(a, b ErrorMode) ErrorMode {
	for _, mode := range [...]ErrorMode{FailClosed, Fallback} {
		if a == mode || b == mode {
			return mode
		}
	}
	return FailOpen
}

// check returns what a policy asks about a request. If that is not limited, it has no key.
func (p *Policy) check(r *http.Request) (core.Check, error) {
	check := core.Check{Limit: p.Limit, Cost: 1, Shadow: p.Shadow, Undelayed: p.Undelayed}
	if p.LimitFor != nil {
		check.Limit = p.LimitFor(r)
		if check.Limit == (core.Limit{}) {
			return core.Check{}, errNoLimit
		}
		if err := check.Limit.Validate(); err != nil {
			return core.Check{}, err
		}
		if !delays(check.Limit) {
			check.Undelayed = 0
		}
	}
	if check.Limit == core.Unlimited {
		return check, nil
	}
	if p.Cost != nil {
		check.Cost = p.Cost(r)
		if check.Cost < 0 {
			return core.Check{}, fmt.Errorf("cost %d is negative", check.Cost)
		}
		if check.Cost == 0 {
			check.Mode = core.Look
		}
	}
	var err error
	check.Key, err = p.By(r)
	if errors.Is(err, keyfuncs.ErrNoKey) || err == nil && check.Key == "" {
		check.Key, err = keyfuncs.Anonymous(r)
	}
	return check, err
}

// errNoLimit is the error of a LimitFor that has returned nothing: of a plan that is in no map, say.
var errNoLimit = errors.New("LimitFor has returned the zero Limit: return a limit, or core.Unlimited for who has none")

// refuse reports an event and returns the answer to it, whose headers it writes.
func (g *Guard) refuse(h http.Header, event *Event, status int, err error) *Refusal {
	event.Status, event.Err = status, err
	refusal := &Refusal{Status: status, hook: g.options.Refused}
	switch status {
	case http.StatusTooManyRequests:
		for i := range event.Outcomes {
			if o := &event.Outcomes[i]; refused(o) {
				refusal.ViolatedPolicies = append(refusal.ViolatedPolicies, o.Policy)
				refusal.RetryAfter = max(refusal.RetryAfter, o.Decision.RetryAfter, 1) // a wait, whatever a store may say
			}
		}
	case http.StatusServiceUnavailable:
		for x, ok := event.Request.Context().(*exchange); ok && x != nil; x = x.outer {
			for _, field := range x.guard.fields { // 503 tells of no quota
				h.Del(field)
			}
		}
		refusal.RetryAfter = time.Duration(1+rand.Int64N(3)) * time.Second // spread the clients' return
	}
	refusal.writeHeaders(h)
	g.report(event)
	return refusal
}
