package core

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Settlement says what a check that was charged has really cost.
type Settlement struct {
	// Check is the check as it was charged: its [Check.Units] are what was.
	Check Check
	// Cost is what it really cost: less, or more, or nothing at all.
	Cost int
	// Receipt is what the store has said of the charge.
	Receipt Receipt
	// Raise makes Cost the least that is to be used afterwards, whatever was charged:
	// nothing is added if as much is used already.
	Raise bool
}

// Refund gives back n units of what a key has used under a limit: a call that was
// charged and then failed, a goodwill gesture. It never fills a limit above full: what
// has drained or left its window meanwhile needs no giving back. A negative n is an
// error.
//
// It does not know when the units were charged, and takes back the newest. Use
// [Limiter.Reserve] and [Reservation.Settle] to give back what you have charged
// yourself, into the window that was charged.
//
// In another process a [DenialCache] may go on refusing for [LongestStaleness].
func (l *Limiter) Refund(ctx context.Context, key string, limit Limit, n int) error {
	return l.settleOne(ctx, Settlement{Check: checkOf(key, limit, n)}, n)
}

// Charge charges n units whatever is left: for what has happened already, a download
// whose size is known at its end, a penalty. It fills a limit up to its capacity, and
// what does not fit is forgiven, so that Remaining is never negative and nobody waits
// longer than the limit takes to recover. A negative n is an error.
func (l *Limiter) Charge(ctx context.Context, key string, limit Limit, n int) error {
	return l.settleOne(ctx, Settlement{Check: checkOf(key, limit, 0), Cost: n}, n)
}

func (l *Limiter) settleOne(ctx context.Context, s Settlement, n int) error {
	if n < 0 {
		return invalid("core: %d units are negative", n)
	}
	if s.Check.Limit == Unlimited {
		return validate([]Check{s.Check})
	}
	return l.settle(ctx, []Settlement{s})
}

func (l *Limiter) settle(ctx context.Context, settlements []Settlement) error {
	for i := range settlements {
		s := &settlements[i]
		if err := validate([]Check{s.Check}); err != nil {
			return err
		}
		if s.Cost < 0 {
			return invalid("core: real cost %d is negative", s.Cost)
		}
	}
	if len(corrections(settlements)) == 0 {
		return nil
	}
	return l.store.Settle(ctx, settlements)
}

// Reserve is [Limiter.AllowAll] for what has a cost that is known only later, or that
// may not happen after all: ask for an estimate, and settle the reservation when the
// real cost is known. One that is never settled, because its process died, stays
// paid.
func (l *Limiter) Reserve(ctx context.Context, checks ...Check) (*Reservation, error) {
	if len(checks) == 0 {
		return nil, invalid("core: a question needs at least one check")
	}
	if err := validate(checks); err != nil {
		return nil, err
	}
	r := l.newReservation(checks)
	r.asked = time.Now()
	if err := limitedPartOf(r.checks).decide(ctx, l.store, r.decisions, r.receipts); err != nil {
		return nil, err
	}
	r.answered = time.Now()
	return r, nil
}

// newReservation returns a reservation of checks that are still to be asked.
func (l *Limiter) newReservation(checks []Check) *Reservation {
	return &Reservation{
		limiter:   l,
		checks:    slices.Clone(checks),
		decisions: make([]Decision, len(checks)),
		receipts:  make([]Receipt, len(checks)),
	}
}

// Reservation is a call that was asked, with what it takes to settle it. It is made by
// [Limiter.Reserve] and used by one goroutine at a time.
type Reservation struct {
	limiter   *Limiter
	checks    []Check
	decisions []Decision
	receipts  []Receipt
	asked     time.Time // the decisions were made between this
	answered  time.Time // and that
	settled   bool
	// done are the checks that have been settled, where a store has settled a part of them.
	done []bool
}

// Allowed reports whether the question passed: every Decision is allowed but for
// those of shadow checks.
func (r *Reservation) Allowed() bool { return passedAll(r.checks, r.decisions) }

// Decisions returns the answers, one for each check. They must not be changed.
func (r *Reservation) Decisions() []Decision { return r.decisions }

// Settle says what the checks have really cost, in their order, and gives back or
// charges the difference, all of them in one call: into the window that was charged,
// which may have closed, so that nothing is left to be done. What was charged too much
// of a meter comes back less what has drained of it meanwhile; what was charged too
// little is added now. No limit is ever above full or below empty; see
// [Limiter.Charge].
//
// A turn in the queue of a [Shaping] limit is given back only while nobody has queued
// behind it, since the turns of others have been told.
//
// Checks that were not charged, because the call or a shadow was denied or because they are
// conditions, are left alone, and if all costs are as they were reserved, the store is not asked.
// Another number of costs than of checks, and a negative cost, are errors that change nothing.
//
// A reservation is settled once. It does not matter whether ctx has ended: the store is asked all
// the same, within its own bounds. After an error that is [ErrNotDone], nothing was settled, and
// Settle may be called again; what a cluster has settled in part is not settled twice. After any
// other error the settlement may have been carried out, and further calls are errors, since to
// repeat it could give back twice.
//
// What comes back never lets more pass than if the reservation had never been. A meter
// may give back less: the level of a key is known when something is settled and not in
// between, so that what others have charged and given back meanwhile counts as drained
// where it may have been. Nothing is given back to a key that was [Limiter.Reset], or
// that is under another plan by now than when others have given back, or if the store's
// clock has stepped back behind the charge or behind the Reset. Only a [SlidingLog] knows
// even then what is left of a charge.
func (r *Reservation) Settle(ctx context.Context, costs ...int) error {
	settlements, err := r.settlements(costs)
	if err != nil {
		return err
	}
	err = r.limiter.settle(context.WithoutCancel(ctx), settlements.list)
	r.note(settlements, err)
	return err
}

// SettleLater is [Reservation.Settle] for who does not wait for the outcome: the reservation is settled
// in the background, and counts as settled at once. While the store has certainly not carried it out
// ([ErrNotDone]), it is tried again for two seconds, so that a server that is away for a moment loses
// nothing. What could not be settled by then is logged, and stays charged as it was reserved.
// [Limiter.Close] waits for settlements in the background, for two seconds.
//
// Another number of costs than of checks, a negative cost, and a reservation that was settled before are
// errors that change nothing.
func (r *Reservation) SettleLater(costs ...int) error {
	if _, err := r.settlements(costs); err != nil {
		return err
	}
	own := *r // the caller keeps theirs, which is settled
	r.settled = true
	r.limiter.background.settle(laterSettlement{of: &own, costs: slices.Clone(costs)})
	return nil
}

// note notes what has become of settlements: what was not carried out may be settled again.
func (r *Reservation) note(s settlements, err error) {
	r.settled = !errors.Is(err, ErrNotDone)
	if partly, ok := errors.AsType[*PartlySettledError](err); ok {
		r.settled = false
		if r.done == nil {
			r.done = make([]bool, len(r.checks))
		}
		for i, check := range s.checks {
			r.done[check] = r.done[check] || !slices.Contains(partly.NotDone, i)
		}
	}
}

// ErrSettled is the error of settling a reservation again, and of waiting for the turn of one that is
// settled.
var ErrSettled = errors.New("core: the reservation has been settled before")

// settlements are those of some checks.
type settlements struct {
	list   []Settlement
	checks []int // the places of the checks
}

// settlements returns what is to be settled where the checks have really cost so much.
func (r *Reservation) settlements(costs []int) (settlements, error) {
	if len(costs) != len(r.checks) {
		return settlements{}, invalid("core: %d costs settle %d checks", len(costs), len(r.checks))
	}
	if r.settled {
		return settlements{}, ErrSettled
	}
	allowed := r.Allowed()
	var s settlements
	for i, cost := range costs {
		if cost < 0 {
			return settlements{}, invalid("core: real cost %d is negative", cost)
		}
		c := &r.checks[i]
		if r.done != nil && r.done[i] || c.Mode == Condition || c.Limit == Unlimited {
			continue
		}
		if c.Shadow && r.decisions[i].Allowed || !c.Shadow && allowed {
			s.list = append(s.list, Settlement{Check: *c, Cost: cost, Receipt: r.receipts[i]})
			s.checks = append(s.checks, i)
		}
	}
	return s, nil
}

// Cancel gives everything back: what was reserved has not happened.
func (r *Reservation) Cancel(ctx context.Context) error {
	return r.Settle(ctx, make([]int, len(r.checks))...)
}
