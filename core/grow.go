package core

import (
	"context"
	"log/slog"
	"slices"

	"github.com/weir-go/ratelimit/core/internal/call"
)

// Grow reserves more, for work that turns out to be larger than its estimate: a stream that goes on. Each cost is the
// total to be reserved for a check, in the order of the checks, as [Reservation.Settle] takes the total that was used. So
// to grow twice to the same costs is to grow once. A cost that is no more than the reserved one changes nothing. If none
// is more, the store is not asked.
//
// The missing units are charged now, in one call, under the limits and with the Headroom of the checks: all or none. Grow
// returns the answers, one for each check; a check that needed nothing keeps its earlier answer. If one of them is
// denied, the reservation stays as it was, and the RetryAfter says when the same growth may pass. A growth that would
// never fit has a RetryAfter of [Never]. If the growth passed, [Reservation.Decisions] has the numbers after it.
//
// Settle corrects the sum, each charge as of the instant at which it was made: the newest units are given back first, and
// missing units are added to the newest charge.
//
// The answer of a shadow check counts for that check alone. Conditions, alternatives that were not charged ([FirstOf]),
// places of [Concurrent] limits and [Unlimited] do not grow: their costs are ignored. A [Check.Mode] of [Look] grows from
// 0. The two checks of a [FairShare] grow together: different costs for them are an error ([ErrInvalid]).
//
// After Settle the error is [ErrSettled]. A reservation that was denied, another number of costs than of checks, and
// a negative cost are errors, too ([ErrInvalid]). They change nothing. After an error of the store that is not
// [ErrNotDone], the growth may have been charged, and is not part of the reservation.
func (r *Reservation) Grow(ctx context.Context, costs ...int) ([]Decision, error) {
	if err := r.settleable(costs); err != nil {
		return nil, err
	}
	if !r.Allowed() {
		return nil, invalid("core: a reservation that was denied cannot grow")
	}
	for i := 1; i < len(costs); i++ {
		if r.checks[i].shares() && costs[i] != costs[i-1] {
			return nil, invalid("core: costs %d and %d are %d and %d, want the same for %s as for its cap", i-1, i, costs[i-1], costs[i], r.checks[i].Limit)
		}
	}
	var checks []Check
	var of []int
	for i, cost := range costs {
		c := r.checks[i].alone()
		more := cost - r.ledger.reserved(i, c.Units())
		if more <= 0 || c.Mode == Condition || c.Limit == Unlimited || r.decisions[i].Waived || c.holds() || c.Shadow && !r.decisions[i].Allowed {
			continue
		}
		c.Cost, c.Mode = more, Charge
		checks, of = append(checks, c), append(of, i)
	}
	answers := slices.Clone(r.decisions)
	if len(checks) == 0 {
		return answers, nil
	}
	own := r.limiter.reservationFor(checks)
	if err := decide(ctx, r.limiter.store, own.checks, own.decisions, own.receipts, nil); err != nil {
		return nil, call.PlacedError(err, of)
	}
	allowed := own.Allowed()
	for place, i := range of {
		answers[i] = own.decisions[place]
		if c := &checks[place]; c.Shadow && own.decisions[place].Allowed || !c.Shadow && allowed {
			r.ledger.grow(i, c.Cost, own.receipts[place])
			if !c.Shadow {
				r.decisions[i] = own.decisions[place]
			}
		}
	}
	return answers, nil
}

// noticeLate warns of a settlement that came after its reservation was given back: its ReserveFor is too short.
func (l *Limiter) noticeLate(s *Settlement) {
	if s.Lost && s.reserved() {
		defer func() { _ = recover() }() // a logger that panics changes nothing
		l.late.Log(l.logger(), "core: a reservation was settled after its ReserveFor, and its real cost charged anew",
			slog.String("limit", s.Check.Limit.String()), slog.Duration("reserve_for", s.Check.ReserveFor))
	}
}
