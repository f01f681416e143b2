package core

import (
	"context"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Balance returns the limit of prepaid units: credits that are topped up after a payment, and never come back by themselves.
// A key that was never topped up has none. It goes with the other limits of a call, all or none, and as the last of [FirstOf] it pays
// for the calls of a client with a plan that is used up:
//
//	credits := core.Balance().Named("credits")
//	d, repeated, err := limiter.TopUp(ctx, "user:42", credits, 500, payment.ID)
//	decisions, err := limiter.AllowAll(ctx, core.FirstOf(
//		core.Check{Key: "user:42", Limit: plan}, core.Check{Key: "user:42", Limit: credits})...)
//
// Every verb of a [Limiter] that takes a Quota takes a balance. Remaining is the number of units left. RetryAfter of a denial is [Never], since no
// wait helps, and NextAfter and ResetAfter are 0. The Capacity is the most that a balance can hold, 999,999,999,999,999 units. A
// settlement gives back exactly the units that were charged too much, at any time, or charges missing ones, as far as there are any.
// [Limiter.Refund] gives back no more than was spent. [Limiter.Reset] takes all units away: charges of before get nothing back.
//
// The state of a balance has no time to live while units are left, so that Redis does not forget it. An empty one is forgotten 30 days
// after its last change. Units that the store loses are lost: set up Redis so that it keeps its data (appendonly yes, and
// maxmemory-policy noeviction), and do not keep balances in the memory of a process that may end ([NewMemory]). A fallback in this process has no
// balance to spend from: it denies.
//
// Limits of a balance with one name share its units, and so do all without a name. [Lease] grants no units of a balance ahead of time.
// A ReserveFor is an error, since a process that has died has spent its units all the same. A [Check.Shadow] check has a balance of its
// own, which is empty.
func Balance() Quota { return Quota{limitWith(exact.BalanceParams())} }

// TopUp adds n units to a balance of a key, once for each id: the name of the payment, or of another event that may be told twice. It
// returns the numbers afterwards, and whether the id is known (repeated), so that nothing has changed. After an error it may have been
// carried out; to repeat it with the same id is safe.
//
// A balance knows its latest 128 ids, also after their units were spent, and forgets them 30 days after the last change of an
// empty balance. Do not repeat an older one. An id has from 1 to 128 printable ASCII characters, and no spaces. A balance never holds more
// than its Capacity: the rest of a top-up is dropped.
//
// A limit that is no [Balance], an n of less than 1 and another id are errors ([ErrInvalid]) that change nothing.
func (l *Limiter) TopUp(ctx context.Context, key string, balance Quota, n int, id string) (d Decision, repeated bool, err error) {
	check := Check{Key: key, Limit: balance, Mode: Look}
	if err := validate([]Check{check}); err != nil {
		return Decision{}, false, err
	}
	if err := validateTopUp(balance, n, id); err != nil {
		return Decision{}, false, err
	}
	settlements := []Settlement{{Check: check, Cost: n, TopUp: id, Decision: &d}}
	if err := l.settle(ctx, settlements); err != nil {
		return Decision{}, false, err
	}
	return d, settlements[0].Lost, nil
}

// validateTopUp returns the reason why a limit cannot be topped up, or nil.
func validateTopUp(balance Quota, n int, id string) error {
	if !balance.known().Prepaid {
		return invalid("core: %s is no balance, and cannot be topped up", balance)
	}
	if n < 1 || n > exact.MostPrepaid {
		return invalid("core: a top-up of %d units is not from 1 to %d", n, exact.MostPrepaid)
	}
	if err := exact.TopUpProblem(id); err != nil {
		return invalid("core: %w", err)
	}
	return nil
}
