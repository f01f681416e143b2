package core

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/wait"
)

// A call for places of two limits, each with waiters of its own, hardly ever finds both free at once. Once it has waited for
// its patience it takes them one limit after the other, and keeps the first while it waits for the next. The limit with the
// fewest places is the first: a tenant that has used up its own few places does not keep one that all tenants share. All calls take
// limits in the same order, so that no two of them wait for each other.

// longestStep is how long a call keeps places in vain. It bounds how long calls wait for each other if they see different numbers of
// places: under two plans of one name. After each time the call leaves the places to others for twice as long as before, up to
// as long as it has kept them.
const longestStep = 10 * time.Second

// steps are the limits of which a call takes the places before it asks for all that is left.
type steps struct {
	limits [][]int        // the checks of each limit, in order
	taken  []*Reservation // of the first limits, as many as have been taken
	end    *time.Timer    // of longestStep since the first one was taken; nil: none is taken
	after  time.Time      // none is taken before
	pause  time.Duration  // the latest one
	ready  bool           // the latest denial was for places alone
}

// newSteps returns the steps of a call.
func newSteps(checks []Check, arrived time.Time) steps {
	return steps{limits: stepsOf(checks), after: arrived.Add(wait.Patience)}
}

// stepsOf returns the limits of places of a call in the order in which it takes them, without the last one. Shadow checks and
// alternatives are no steps.
func stepsOf(checks []Check) (limits [][]int) {
	for i := range checks {
		if !forPlaces(checks, i) {
			continue
		}
		c := &checks[i]
		same := slices.IndexFunc(limits, func(other []int) bool { return keyOfLine(&checks[other[0]]) == keyOfLine(c) })
		if same < 0 {
			limits = append(limits, []int{i})
		} else {
			limits[same] = append(limits[same], i)
		}
	}
	slices.SortFunc(limits, func(a, b []int) int {
		one, other := &checks[a[0]], &checks[b[0]]
		return cmp.Or(
			cmp.Compare(one.Limit.Capacity(), other.Limit.Capacity()),
			cmp.Compare(one.Key, other.Key),
			cmp.Compare(one.Limit.known().StateName, other.Limit.known().StateName),
		)
	})
	return limits[:max(0, len(limits)-1)]
}

// takeSteps takes the places of all limits but the last one, if it is time for that. It returns the limits that have denied
// it, or an error.
func (q *waitedCall) takeSteps(ctx context.Context, w *wait.Waiter) (lacks []wait.Lack, err error) {
	s := &q.steps
	if s.lost() {
		q.pauseSteps()
	}
	if !s.ready || q.denied == nil || time.Now().Before(s.after) {
		return nil, nil
	}
	for len(s.taken) < len(s.limits) {
		checks, asked := q.step(s.limits[len(s.taken)])
		q.register(w, asked)
		part, err := q.reservePart(ctx, checks, asked)
		if err != nil {
			return nil, err
		}
		if !part.Allowed() {
			q.denied = q.whole(part, asked)
			q.keepRegistered()
			lacks, final := q.lacks(part)
			if final {
				return nil, q.deny(time.Time{})
			}
			return lacks, nil
		}
		if s.taken = append(s.taken, part); len(s.taken) == 1 {
			s.end = time.NewTimer(longestStep)
			q.limiter.besides.begin(nil) // Close waits until they are given back
		}
	}
	return nil, nil
}

// step returns the checks of a step, and which ones are asked: the places of a limit, and whether the limits without places
// have room.
func (q *waitedCall) step(limit []int) (checks []Check, asked []int) {
	checks, asked = conditions(q.checks), slices.Clone(limit)
	for _, i := range limit {
		checks[i] = q.checks[i]
	}
	for first := 0; first < len(checks); first = endOf(checks, first) {
		c := &checks[first]
		if c.Shadow || forPlaces(q.checks, first) {
			continue
		}
		for i := first; i < endOf(checks, first); i++ {
			asked = append(asked, i)
		}
	}
	return checks, asked
}

// inVain returns a channel that receives when the call has kept places for too long.
func (s *steps) inVain() <-chan time.Time {
	if s.end == nil {
		return nil
	}
	return s.end.C
}

// pauseSteps gives back the places that the call has taken, and has others take theirs for a while.
func (q *waitedCall) pauseSteps() {
	q.dropSteps()
	q.steps.pause = min(max(wait.Patience, 2*q.steps.pause), longestStep)
	q.steps.after = time.Now().Add(q.steps.pause)
}

// lost reports whether places that were taken have been lost.
func (s *steps) lost() bool {
	return slices.ContainsFunc(s.taken, func(r *Reservation) bool { return r.hold.Err() != nil })
}

// keepSteps decides after a denial whether the call keeps the places that it has taken: while it waits for other places, and no older
// call of this process is before it.
func (q *waitedCall) keepSteps(w *wait.Waiter, lacks []wait.Lack) {
	q.steps.ready = !slices.ContainsFunc(lacks, func(l wait.Lack) bool { return !l.At.IsZero() })
	next := slices.ContainsFunc(lacks, func(l wait.Lack) bool { return q.limiter.lines.Next(w, l.Class) })
	if !q.steps.ready || !next {
		q.dropSteps()
	}
}

// dropSteps gives back the places that the call has taken.
func (q *waitedCall) dropSteps() {
	if taken := q.steps.taken; len(taken) > 0 {
		for _, r := range taken {
			r.hold.Unused()
		}
		q.limiter.cancelLater(taken...)
		q.endSteps()
	}
}

// endSteps forgets the places that the call has taken, when they are the call's or are given back.
func (q *waitedCall) endSteps() {
	q.steps.end.Stop()
	q.steps.end, q.steps.taken = nil, nil
	q.limiter.besides.end()
}

// rest returns which checks of the call have not been taken.
func (q *waitedCall) rest() (asked []int) {
	for i := range q.checks {
		if !slices.ContainsFunc(q.steps.limits[:len(q.steps.taken)], func(limit []int) bool { return slices.Contains(limit, i) }) {
			asked = append(asked, i)
		}
	}
	return asked
}

// reservePart makes some checks of the call, under their waiters.
func (q *waitedCall) reservePart(ctx context.Context, checks []Check, asked []int) (*Reservation, error) {
	part := make([]Check, len(asked))
	var waiters []*call.Waiter
	if q.waiters != nil {
		waiters = make([]*call.Waiter, len(asked))
	}
	for place, i := range asked {
		if part[place] = checks[i]; waiters != nil {
			waiters[place] = q.waiters[i]
		}
	}
	r, err := q.reserve(ctx, part, waiters)
	if err == nil || len(asked) == len(q.checks) || ctx.Err() != nil {
		return r, err
	}
	if _, some := errors.AsType[*UnansweredError](err); some {
		return nil, call.PlacedError(err, asked)
	}
	return nil, &UnansweredError{Checks: asked, Err: err} // the others could be decided
}

// whole returns the answer to the whole call: to the checks asked just now, to those taken before, and else the latest answer.
// If it passes, it has all places.
func (q *waitedCall) whole(part *Reservation, asked []int) *Reservation {
	if len(asked) == len(q.checks) {
		return part
	}
	r := q.limiter.reservationFor(q.denied.checks)
	copy(r.decisions, q.denied.decisions)
	copy(r.receipts, q.denied.receipts)
	r.asked, r.answered, r.hold = part.asked, part.answered, part.hold
	r.overlay(part, asked)
	holds := []*wait.Hold{part.hold}
	for step, taken := range q.steps.taken {
		r.overlay(taken, q.steps.limits[step])
		holds = append(holds, taken.hold)
	}
	if r.Allowed() {
		r.hold = q.limiter.places.Join(holds, func(p *wait.Place) int {
			return slices.IndexFunc(r.checks, func(c Check) bool { return p.Key == c.Key && p.Spec == c.Limit.known() && p.Shadow == c.Shadow })
		})
		if len(q.steps.taken) > 0 {
			q.endSteps()
		}
	}
	return r
}

// overlay replaces the answers to some checks of a reservation.
func (r *Reservation) overlay(part *Reservation, places []int) {
	for from, i := range places {
		r.checks[i], r.decisions[i], r.receipts[i] = part.checks[from], part.decisions[from], part.receipts[from]
	}
}
