package core

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/wait"
)

// Settlement corrects a charged check to its real cost.
type Settlement struct {
	// Check is the check that was charged, with its [Check.Units].
	Check Check
	// Cost is the real cost: less or more than was charged, or 0. For a check that has asked about a [Ban] without
	// charging it, the Cost is the number of strikes to make; a negative Cost forgives as many.
	Cost int
	// Receipt is the store's receipt for the charge.
	Receipt Receipt
	// Raise raises the used units of the limit to Cost, regardless of the Check's charge. If at least Cost is used
	// already, nothing changes.
	Raise bool
	// Renew begins the lease of the places of a [Concurrent] limit anew; the limit of the Check says how long it lasts. A
	// settlement of such a limit without Renew gives back all places of its Receipt, regardless of the Cost.
	Renew bool
	// Oldest gives back as many places of a [Concurrent] limit as the Check has Units, of any holders: the places with leases
	// that end first. See [Limiter.RefundAll]. It does not go with Renew, and the Receipt means nothing.
	Oldest bool
	// BanFor begins a [Ban] by hand that lasts this long, in place of strikes: see [Limiter.Ban]. Reason is its reason.
	// The default is 0, which begins none.
	BanFor time.Duration
	Reason string
	// TopUp tops a [Balance] up by the Cost: it is the name of the event that pays for that, as [Limiter.TopUp] has it. The Receipt means
	// nothing.
	TopUp string
	// The store sets Lost if Renew has found no lease to renew: the lease has ended, or a [Limiter.Reset] has taken the
	// places away. That is no error, and changes nothing. For a check with a ReserveFor, Lost means that the units had
	// been given back, so that the Cost was charged anew. For a TopUp it means that the balance had been topped up by that event
	// before, and has not changed.
	Lost bool
	// The store writes into Decision the numbers of the limit after the settlement, as a check with the Mode [Look] would
	// get them. A nil Decision asks for none, which saves the store the work. The store writes it only if the settlement
	// was certainly carried out.
	Decision *Decision
}

// Refund gives back n units that a key has used under a limit: after a job that was charged and then failed, or as a
// goodwill gesture. It never fills a limit above full: units that have drained or left their window meanwhile are not
// given back. A negative n is an error.
//
// Refund does not know when the units were charged, and gives back the newest. To give
// back your own charge into the window that was charged, use [Limiter.Reserve] and
// [Reservation.Settle].
//
// Refund returns the numbers of the limit afterwards, as a check with the Mode [Look] gets them. If n is 0, it changes
// nothing.
//
// A cache of denials (denialcache.New) in another process may go on denying for ten seconds.
func (l *Limiter) Refund(ctx context.Context, key string, limit Quota, n int) (Decision, error) {
	return l.settleOne(ctx, Settlement{Check: checkOf(key, limit, n)}, n)
}

// RefundAll gives back units of several checks, in one round trip, and returns the numbers of each limit afterwards. Each check
// gives back its [Check.Units] as [Limiter.Refund] does; a [Check.Shadow] check gives them back to the state that shadows are
// charged to. A check of a [Ban] forgives as many strikes.
//
// A check of a [Concurrent] limit gives back places of any holders: for callers without a [Permit] that do not know the holder,
// such as a gateway where another process hears of the end of a request. The places with leases that end first are given back, and
// calls that wait for places are woken. Never more are given back than are held. To give a place back twice is to give back the
// place of another holder, too: do not repeat a RefundAll that may have been carried out, and choose a lease that is short enough to
// bear a lost one. A [Permit] of which some places were given back ends at its next renewal; the rest of its places is free
// when their lease ends.
//
// A check has a Key, a Limit, a Cost and a Shadow alone: others are errors ([ErrInvalid]) that change nothing, and so are checks that
// give back more than 256 places together.
//
// A cluster or ring gives back on all servers at once. After an error some may have been given back, unless it is
// [ErrNotDone]; a [PartlySettledError] tells which were certainly not.
func (l *Limiter) RefundAll(ctx context.Context, checks ...Check) ([]Decision, error) {
	if err := validateRefunds(checks); err != nil {
		return nil, err
	}
	return l.settleChecks(ctx, checks, func(c Check) Settlement { return Settlement{Check: c, Oldest: c.holds()} })
}

// Charge charges n units even if fewer are left: for a download with a size that is known at its end, or for a penalty.
// It fills a limit up to its capacity and drops the rest. Under a limit with debt ([Quota.WithDebt]) it goes on into the debt,
// and drops only the units beyond that. Remaining is never negative. A negative n is an error.
//
// Charge returns the numbers of the limit afterwards, as a check with the Mode [Look] gets them. If n is 0, it changes
// nothing.
func (l *Limiter) Charge(ctx context.Context, key string, limit Quota, n int) (Decision, error) {
	return l.settleOne(ctx, Settlement{Check: checkOf(key, limit, 0), Cost: n}, n)
}

// ChargeAll charges units of several limits in one round trip, even if fewer are left, and returns the numbers of each limit
// afterwards. Each check charges its [Check.Units] as [Limiter.Charge] does; a [Check.Shadow] check charges them to the state that
// shadows are charged to.
//
// A check has a Key, a Limit that is a [Quota], a Cost and a Shadow alone: others are errors ([ErrInvalid]) that change nothing.
//
// A cluster or ring charges on all servers at once. After an error some may have been charged, unless it is [ErrNotDone]; a
// [PartlySettledError] tells which were certainly not.
func (l *Limiter) ChargeAll(ctx context.Context, checks ...Check) ([]Decision, error) {
	if err := validateCharges(checks); err != nil {
		return nil, err
	}
	return l.settleChecks(ctx, checks, func(c Check) Settlement {
		cost := c.Units()
		c.Mode = Look
		return Settlement{Check: c, Cost: cost}
	})
}

// settleChecks settles checks that make sense, each by the settlement that is made of it, and returns the numbers of their limits
// afterwards.
func (l *Limiter) settleChecks(ctx context.Context, checks []Check, settlementOf func(Check) Settlement) ([]Decision, error) {
	decisions, settlements := make([]Decision, len(checks)), make([]Settlement, 0, len(checks))
	for i, c := range checks {
		if c.Limit == Unlimited {
			decisions[i] = unlimitedDecision()
			continue
		}
		one := settlementOf(c)
		one.Decision = &decisions[i]
		settlements = append(settlements, one)
	}
	if err := l.settle(ctx, settlements); err != nil {
		return nil, err
	}
	return decisions, nil
}

// settleOne settles one settlement of n units, and returns the numbers of the limit afterwards.
func (l *Limiter) settleOne(ctx context.Context, s Settlement, n int) (Decision, error) {
	if n < 0 {
		return Decision{}, invalid("core: %d units are negative", n)
	}
	if s.Check.Limit == Unlimited {
		if err := validate([]Check{s.Check}); err != nil {
			return Decision{}, err
		}
		return unlimitedDecision(), nil
	}
	if err := validate([]Check{{Key: s.Check.Key, Limit: s.Check.Limit}}); err != nil {
		return Decision{}, err
	}
	told := new(Decision)
	s.Decision = told
	if err := l.settle(ctx, []Settlement{s}); err != nil {
		return Decision{}, err
	}
	return *told, nil
}

// settle has the store carry out settlements of checks that make sense, and wakes the waiters for units that are free now.
func (l *Limiter) settle(ctx context.Context, settlements []Settlement) error {
	if len(settlements) == 0 {
		return nil
	}
	err := l.store.Settle(ctx, settlements)
	for i := range settlements {
		s := &settlements[i]
		if s.Lost && s.TopUp == "" {
			l.noticeLate(s)
		}
		if !s.Renew && !s.Raise && (s.Cost < s.Check.Units() || s.Check.holds()) {
			l.wakeWaiters(&s.Check)
		}
	}
	return err
}

// Reserve is [Limiter.AllowAll] for work with a cost that is known only later, or that may not happen at all. Reserve an
// estimate, and settle the reservation when the real cost is known. A reservation that is never settled, because its
// process died, stays charged, or is given back when its [Check.ReserveFor] is over.
func (l *Limiter) Reserve(ctx context.Context, checks ...Check) (*Reservation, error) {
	if err := validate(checks); err != nil {
		return nil, err
	}
	return l.reserve(ctx, checks, nil)
}

// reserve is Reserve for checks that make sense, some of which may register waiters.
func (l *Limiter) reserve(ctx context.Context, checks []Check, waiters []*call.Waiter) (*Reservation, error) {
	r := l.reservationFor(checks)
	r.asked = time.Now()
	if err := l.decideSettled(ctx, r.checks, r.decisions, r.receipts, waiters); err != nil {
		r.giveBackUncertain(err)
		return nil, err
	}
	r.answered = time.Now()
	r.takePlaces()
	if l.estimate(r.decisions) {
		waive(r.checks, r.decisions)
	}
	return r, nil
}

// reservationFor returns a reservation of checks that have not been decided yet.
func (l *Limiter) reservationFor(checks []Check) *Reservation {
	if len(checks) == 1 { // all in one piece of memory
		own := new(struct {
			Reservation

			checks    [1]Check
			decisions [1]Decision
			receipts  [1]Receipt
		})
		r := &own.Reservation
		own.checks[0] = checks[0]
		r.limiter, r.checks, r.decisions, r.receipts = l, own.checks[:], own.decisions[:], own.receipts[:]
		return r
	}
	return &Reservation{
		limiter:   l,
		checks:    slices.Clone(checks),
		decisions: make([]Decision, len(checks)),
		receipts:  make([]Receipt, len(checks)),
	}
}

// Reservation is a call that has been decided and can be settled. It is made by
// [Limiter.Reserve] and used by one goroutine at a time.
type Reservation struct {
	limiter   *Limiter
	checks    []Check
	decisions []Decision
	receipts  []Receipt
	asked     time.Time // the store has decided between asked
	answered  time.Time // and answered
	ledger    ledger
	hold      *wait.Hold // nil: it has no places that have to be given back
	// waited is how long the reservation was waited for: see Waited.
	waited time.Duration
}

// Allowed reports whether the call passed: none of its decisions denies it ([Decision.Denies]), those of shadow checks
// left aside.
func (r *Reservation) Allowed() bool { return passed(r.checks, r.decisions) }

// Decisions returns the answers, one for each check. The caller must not change them. After [Reservation.Settle] has
// asked the store, it replaces those of the settled checks by the numbers after the settlement, as a check with the Mode
// [Look] gets them.
func (r *Reservation) Decisions() []Decision { return r.decisions }

// Settle takes the real costs of the checks, in their order, and gives back or charges the differences, all of them at
// once. A window is corrected if it is still open. A meter gets back the units that were charged too much, less those
// drained meanwhile. Missing units are charged now; a window without debt takes them only while it is open. No limit is ever
// below empty, nor above full, unless it has debt ([Quota.WithDebt]); see [Limiter.Charge].
//
// A turn in the queue of a [Shaping] limit is given back only if no other request has queued behind it, since later
// requests have been told their turns.
//
// Places of [Concurrent] limits are all given back: their costs are ignored.
//
// The cost of a check that has asked about a [Ban] without charging it is its strikes: 0 makes none, and less than 0
// forgives as many.
//
// Other checks that were not charged are left alone: conditions, denied checks, and checks of a denied call. Of
// alternatives ([FirstOf]), Settle settles the charged one and ignores the costs of the others. If all costs are as they
// were reserved, the store is not asked, and the Decisions stay as they are. Another number of costs than of checks, and
// a negative cost, are errors that change nothing.
//
// A reservation is settled once. Settle asks the store even if ctx has ended, within the store's own bounds. After an
// error that is [ErrNotDone], nothing was settled, and Settle may be called again; the settlements that a cluster has
// carried out are not repeated. After any other error the settlement may have been carried out. Further calls are errors
// then, since they could give back twice. Places of [Concurrent] limits are then given back again in the background.
//
// A settlement never lets more pass than if the reservation had never been made. A meter is afterwards as if it had been
// charged the real cost at once, however many reservations overlap. For this it keeps a note of each open reservation, of
// the latest 4,000 or more for each key and limit. Older reservations get nothing back, nor do units that a key had used
// before a [Limiter.Reset]. A window gives nothing back if the store's clock has stepped back behind the charge or the
// Reset; a [SlidingLog] knows even then how much of a charge has not left the window.
func (r *Reservation) Settle(ctx context.Context, costs ...int) error {
	s := settlementLists.Get().(*settlements) //nolint:forcetypeassert // the pool holds nothing else
	if err := r.settlements(s, costs); err != nil {
		s.free()
		return err
	}
	if r.hold != nil {
		r.hold.End()
	}
	for i := range s.list {
		if charge := &s.charges[i]; !charge.grown && !r.checks[charge.check].holds() { // others take and give back places all the time
			s.list[i].Decision = &r.decisions[charge.check]
		}
	}
	err := r.limiter.settle(context.WithoutCancel(ctx), s.list)
	r.note(s, err)
	s.free() // not after a panic
	if _, partly := errors.AsType[*PartlySettledError](err); !r.ledger.settled && !partly && !errors.Is(err, ErrNotDone) {
		r.laterOrLost(costs) // its places alone
	}
	return err
}

// later settles an unsettled reservation in the background. The reservation counts as settled at once, unless later
// returns an error.
func (r *Reservation) later(costs []int) error {
	own := *r // the caller keeps r
	if !r.limiter.background.add(laterSettlement{of: &own, costs: slices.Clone(costs)}) {
		return errBacklog
	}
	r.ledger.settled = true
	return nil
}

// laterOrLost is later for a reservation that has no other way to be settled.
func (r *Reservation) laterOrLost(costs []int) {
	if err := r.later(costs); err != nil {
		r.limiter.reportLost(1, 0, err)
	}
}

// SettleLater is [Reservation.Settle] without waiting for the outcome. The reservation is settled in the background, and
// counts as settled at once. The Decisions stay as they are.
//
// While the store has certainly not settled it ([ErrNotDone]), SettleLater retries for two seconds from its first try, so
// that a short outage loses nothing. Reservations that could not be settled by then stay charged as they were reserved;
// the log has their number. Places of [Concurrent] limits wait for no other settlements. [Limiter.Close] waits up to two
// seconds for settlements in the background.
//
// 65,536 reservations may wait to be settled. For one more, SettleLater returns an error that is [ErrNotDone] and
// [Overloaded]: it can be settled later, or by Settle.
//
// Another number of costs than of checks, a negative cost, and a reservation that was settled before
// are errors that change nothing.
func (r *Reservation) SettleLater(costs ...int) error {
	if err := r.settlements(new(settlements), costs); err != nil { // which also claims the places
		return err
	}
	r.hold.End()
	return r.later(costs)
}

// note notes which settlements were carried out. The others may be settled again. So may those of places if it is
// not known: to give them back twice is to give them back once.
func (r *Reservation) note(s *settlements, err error) {
	partly, isPartly := errors.AsType[*PartlySettledError](err)
	switch {
	case isPartly:
		r.ledger.settledBut(s.charges, partly.NotDone)
	case err == nil || errors.Is(err, ErrNotDone):
		r.ledger.settled = err == nil
	default:
		r.ledger.perhapsSettled(s.charges, func(check int) bool { return r.checks[check].holds() })
	}
}

// ErrSettled is the error of settling a reservation again, and of waiting for the turn of one that is
// settled.
var ErrSettled = errors.New("core: the reservation has been settled before")

// settlements are the settlements of some charges. There are none if they would change nothing.
type settlements struct {
	list    []Settlement
	charges []openCharge
}

// settlementLists are settlements to be used again, since a Store's arguments escape to the heap.
var settlementLists = sync.Pool{New: func() any { return new(settlements) }}

func (s *settlements) free() {
	clear(s.list)
	clear(s.charges)
	s.list, s.charges = s.list[:0], s.charges[:0]
	settlementLists.Put(s)
}

// settlements adds the settlements of the checks at their real costs, and claims the places among them.
func (r *Reservation) settlements(s *settlements, costs []int) error {
	if err := r.settleable(costs); err != nil {
		return err
	}
	allowed := r.Allowed()
	for i, cost := range costs {
		c := &r.checks[i]
		if c.Mode == Condition && !c.asksBan() || c.Limit == Unlimited {
			continue
		}
		if r.hold != nil && c.holds() && !r.ledger.isDone(i) {
			if mine, _ := r.hold.Claim(wait.Reservation); !mine {
				continue // its Permit gives it back
			}
		}
		if (c.Shadow && r.decisions[i].Allowed || !c.Shadow && allowed) && !r.decisions[i].Waived {
			s.charges = r.ledger.open(s.charges, i, c.Units(), cost)
			if cost > c.Units() && c.spec().Forgives {
				r.noticeForgiven(i, cost)
			}
		}
	}
	changes := false
	for i := range s.charges {
		charge := &s.charges[i]
		one := Settlement{Check: r.checks[charge.check], Cost: charge.cost, Receipt: r.receipts[charge.check]}
		one.Check.Or = false // the one that was charged is settled alone
		if charge.grown {
			one.Check.Cost, one.Check.Mode, one.Receipt = charge.units, Charge, charge.receipt
		}
		s.list = append(s.list, one)
		changes = changes || one.changes()
	}
	if !changes {
		s.list, s.charges = s.list[:0], s.charges[:0]
	}
	return nil
}

// noticeForgiven warns if a check has really cost more than was reserved, and was left then: the limit could have debt, and
// forgives the units that it has not got back meanwhile.
func (r *Reservation) noticeForgiven(check, cost int) {
	c := &r.checks[check]
	reserved := r.ledger.reserved(check, c.Units())
	if cost <= reserved+r.decisions[check].Remaining || c.Shadow {
		return
	}
	r.limiter.forgiven.Log(r.limiter.logger(), "core: a request has cost more than was reserved and left, and a limit without debt may forgive the excess",
		slog.String("limit", c.Limit.String()), slog.Int("reserved", reserved), slog.Int("cost", cost))
}

// changes reports whether the settlement of a reservation changes anything.
func (s *Settlement) changes() bool {
	if s.Check.asksBan() {
		return s.Cost != 0
	}
	most := s.Check.spec().MostCharged
	return min(s.Cost, most) != min(s.Check.Units(), most) || s.Check.holds() || s.reserved()
}

// settleable returns the reason why a reservation cannot be settled to some costs, or grow to them.
func (r *Reservation) settleable(costs []int) error {
	if len(costs) != len(r.checks) {
		return invalid("core: %d costs settle %d checks", len(costs), len(r.checks))
	}
	if r.ledger.settled {
		return ErrSettled
	}
	for i, cost := range costs {
		if cost < 0 && !r.checks[i].asksBan() {
			return invalid("core: real cost %d is negative", cost)
		}
	}
	return nil
}

// Cancel gives back everything that was reserved.
func (r *Reservation) Cancel(ctx context.Context) error {
	return r.Settle(ctx, make([]int, len(r.checks))...)
}
