package core

import "context"

// Store keeps the state of limits and decides questions. [Redis] and [Memory]
// are the two that come with this package; package storetest has the tests that
// any other must pass.
//
// A Store may be used by many goroutines at once. It is not given questions that
// make no sense, nor about [Unlimited]: a [Limiter] has seen to it. What it is given is lent: it must not
// look at it, or write to it, after it has returned.
type Store interface {
	// Decide decides a list of checks at one instant and writes the answer to
	// checks[i] into decisions[i]. The two have the same length.
	//
	// If all checks fit, all are charged; otherwise none is, and nothing changes.
	// Each Shadow check is a question of its own, decided after the others at the
	// same instant, in a state of its own. Checks of the same key and limit add
	// up in order. What each asks for is its [Check.Units], and its [Mode] says what is done
	// with them.
	//
	// If it returns an error, the decisions mean nothing, and whether the question
	// was charged may be unknown.
	Decide(ctx context.Context, checks []Check, decisions []Decision) error

	// Reserve is Decide that says also when each check was charged, for Settle. It
	// writes that of checks[i] into moments[i], which has the same length.
	Reserve(ctx context.Context, checks []Check, decisions []Decision, moments []Moment) error

	// Settle changes what was charged to what it should have been, all in one call:
	// into the window that was charged, and for meters less what has drained of it
	// since. What is added is added to the same window, and to a meter now. Limits
	// become neither more than full nor less than empty, whatever is asked; a limit
	// whose numbers have changed since the charge keeps the new ones. See
	// [Reservation.Settle], [Limiter.Refund] and [Limiter.Charge].
	//
	// If it returns an error, some may have been settled.
	Settle(ctx context.Context, settlements []Settlement) error

	// Peek is Decide that charges nothing and leaves no trace. Allowed, RetryAfter and Delay
	// are what Decide would answer at this instant; Remaining, NextAfter and ResetAfter are
	// about what is left now, before a charge.
	Peek(ctx context.Context, checks []Check, decisions []Decision) error

	// Reset makes a key as good as new under the given limits. Settle gives nothing back
	// afterwards of what was charged before.
	Reset(ctx context.Context, key string, limits []Limit) error

	// Ping reports whether questions can be answered, and makes the first one as
	// quick as the others.
	Ping(ctx context.Context) error

	// Close gives back what the store has opened itself.
	Close() error
}
