package core

import (
	"context"

	"github.com/weir-go/ratelimit/core/internal/call"
)

// Store keeps the state of limits and decides calls. [Redis] and [Memory] are the two that come with
// this package. [NewTableStore] makes one of any table whose rows can be updated atomically. Package
// storetest has the tests that every store must pass.
//
// A Store may be used by many goroutines at once. A [Limiter] gives it no call that makes no sense, and
// none about [Unlimited]. What a store is given is lent: the store must neither read nor write it after
// it has returned.
type Store interface {
	// Decide decides calls, one after the other, as if each had come alone at the same instant. It
	// stops after the first call that is denied. It may stop earlier, but not before it has answered
	// the first call: a store that decides calls[0] and returns 1 is a good one. It returns how many
	// calls it has answered.
	//
	// The calls after the first one differ from it in the Cost of their first check alone. They have
	// neither shadow checks nor [Call.Times].
	//
	// If it returns an error, no answer means anything, and whether the first call was charged may be
	// unknown: see [ErrNotDone].
	Decide(ctx context.Context, calls []Call) (answered int, err error)

	// Settle changes what was charged to what it should have been, all in one call: into the window
	// that was charged, and for meters less what has drained of it since. What is added is added to
	// the same window, and to a meter now. Limits become neither more than full nor less than empty,
	// whatever is asked; a limit whose numbers have changed since the charge keeps the new ones. See
	// [Reservation.Settle], [Limiter.Refund] and [Limiter.Charge].
	//
	// If it returns an error, some may have been settled, unless it is [ErrNotDone]. A
	// [PartlySettledError] tells which were certainly not.
	Settle(ctx context.Context, settlements []Settlement) error

	// Reset makes a key as good as new under the given limits. Settle gives nothing back
	// afterwards of what was charged before.
	Reset(ctx context.Context, key string, limits []Limit) error

	// Ping reports whether calls can be answered, and makes the first one as quick as the others.
	Ping(ctx context.Context) error

	// Close gives back what the store has opened itself.
	Close() error
}

// Call is several checks that are asked together, and the answer.
//
// If all checks fit, all are charged; otherwise none is, and nothing changes. Each [Check.Shadow] check
// is decided by itself, after the others at the same instant, in a state of its own. Checks of the same
// key and limit add up in order. What each asks for is its [Check.Units], and its [Mode] says what is
// done with them.
type Call struct {
	// Checks are what is asked. There is at least one.
	Checks []Check
	// Decisions is where the store writes its answers, one for each check. The Decision of a check that
	// is not charged is about what is left now. Where no check but for shadows is to be charged, each
	// is told its Delay even if another one is denied.
	Decisions []Decision
	// Receipts is where the store writes what it needs to know of each check when the call is settled.
	// It is nil where nobody will settle the call.
	Receipts []Receipt
	// Times is how often the call is asked, one time after the other: as many are granted as fit, and
	// the Decisions are about all of them as one. 0 is once. A store may grant fewer, but one at
	// least if one fits. Such a call comes alone, and has no shadow checks.
	Times int
	// Granted is where the store writes how many of Times it has granted.
	Granted int

	inside *call.Call // what a store of this package makes of the call: empty, to be used again
}

// Receipt is what a [Store] wants to be told of a charge when that is settled. The zero Receipt is that
// of a charge about which nothing is known: what it settles is settled as of now.
type Receipt struct {
	// At is the instant of the decision on the store's clock, in microseconds since 1970.
	At int64
	// Note is what else the store wants to be told. Only the store that wrote it knows what it means.
	Note [2]int64
}

// passed reports whether a call was charged: every check but for shadows is allowed.
func (c *Call) passed() bool { return passedAll(c.Checks, c.Decisions) }

// passedAll reports whether every check but for shadows is allowed.
func passedAll(checks []Check, decisions []Decision) bool {
	for i := range decisions {
		if !decisions[i].Allowed && !checks[i].Shadow {
			return false
		}
	}
	return true
}

// decideAlone has a store decide one call. receipts is nil where nobody will settle it.
func decideAlone(ctx context.Context, store Store, checks []Check, decisions []Decision, receipts []Receipt) error {
	q := lones.Get().(*lone) //nolint:forcetypeassert // the pool holds nothing else
	defer q.free()
	own := &q.calls[0]
	own.Checks, own.Decisions, own.Receipts = checks, decisions, receipts
	_, err := store.Decide(ctx, q.calls[:])
	return err //nolint:wrapcheck // it is the store's
}
