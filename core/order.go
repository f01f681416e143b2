package core

import (
	"context"
	"time"
)

// orderedStore is a store that can be asked several calls at once, in their order.
type orderedStore interface {
	// reserveInOrder is Reserve for several calls, one after the other, until one is denied. They
	// differ in the costs of their first checks only. It writes the answers into decisions and
	// moments, and returns how many were granted, and whether the next one was denied; otherwise it
	// may not have been asked.
	reserveInOrder(ctx context.Context, calls [][]Check, decisions [][]Decision, moments [][]Moment) (granted int, denied bool, err error)
}

// countPassed returns how many answers to calls are grants, and whether they end with a denial.
func countPassed(calls [][]Check, decisions [][]Decision) (granted int, denied bool) {
	for i := range calls {
		if !passedAll(calls[i], decisions[i]) {
			return i, true
		}
	}
	return len(calls), false
}

// firstCosts returns the costs of the first checks of calls.
func firstCosts(calls [][]Check) []int {
	costs := make([]int, len(calls))
	for i := range calls {
		costs[i] = calls[i][0].Units()
	}
	return costs
}

// reserveInOrder asks several calls until one is denied: at once, where the store can, or the first of
// them. It returns what was granted, and the denial if there is one.
func (l *Limiter) reserveInOrder(ctx context.Context, calls [][]Check) (granted []*Reservation, denied []Decision, err error) {
	store, ordered := l.store.(orderedStore)
	if !ordered {
		calls = calls[:1]
	}
	reservations := make([]*Reservation, len(calls))
	decisions, moments := make([][]Decision, len(calls)), make([][]Moment, len(calls))
	for i, checks := range calls {
		r := l.newReservation(checks)
		reservations[i], decisions[i], moments[i] = r, r.decisions, r.moments
	}
	asked := time.Now()
	n, refused := 0, false
	if ordered {
		n, refused, err = store.reserveInOrder(ctx, calls, decisions, moments)
	} else if err = l.store.Reserve(ctx, calls[0], decisions[0], moments[0]); err == nil {
		n, refused = countPassed(calls, decisions)
	}
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // it is the store's
	}
	answered := time.Now()
	for _, r := range reservations[:n] {
		r.asked, r.answered = asked, answered
	}
	if refused {
		denied = decisions[n]
	}
	return reservations[:n], denied, nil
}

// reserveInOrder implements orderedStore.
func (m *Memory) reserveInOrder(ctx context.Context, calls [][]Check, decisions [][]Decision, moments [][]Moment) (granted int, denied bool, err error) {
	for i, checks := range calls {
		if err := m.Reserve(ctx, checks, decisions[i], moments[i]); err != nil {
			if i > 0 {
				return i, false, nil // what was granted is granted
			}
			return 0, false, err
		}
		if !passedAll(checks, decisions[i]) {
			return i, true, nil
		}
	}
	return len(calls), false, nil
}

// reserveInOrder implements orderedStore.
func (c *DenialCache) reserveInOrder(ctx context.Context, calls [][]Check, decisions [][]Decision, moments [][]Moment) (granted int, denied bool, err error) {
	store, ordered := c.store.(orderedStore)
	asked := false
	last := make([]Decision, len(calls[0])) // of the first that is denied, or the last
	err = c.decide(ctx, calls[0], last, moments[0], func() (err error) {
		asked = true
		if ordered {
			granted, denied, err = store.reserveInOrder(ctx, calls, decisions, moments)
		} else if err = c.store.Reserve(ctx, calls[0], decisions[0], moments[0]); err == nil {
			granted, denied = countPassed(calls[:1], decisions)
		}
		switch {
		case err != nil:
		case denied && granted == 0:
			copy(last, decisions[0])
		case denied:
			c.noticeCharges(calls[0]) // and a denial of what has another cost is not remembered
			copy(last, decisions[granted-1])
		default:
			copy(last, decisions[granted-1])
		}
		return err
	})
	if err == nil && !asked { // the denial was repeated
		copy(decisions[0], last)
		denied = true
	}
	return granted, denied, err
}
