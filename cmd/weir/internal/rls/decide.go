package rls

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/descriptors"
	"github.com/weir-go/ratelimit/core"
)

// never is a limit for questions that no wait helps: more is asked of it than it has.
var never = core.Calendar(1, core.Every(time.Minute)).Named("none")

// state is a state of the store: of one key under one limit.
type state struct {
	key    string
	limit  core.Limit
	shadow bool
}

// decide answers the questions by one call, which charges all of them or none, and reports whether the request is denied.
//
// A request that only limits with debt deny is charged all the same.
//
// Limits with a quota deny the request only if all of them do. A request for which some of them have no room is asked again without those, so that it
// is charged to all the others.
func (s *Service) decide(ctx context.Context, all []question) (denied bool, err error) {
	quotas, refunds := 0, true // whether the request does nothing but give back
	charged := make(map[state]bool)
	for i := range all {
		q := &all[i]
		if !q.counted() {
			continue
		}
		refunds = refunds && q.negative && q.hits > 0
		if q.quota && !q.negative {
			quotas++
		}
		if !q.look() && !q.negative && q.limit.RequestsPerUnit > 0 {
			charged[q.state()] = true
		}
	}
	if refunds {
		return false, s.giveBack(ctx, all)
	}
	left := quotas
	for first := true; ; first = false {
		var of []int
		var checks []core.Check
		for i := range all {
			if q := &all[i]; q.counted() && !q.over && (first || !q.limit.Shadow) {
				of = append(of, i)
				checks = append(checks, q.check(charged[q.state()]))
			}
		}
		passed, plain := true, false // whether all fit, and whether a limit without a quota denies
		var decisions []core.Decision
		if len(checks) > 0 {
			if decisions, err = s.allow(ctx, checks); err != nil {
				return false, err
			}
		}
		for n, i := range of {
			q := &all[i]
			q.learn(decisions[n], s.options.Now())
			switch {
			case !q.over || q.limit.Shadow:
			case q.quota:
				left--
				passed = false
			default:
				plain = true
			}
		}
		if denied = plain || quotas > 0 && left == 0; denied || passed {
			break
		}
	}
	if done, err := s.chargeOver(ctx, all, denied); err != nil || !done {
		return denied, err
	}
	return denied, s.giveBack(ctx, all)
}

func (q *question) state() state {
	if q.limit.RequestsPerUnit == 0 {
		return state{} // nothing is counted
	}
	return state{q.key, q.limit.Of().Identity(), q.limit.Shadow}
}

// check returns the check of a question. If its state is charged by another question of the request, a question that charges nothing only looks.
func (q *question) check(charged bool) core.Check {
	c := core.Check{Key: q.key, Limit: q.limit.Of(), Shadow: q.limit.Shadow}
	switch {
	case q.negative && q.limit.RequestsPerUnit == 0:
		c.Limit, c.Mode = never, core.Look
	case q.negative: // it is given back when the request has passed
		c.Mode = core.Look
	case q.limit.RequestsPerUnit == 0:
		c.Limit, c.Cost, c.Mode = never, 2, core.Condition
	case q.look() && charged:
		c.Mode = core.Look
	case q.look():
		c.Mode = core.Condition
	default:
		c.Cost = int(min(q.hits, uint64(q.limit.Of().Capacity())+1))
	}
	return c
}

// learn takes the decision about a question.
func (q *question) learn(d core.Decision, now time.Time) {
	q.over, q.remaining, q.cached = !d.Allowed, d.Remaining, d.Repeated
	q.reset = d.ResetAfter
	if q.limit.RequestsPerUnit > 0 {
		q.used = q.limit.Of().Capacity() - d.Remaining
	}
	switch {
	case q.limit.RequestsPerUnit == 0:
		q.remaining, q.reset = 0, q.limit.Unit.Window(now)
	case q.limit.Dated() && q.reset == 0: // nothing is used
		q.reset = q.limit.Unit.Window(now)
	case q.over && d.RetryAfter > 0 && d.RetryAfter != core.Never:
		q.reset = d.RetryAfter
	}
}

// allow charges some checks, all of them or none. Places that it takes are held until somebody gives them back, or their lease ends: it asks the store itself,
// since a limiter would go on renewing them.
func (s *Service) allow(ctx context.Context, checks []core.Check) ([]core.Decision, error) {
	for i := range checks {
		if _, holds := checks[i].Limit.(core.Places); holds && checks[i].Mode == core.Charge {
			calls := []core.Call{{Checks: checks, Decisions: make([]core.Decision, len(checks))}}
			_, err := s.options.Store.Decide(ctx, calls)
			return calls[0].Decisions, err
		}
	}
	return s.limiter.AllowAll(ctx, checks...)
}

// chargeOver charges the hits for which limits with debt had no room. If they alone deny the request, it is charged to its other limits, too: hits that
// are reported at the end of a stream stand for work that was done, and are never forgiven. It reports whether the request is charged.
func (s *Service) chargeOver(ctx context.Context, all []question, denied bool) (charged bool, err error) {
	charged = !denied || !slices.ContainsFunc(all, func(q question) bool { return q.over && !q.limit.Shadow && !q.limit.Owes() })
	var of []*question
	for i := range all {
		q := &all[i]
		switch {
		case !q.counted() || q.negative || q.look() || q.limit.Holds() || q.limit.RequestsPerUnit == 0:
		case q.limit.Shadow && q.over && q.limit.Owes(), !q.limit.Shadow && denied && charged:
			of = append(of, q)
		}
	}
	return charged, s.charge(ctx, of, false)
}

// charge charges the hits of some questions, also where fewer are left, and learns how many are left then. merged says that limits
// in shadow mode count with others.
func (s *Service) charge(ctx context.Context, of []*question, merged bool) error {
	if len(of) == 0 {
		return nil
	}
	checks := make([]core.Check, len(of))
	for i, q := range of {
		checks[i] = core.Check{Key: q.key, Limit: q.limit.Counts, Cost: int(min(q.hits, mostHits)), Shadow: q.limit.Shadow && !merged}
	}
	decisions, err := s.limiter.ChargeAll(ctx, checks...)
	if err != nil {
		return err
	}
	for i, q := range of {
		q.learnCharge(decisions[i], s.options.Now())
	}
	return nil
}

// learnCharge takes the decision after a charge of a question that has been answered.
func (q *question) learnCharge(d core.Decision, now time.Time) {
	over, used, cached := q.over, q.used, q.cached
	q.learn(d, now)
	q.over, q.used, q.cached = over, used, cached
}

// mostPlaces is how many places a request gives back at most.
const mostPlaces = 256

// giveBack gives the negative hits of a request back, all of them in one call. Who holds a place is not known, so the oldest ones are given back.
func (s *Service) giveBack(ctx context.Context, all []question) error {
	var of []int
	var checks []core.Check
	places := mostPlaces
	for i := range all {
		q := &all[i]
		if !q.counted() || !q.negative {
			continue
		}
		if q.limit.RequestsPerUnit == 0 {
			q.reset = q.limit.Unit.Window(s.options.Now())
			continue
		}
		c := core.Check{Key: q.key, Limit: q.limit.Of(), Shadow: q.limit.Shadow && !s.options.AsReference}
		if s.options.AsReference && q.limit.Plain() {
			c.Limit = descriptors.Counter(q.limit.Unit)
		}
		most := uint64(c.Limit.Capacity())
		if q.limit.Owes() {
			most = mostHits // what is owed is given back, too
		}
		c.Cost = int(min(q.hits, most))
		if q.limit.Holds() {
			c.Cost = min(c.Cost, places)
			places -= c.Cost
		}
		if c.Cost > 0 {
			of, checks = append(of, i), append(checks, c)
		}
	}
	if len(checks) == 0 {
		return nil
	}
	decisions, err := s.limiter.RefundAll(ctx, checks...)
	if err != nil {
		return err
	}
	for n, i := range of {
		q, d := &all[i], decisions[n]
		d.Allowed = true
		if s.options.AsReference && q.limit.Plain() {
			q.learnCount(d, s.options.Now())
		} else {
			q.learn(d, s.options.Now())
			q.over = false
		}
	}
	return nil
}

// mostHits is how many hits of a question count, where each is charged by itself: more than any limit has.
const mostHits = 1 << 33

// count answers the questions as the reference does. Each is charged, over its limit or not, and is over if more than the limit was counted
// afterwards. A limit with an algorithm of its own is charged if it has room.
func (s *Service) count(ctx context.Context, all []question) (denied bool, err error) {
	var of []int
	var checks []core.Check
	for i := range all {
		switch q := &all[i]; {
		case !q.counted() || q.negative:
		case q.limit.Plain():
			c := core.Check{Key: q.key, Limit: descriptors.Counter(q.limit.Unit), Cost: int(min(q.hits, mostHits))}
			if q.look() {
				c.Mode = core.Look
			}
			of, checks = append(of, i), append(checks, c)
		default:
			check := q.check(false)
			check.Shadow = false
			decisions, err := s.allow(ctx, []core.Check{check})
			if err != nil {
				return false, err
			}
			q.learn(decisions[0], s.options.Now())
			if q.over && q.limit.Owes() && !q.look() {
				if err := s.charge(ctx, []*question{q}, true); err != nil {
					return false, err
				}
			}
		}
	}
	if len(checks) > 0 {
		decisions, err := s.limiter.AllowAll(ctx, checks...)
		if err != nil {
			return false, err
		}
		for n, i := range of {
			all[i].learnCount(decisions[n], s.options.Now())
		}
	}
	if err := s.giveBack(ctx, all); err != nil {
		return false, err
	}
	quotas, left := 0, 0
	for i := range all {
		switch q := &all[i]; {
		case !q.counted() || q.limit.Shadow || q.negative:
		case q.quota:
			quotas++
			if !q.over {
				left++
			}
		case q.over:
			denied = true
		}
	}
	return denied || quotas > 0 && left == 0, nil
}

// learnCount takes the decision of a counter.
func (q *question) learnCount(d core.Decision, now time.Time) {
	used := descriptors.Counting - d.Remaining
	if !d.Allowed {
		used = math.MaxInt
	}
	q.over = used > int(q.limit.RequestsPerUnit)
	q.used = used
	q.remaining, q.reset = max(0, int(q.limit.RequestsPerUnit)-used), q.limit.Unit.Window(now)
	if d.ResetAfter > 0 {
		q.reset = d.ResetAfter
	}
}
