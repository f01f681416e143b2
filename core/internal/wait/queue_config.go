package wait

import (
	"context"
	"time"
)

// QueueConfig has the functions that make requests. All fields are needed, except Closed and ErrClosed.
//
// K is a key, Q a waiter's request, G a grant, and D a denial: the part of an answer about requests that were not
// granted.
type QueueConfig[K comparable, Q, G, D any] struct {
	// Ask makes requests in order, until one of them is not granted, and returns the answer. It
	// returns when ctx ends.
	Ask func(ctx context.Context, requests []Q) Answer[G, D]
	// Return gives back grants that no waiter takes, the last one first. It does not block. The caller of
	// [NewQueues] calls Wake when that is done.
	Return func(grants []G)
	// Together reports whether two requests of one queue may be made in one Ask. Alike reports
	// whether they are equal, so that an answer about one holds for the other.
	Together, Alike func(a, b Q) bool
	// Fits reports whether a grant is one for a request.
	Fits func(g G, q Q) bool
	// Late reports whether a grant comes too late for a waiter that waits until then. It goes to
	// another one.
	Late func(g G, until time.Time) bool
	// Takes returns the least time until a request fits after another one has left no room.
	Takes func(Q) time.Duration
	// Deny returns the error of a waiter with a request that cannot be granted before an instant, by the latest answer.
	// The instant is the zero time if it is not known. g is the grant that comes too late, if there is one.
	Deny func(q Q, latest D, at time.Time, g *G) error
	// GaveUp returns the error of a waiter with a context that has ended.
	GaveUp func(ctx context.Context) error
	// Most is how many requests an Ask has at most.
	Most int
	// Rank returns the rank of a queue among those of other processes. Nil, or a nil rank, is no order over processes.
	Rank func(key K) Rank[Q]
	// Closed ends all waits when it is closed, with the error of ErrClosed. Nil ends none.
	Closed <-chan struct{}
	// ErrClosed is the error of waits that Closed has ended.
	ErrClosed error
}

// Answer is the answer to the requests of one Ask.
type Answer[G, D any] struct {
	// Grants are for the first requests, in their order.
	Grants []G
	// Latest is the denial of the others, or the numbers for the next request.
	Latest D
	// Next is when the next request can be granted at the earliest, and so when to ask again. The zero
	// time is at once.
	Next time.Time
	// Again is when to ask again at the latest, in case the room that Next leaves is not used. The zero time is at Next.
	Again time.Time
	// Older says that the first request that was not granted would fit without the units of older waiters of other
	// processes.
	Older bool
	// Full says that the request which is granted at Next leaves no room for others.
	Full bool
	// Never says that the first request which was not granted never will be.
	Never bool
	// Err is why there is no answer to any of the requests.
	Err error
}
