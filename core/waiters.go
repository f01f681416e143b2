package core

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core/internal/queue"
	"github.com/weir-go/ratelimit/internal/alternatives"
)

// waitersOf returns the queues of a limiter.
func waitersOf(l *Limiter) *queue.Queues[queueKey, waitRequest, *Reservation, Decision] {
	return queue.New(queue.Config[queueKey, waitRequest, *Reservation, Decision]{
		Ask:      l.askForWaiters,
		Return:   func(grants []*Reservation) { l.cancelLater(grants...) },
		Together: func(a, b waitRequest) bool { return a.limit == b.limit && (a.cost == 0) == (b.cost == 0) },
		Alike:    func(a, b waitRequest) bool { return a.limit == b.limit && a.cost == b.cost },
		Fits:     func(r *Reservation, q waitRequest) bool { return r.checks[0].Units() == q.cost },
		Late: func(r *Reservation, until time.Time) bool {
			index, queues := r.shaped()
			return queues > 0 && until.Before(r.asked.Add(r.decisions[index].Delay))
		},
		Takes: func(q waitRequest) time.Duration { return microseconds(q.limit.spec.Spacing(q.cost)) },
		Deny: func(q waitRequest, latest Decision, at time.Time, r **Reservation) error {
			return q.deny(latest, at, r)
		},
		GaveUp: gaveUp,
		Most:   mostTogether,
	})
}

// mostTogether is how many waiters share a call to the store at most.
const mostTogether = 1000

// askForWaiters makes the requests of some waiters, in their order.
func (l *Limiter) askForWaiters(ctx context.Context, requests []waitRequest) (a queue.Answer[*Reservation, Decision]) {
	calls := make([][]Check, len(requests))
	for i := range requests {
		calls[i] = requests[i].checks()
	}
	var granted []*Reservation
	var denied []Decision
	a.Err = unlessPanicked(func() (err error) {
		granted, denied, err = l.reserveInOrder(ctx, calls)
		return err
	})
	a.Grants = granted
	switch {
	case a.Err != nil:
	case denied != nil:
		a.Latest = denied[0]
		var held time.Duration
		if requests[0].heeds {
			held = denied[1].RetryAfter
		}
		if a.Never = a.Latest.RetryAfter == Never; !a.Never {
			a.Next, a.Full = time.Now().Add(max(a.Latest.RetryAfter, held)), a.Latest.RetryAfter >= held
		}
	default:
		a.Latest = granted[len(granted)-1].decisions[0]
		if a.Latest.Remaining == 0 {
			a.Next, a.Full = time.Now().Add(a.Latest.NextAfter), true
		}
	}
	return a
}

// reserveInOrder makes calls, which differ in the cost of their first check, until one is denied. It
// returns what was granted, and the denial if there is one. A store may answer only the first calls.
func (l *Limiter) reserveInOrder(ctx context.Context, calls [][]Check) (granted []*Reservation, denied []Decision, err error) {
	reservations, asked := make([]*Reservation, len(calls)), make([]Call, len(calls))
	for i, checks := range calls {
		r := l.reservationFor(checks)
		reservations[i], asked[i] = r, Call{Checks: r.checks, Decisions: r.decisions, Receipts: r.receipts}
	}
	began := time.Now()
	answered, err := l.store.Decide(ctx, asked)
	switch {
	case err != nil:
		return nil, nil, err //nolint:wrapcheck // it is the store's
	case answered == 0:
		return nil, nil, errors.New("core: the store has answered none of the calls, want the first at least")
	}
	ended := time.Now()
	for i, r := range reservations[:answered] {
		if !asked[i].Passed() {
			return reservations[:i], r.decisions, nil
		}
		r.asked, r.answered = began, ended
	}
	return reservations[:answered], nil, nil
}

// deny returns the error of a waiter that cannot be admitted before an instant, or whose turn comes too
// late.
func (q *waitRequest) deny(latest Decision, at time.Time, late **Reservation) error {
	if late != nil {
		shaped, _ := (*late).shaped()
		return &LimitedError{Decision: (*late).decisions[shaped], cause: q.cause}
	}
	if q.all != nil {
		latest = q.latest(latest)
	} else {
		latest.Allowed, latest.Delay, latest.Limit = false, 0, q.limit
	}
	if latest.RetryAfter != Never && !latest.Estimated && !at.IsZero() {
		latest.RetryAfter = max(0, time.Until(at))
	}
	return &LimitedError{Decision: latest, cause: q.cause}
}

// latest returns the latest denial of a call that waits for places: its own one, or what is known of the places from
// others.
func (q *waitRequest) latest(others Decision) Decision {
	if *q.denied != nil {
		return q.worst(*q.denied)
	}
	if !others.Estimated || others.Limit.Identity() != q.limit.Identity() {
		others = Decision{RetryAfter: q.limit.spec.Period, Estimated: true}
	}
	others.Allowed, others.Limit = false, q.limit
	return others
}

// next returns the checks of a call to be made now. Shadow checks are charged by the first try alone: the others look.
// Places of shadows are given back after each denial.
func (q *waitRequest) next() []Check {
	if *q.denied == nil {
		return q.all
	}
	checks := slices.Clone(q.all)
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
		if r.checks[i] != earlier.checks[i] {
			r.checks[i], r.decisions[i], r.receipts[i] = earlier.checks[i], earlier.decisions[i], earlier.receipts[i]
		}
	}
}

// keep keeps the first checks of a reservation: its caller knows nothing of the one behind them.
func (r *Reservation) keep(n int) {
	r.checks, r.decisions, r.receipts = r.checks[:n], r.decisions[:n], r.receipts[:n]
}

// worst returns the denial of a reservation after which it takes longest until it passes.
func (q *waitRequest) worst(r *Reservation) Decision {
	place := queue.Longest(r.denied()).Place
	d := r.decisions[place]
	if place == len(q.all) {
		d.Limit = q.limit // what holds the key back has no name
	}
	return d
}

// denied returns what a reservation was denied for.
func (r *Reservation) denied() (list []queue.Denied) {
	for i := range r.decisions {
		if d := &r.decisions[i]; d.Denies() && !r.checks[i].Shadow {
			list = append(list, queue.Denied{Place: i, RetryAfter: d.RetryAfter, Frees: r.waitsForPlace(i)})
		}
	}
	return list
}

// placeWaitersOf returns the queues of a limiter for calls that wait for places.
func placeWaitersOf(l *Limiter) *queue.Queues[queueKey, waitRequest, *Reservation, Decision] {
	config := l.waiters.Config
	config.Ask = l.askForPlaces
	alike := func(a, b waitRequest) bool { return slices.Equal(a.all, b.all) }
	config.Together, config.Alike = alike, alike // a grant that leaves no place tells the next waiter so
	config.Fits = func(r *Reservation, q waitRequest) bool { return slices.Equal(r.checks, q.all) }
	config.Most = 1
	config.Poll = queue.Backoff // in case another process has given a place back
	return queue.New(config)
}

// wakePlaceWaiters has those asked for who wait for places like those of a check: some may be free now.
func (l *Limiter) wakePlaceWaiters(c *Check) {
	key := queueKey{key: c.Key, limit: c.Limit.spec.Identity()}
	l.placeWaiters.Wake(key)
	key.heeds = true
	l.placeWaiters.Wake(key)
}

// waitsForPlace reports whether a denied check waits for a place, or one of its alternatives does.
func (r *Reservation) waitsForPlace(place int) bool {
	if r.checks[place].holds() {
		return true
	}
	first, end := alternatives.Of(r.checks, place, (*Check).isOr)
	return alternatives.Fitting(first, end, func(i int) bool { return r.checks[i].holds() && r.decisions[i].RetryAfter != Never }) >= 0
}

// askForPlaces makes the call of the first of some waiters.
func (l *Limiter) askForPlaces(ctx context.Context, requests []waitRequest) (a queue.Answer[*Reservation, Decision]) {
	q := &requests[0]
	checks := q.next()
	if q.heeds {
		checks = append(slices.Clip(checks), heldBackCheck(q.key))
	}
	var r *Reservation
	a.Err = unlessPanicked(func() (err error) {
		r, err = l.Reserve(ctx, checks...)
		return err
	})
	if a.Err != nil {
		return a
	}
	now := time.Now()
	if earlier := *q.denied; earlier != nil {
		r.takeShadows(earlier)
	}
	if r.Allowed() {
		r.keep(len(q.all))
		a.Grants, a.Latest = []*Reservation{r}, r.decisions[0]
		for i := range r.decisions {
			if r.checks[i].holds() && r.decisions[i].Remaining == 0 && !isEither(r.checks, i) {
				a.Latest, a.Again = l.untilFree(r.decisions[i]), now.Add(queue.Unknown)
			}
		}
		return a
	}
	if places := r.Split(); places != nil {
		places.giveBackLater() // those of shadow checks
	}
	*q.denied, a.Latest = r, q.worst(r)
	a.Denied(now, r.denied(), q.placesOnly)
	return a
}
