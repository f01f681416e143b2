package core

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/wait"
)

// WaitAll is [Limiter.Reserve] that waits until the call passes, as [Limiter.Wait] does: for places of [Concurrent]
// limits to be free, and for other limits to recover. Nothing is charged
// until all checks fit. Its errors are those of Wait. Release the [Reservation.Permit] of the reservation that it
// returns, or settle it, when the work is done.
//
// While no other call waits for the same places or units, WaitAll asks at once. A denied call waits only for the limits
// that have denied it, in the line of each, in any order of its checks. The calls in one line want the same number of
// units of one key under equal limits, with the same [Check.Headroom]. They are served in the order in which they
// arrived. Calls of other lines pass them where they fit. A call that has been overtaken for half a second holds back the
// calls that may use no more than it may: a call for five places is served among calls for one, and never keeps calls
// with a larger plan or less headroom from a place. For the turn of a [Shaping] limit, call [Reservation.Wait]
// afterwards.
//
// A call for places of several limits that has waited for half a second takes them limit by limit, and keeps the ones it has while
// it is the first of this process that waits for the next ones. The limit with the fewest places comes first. So a call for
// places of two limits is served although callers of each never leave both free at once. It gives the places back while
// another limit denies it, when it gives up, and for a while each time that it has kept them for ten seconds in vain. The places of
// alternatives and of shadow checks are taken with the rest.
//
// The lines extend over all processes that share a Redis, as those of [Limiter.Wait] do, in one order with it. So for limits
// without places, there is none with [Lease] or among alternatives, and the first try of a call heeds only the calls of its own
// process.
//
// With a [LimitedError] there may be a reservation, too, which holds nothing: its Decisions are the latest answer
// to the call. It is nil if the call was never made, because others were before it all the time.
//
// WaitAll does not change checks, and does not use them after it has returned.
func (l *Limiter) WaitAll(ctx context.Context, checks []Check, options ...WaitOption) (*Reservation, error) {
	if err := validate(checks); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(checks, func(c Check) bool { return c.Mode == OnDenial }); i >= 0 {
		return nil, invalid("core: check %d has the mode OnDenial, and a call that waits may be denied many times", i)
	}
	w := &waiting{}
	if err := w.begin(ctx, options); err != nil {
		return nil, err
	}
	about := waitsFor(checks)
	if about < 0 {
		return l.reserve(ctx, checks, nil)
	}
	began := time.Now()
	q := &waitedCall{
		limiter: l, checks: slices.Clone(checks), // the call may be in flight when its caller has left
		arrived: began, until: w.until, cause: w.request.Cause, placesOnly: w.placesOnly, about: checks[about],
	}
	if w.request.Heeds {
		q.checks = append(q.checks, heldBackCheck(q.about.Key))
	}
	q.own = len(checks)
	r, err := q.wait(ctx, w.tries)
	if r != nil {
		r.waited = max(0, time.Since(began)-r.answered.Sub(r.asked))
	}
	if l.trace.Wait != nil && !w.placesOnly {
		l.trace.Wait(Wait{Limit: q.about.Limit, Units: q.about.Units(), Elapsed: time.Since(began), Err: err})
	}
	return r, err
}

// waitsFor returns which check of a call its wait is about: the first one of places, or else the first one under a limit. It
// is -1 if all are under Unlimited.
func waitsFor(checks []Check) (about int) {
	about = -1
	for i := range checks {
		if checks[i].holds() {
			return i
		}
		if about < 0 && checks[i].Limit != Unlimited {
			about = i
		}
	}
	return about
}

// waitedCall is a call that waits for places or other units.
type waitedCall struct {
	limiter    *Limiter
	checks     []Check // the caller's own, and perhaps that of heldBack behind them
	own        int
	about      Check // the check that hooks and errors name
	arrived    time.Time
	until      time.Time // zero: for ever
	cause      error     // of a LimitedError: that of the context's deadline, or nil
	placesOnly bool      // see unexported.PlacesOnly

	told    []wait.Lack    // the limits for which it sleeps, each with the instant that it was told, while it looks before
	denied  *Reservation   // the latest answer, which is a denial; nil: it was never made
	ranked  ranked         // among the calls of other processes that wait for the same rate
	steps   steps          // the limits of places that it takes one after the other
	waiters []*call.Waiter // the registrations under which the checks ask just now, if they do
	lines   []uint64       // the lines of places in which the call stood when it asked, by its checks; 0: none
}

// poll returns how long after a denial the first of a line asks again. If the store tells the waiters their turns, the
// poll covers a lost message.
func (l *Limiter) poll(attempt int) time.Duration {
	if l.wakes != nil && l.wakes.Listening() {
		return wait.Rarely()
	}
	return wait.Backoff(attempt)
}

// keyOfLine returns the key of the lines in which waiters for the units of a check stand.
func keyOfLine(c *Check) wait.LineKey {
	return wait.LineKey{Key: c.Key, Limit: c.Limit.known().Identity()}
}

func classOf(c *Check) wait.Class {
	return wait.Class{Key: keyOfLine(c), Ceiling: c.Limit.Capacity() - c.Headroom, Cost: c.Units()}
}

// wait makes the call until it passes. With a [LimitedError] it returns the latest answer, if there was one.
func (q *waitedCall) wait(ctx context.Context, tries bool) (*Reservation, error) {
	l := q.limiter
	if told := l.trace.Waiting; told != nil {
		told(q.about.Limit, 1)
		defer told(q.about.Limit, -1)
	}
	var lacks []wait.Lack
	var err error
	if l.lines.Waiting() > 0 {
		lacks, err = q.behind(ctx, tries)
	}
	if err == nil && lacks == nil {
		var r *Reservation
		if r, err = q.reserve(ctx, q.checks, nil); err == nil {
			r, lacks, err = q.answered(r)
		}
		if r != nil {
			return r, nil
		}
	}
	if err == nil && tries {
		err = q.deny(time.Time{})
	}
	if err != nil {
		return q.answer(err)
	}
	due := q.early(lacks)
	w := l.lines.Join(q.arrived, lacks)
	q.steps = newSteps(q.checks, q.arrived)
	q.keepSteps(w, lacks)
	q.publish(w, lacks, due)
	r, err := q.stand(ctx, w)
	if err != nil {
		q.leave(w, nil)
		q.dropSteps()
		return q.answer(err)
	}
	q.leave(w, func(c wait.Class) int { return q.more(r, c) })
	return r, nil
}

// answer returns an error, and with a [LimitedError] the latest answer to the caller's own checks.
func (q *waitedCall) answer(err error) (*Reservation, error) {
	if _, late := errors.AsType[*LimitedError](err); !late || q.denied == nil {
		return nil, err
	}
	q.denied.keep(q.own)
	return q.denied, err
}

// behind returns the limits for which the call has to stand behind other calls of this process, or nil. A call that a
// limit without waiting would deny is denied then.
func (q *waitedCall) behind(ctx context.Context, tries bool) (lacks []wait.Lack, err error) {
	l := q.limiter
	for first := 0; first < len(q.checks); first = endOf(q.checks, first) {
		either := q.checks[first:endOf(q.checks, first)]
		var behind []wait.Lack
		for i := range either {
			c := &either[i]
			if c.Shadow || c.Limit == Unlimited || c.Mode == Look || q.placesOnly && !c.holds() || len(l.lines.Behind(classOf(c))) == 0 {
				behind = nil // no call waits for this one
				break
			}
			behind = append(behind, wait.Lack{Class: classOf(c)})
		}
		lacks = append(lacks, behind...)
	}
	if lacks == nil || tries || !q.placesOnly || len(q.checks) == 1 {
		return lacks, nil
	}
	r := l.reservationFor(q.checks)
	r.asked = time.Now()
	if err := decide(ctx, l.decider, conditions(q.checks), r.decisions, nil, nil); err != nil {
		if ctx.Err() != nil {
			err = gaveUp(ctx)
		}
		return nil, err
	}
	r.answered = time.Now()
	l.estimate(r.decisions)
	waive(r.checks, r.decisions)
	if _, final := q.lacks(r); final {
		q.denied = r
		return nil, q.deny(time.Time{})
	}
	return lacks, nil
}

// stand waits for the call's turns, and asks at each, until it passes.
func (q *waitedCall) stand(ctx context.Context, w *wait.Waiter) (*Reservation, error) {
	var over <-chan time.Time
	if !q.until.IsZero() {
		timer := time.NewTimer(time.Until(q.until))
		defer timer.Stop()
		over = timer.C
	}
	for {
		select {
		case <-w.Turn():
		case <-q.steps.inVain():
			q.pauseSteps()
			continue
		case <-ctx.Done():
			return nil, gaveUp(ctx)
		case <-q.limiter.open.Done():
			return nil, call.ErrClosed
		case <-over:
			select {
			case <-w.Turn(): // in the same moment: the answer decides
			default:
				return nil, q.deny(time.Time{})
			}
		}
		r, lacks, err := q.ask(ctx, w)
		if err != nil && ctx.Err() == nil && q.limiter.open.Err() == nil {
			if lacks = q.sleepsOn(err); lacks != nil {
				err = nil
			}
		}
		switch {
		case r != nil && ctx.Err() != nil:
			q.limiter.cancelLater(r)
			return nil, gaveUp(ctx)
		case r != nil:
			return r, nil
		case err != nil:
			return nil, err
		case !q.until.IsZero() && !time.Now().Before(q.until):
			return nil, q.deny(time.Time{})
		}
		due := q.early(lacks)
		q.limiter.lines.Denied(w, lacks)
		for i, line := range q.lines { // the call may stand in none of these any more
			q.forget(i, line, nil)
		}
		q.keepSteps(w, lacks)
		q.publish(w, lacks, due)
	}
}

// ask makes the call of a waiter, and returns the results of answered. The waiter is registered for the lines in which it
// stands.
func (q *waitedCall) ask(ctx context.Context, w *wait.Waiter) (r *Reservation, lacks []wait.Lack, err error) {
	if lacks, err = q.takeSteps(ctx, w); lacks != nil || err != nil {
		return nil, lacks, err
	}
	checks, asked := q.next(), q.rest()
	q.register(w, asked)
	if !q.leaveRoom(ctx, w, checks) {
		if lacks, err = q.yield(ctx, w); err == nil {
			q.lookAgain(lacks)
		}
		return nil, lacks, err
	}
	if r, err = q.reservePart(ctx, checks, asked); err != nil {
		return nil, nil, err
	}
	r = q.whole(r, asked)
	q.takeRoom(r)
	if q.denied != nil {
		r.takeShadows(q.denied)
	}
	return q.answered(r)
}

// answered returns the reservation of a call if it has passed, or the limits that have denied it, or an error, which is
// a [LimitedError] if no wait helps.
func (q *waitedCall) answered(r *Reservation) (passed *Reservation, lacks []wait.Lack, err error) {
	if r.Allowed() {
		if !q.until.IsZero() {
			if index, queues := r.shaped(); queues > 0 && q.until.Before(r.asked.Add(r.decisions[index].Delay)) {
				late := r.decisions[index] // its turn comes too late
				q.limiter.cancelLater(r)
				return nil, nil, &LimitedError{Decision: late, cause: q.cause}
			}
		}
		if q.own < len(r.checks) {
			r.keep(q.own)
		}
		return r, nil, nil
	}
	if places := r.split(); places != nil {
		places.giveBackLater() // those of shadow checks
	}
	q.denied = r
	q.keepRegistered()
	lacks, final := q.lacks(r)
	if final {
		return nil, nil, q.deny(time.Time{})
	}
	for _, lack := range lacks {
		if !lack.At.IsZero() && !q.until.IsZero() && q.until.Before(lack.At) && len(lacks) == 1 {
			return nil, nil, q.deny(lack.At)
		}
	}
	q.schedule(r, lacks)
	q.lookAgain(lacks)
	return nil, lacks, nil
}

// lookAgain has the call ask before its limits recover, in case other processes have given units back.
func (q *waitedCall) lookAgain(lacks []wait.Lack) {
	if !q.limiter.ordered() {
		return
	}
	look := time.Now().Add(wait.LookAgain(time.Since(q.arrived)))
	q.told = nil
	for i := range lacks {
		if lacks[i].At.After(look) {
			if q.told == nil {
				q.told = slices.Clone(lacks)
			}
			lacks[i].At = look
		}
	}
}

// sleepsOn returns the limits for which the call sleeps on after it has looked in vain because the store has failed, or nil if it has
// not only looked.
func (q *waitedCall) sleepsOn(err error) []wait.Lack {
	_, denied := errors.AsType[*LimitedError](err)
	now := time.Now()
	if denied || !slices.ContainsFunc(q.told, func(l wait.Lack) bool { return l.At.After(now) }) {
		return nil
	}
	lacks := q.told
	q.lookAgain(lacks)
	return lacks
}

// reserve makes a call of the waiter.
func (q *waitedCall) reserve(ctx context.Context, checks []Check, waiters []*call.Waiter) (r *Reservation, err error) {
	err = unlessPanicked(func() (err error) {
		r, err = q.limiter.reserve(ctx, checks, waiters)
		return err
	})
	if err != nil && ctx.Err() != nil {
		err = gaveUp(ctx)
	}
	return r, err
}

// lacks returns the limits that have denied a call. If some of them recover by themselves, it returns only the one that
// takes longest, since the call cannot pass earlier. final says that no wait helps, or that the call does not wait for
// these limits.
func (q *waitedCall) lacks(r *Reservation) (lacks []wait.Lack, final bool) {
	now := time.Now()
	longest := wait.Lack{At: now}
	for first := 0; first < len(r.checks); first = endOf(r.checks, first) {
		var own []wait.Lack
		frees, denies := false, false
		for i := first; i < endOf(r.checks, first); i++ {
			c, d := &r.checks[i], &r.decisions[i]
			if !d.Denies() || c.Shadow {
				continue
			}
			denies = true
			if d.RetryAfter == Never {
				continue
			}
			lack := wait.Lack{Class: classOf(c)}
			if frees = frees || c.holds(); !c.holds() {
				lack.At = now.Add(d.RetryAfter)
			}
			own = append(own, lack)
		}
		switch {
		case !denies:
		case len(own) == 0 || q.placesOnly && !frees:
			return nil, true
		case frees:
			lacks = append(lacks, own...)
		default:
			soonest := slices.MinFunc(own, func(a, b wait.Lack) int { return a.At.Compare(b.At) })
			if !soonest.At.Before(longest.At) {
				longest = soonest
			}
		}
	}
	if longest.Cost > 0 {
		return []wait.Lack{longest}, false
	}
	return lacks, false
}

// more returns how many other calls of a class may pass after a reservation.
func (q *waitedCall) more(r *Reservation, class wait.Class) int {
	least := 0
	if q.waiters != nil { // this one was registered
		least = 1 // the next one registers
	}
	for i := range r.checks {
		if c := &r.checks[i]; !c.Shadow && c.Limit != Unlimited && classOf(c) == class {
			return max(least, (r.decisions[i].Remaining-c.Headroom)/max(1, class.Cost))
		}
	}
	return least
}

// deny returns the error of a call that cannot pass in time. at is when it could at the earliest, if that is known.
func (q *waitedCall) deny(at time.Time) error {
	d := Decision{Limit: q.about.Limit, RetryAfter: q.about.Limit.known().Period, Estimated: true}
	switch {
	case q.denied != nil:
		d = q.worst(q.denied)
	case !q.about.holds():
		d.Estimated = at.IsZero() // the store has not been asked
	default:
		list := [1]Decision{d}
		q.limiter.estimate(list[:])
		d = list[0]
	}
	if d.RetryAfter != Never && !d.Estimated && !at.IsZero() {
		d.RetryAfter = max(0, time.Until(at))
	}
	return &LimitedError{Decision: d, cause: q.cause}
}

// worst returns the denial of a reservation after which it takes longest until it passes.
func (q *waitedCall) worst(r *Reservation) (worst Decision) {
	for i := range r.decisions {
		if d := &r.decisions[i]; d.Denies() && !r.checks[i].Shadow && worst.RetryAfter <= d.RetryAfter {
			if worst = *d; i == q.own {
				worst.Limit = q.about.Limit // the hold-back of the key has no name
			}
		}
	}
	return worst
}

// next returns the checks of the call to be made now. Shadow checks are charged by the first try alone: the others look.
// Places of shadows are given back after each denial.
func (q *waitedCall) next() []Check {
	if q.denied == nil {
		return q.checks
	}
	checks := slices.Clone(q.checks)
	for i := range checks {
		if c := &checks[i]; c.Shadow && !c.holds() && c.Mode == Charge {
			c.Mode, c.Cost = Look, 0
		}
	}
	return checks
}

// takeShadows takes over the shadow checks that an earlier try of the same call has charged.
func (r *Reservation) takeShadows(earlier *Reservation) {
	for i := range r.checks {
		if r.checks[i].Shadow && r.checks[i] != earlier.checks[i] {
			r.checks[i], r.decisions[i], r.receipts[i] = earlier.checks[i], earlier.decisions[i], earlier.receipts[i]
		}
	}
}

// keep drops all but the first n checks of a reservation: its caller did not ask for the others.
func (r *Reservation) keep(n int) {
	r.checks, r.decisions, r.receipts = r.checks[:n], r.decisions[:n], r.receipts[:n]
}
