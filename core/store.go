package core

import "context"

// Store keeps the state of limits and decides questions. [Redis] and [Memory]
// are the two that come with this package; package storetest has the tests that
// any other must pass.
//
// A Store may be used by many goroutines at once. It is not given questions that
// make no sense: a [Limiter] has validated them. What it is given is lent: it must not
// look at it, or write to it, after it has returned.
type Store interface {
	// Decide decides a list of checks at one instant and writes the answer to
	// checks[i] into decisions[i]. The two have the same length.
	//
	// If all checks fit, all are charged; otherwise none is, and nothing changes.
	// Each Shadow check is a question of its own, decided after the others at the
	// same instant, in a state of its own. Checks of the same key and limit add
	// up in order. A check of cost 0 is always allowed and charges nothing.
	//
	// If it returns an error, the decisions mean nothing, and whether the question
	// was charged may be unknown.
	Decide(ctx context.Context, checks []Check, decisions []Decision) error

	// Peek is Decide that charges nothing and leaves no trace: it says what Decide
	// would answer to each check at this instant.
	Peek(ctx context.Context, checks []Check, decisions []Decision) error

	// Reset makes a key as good as new under the given limits.
	Reset(ctx context.Context, key string, limits []Limit) error

	// Ping reports whether questions can be answered, and makes the first one as
	// quick as the others.
	Ping(ctx context.Context) error

	// Close gives back what the store has opened itself.
	Close() error
}
