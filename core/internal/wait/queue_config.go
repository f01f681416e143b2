package wait

import (
	"context"
	"time"
)

// QueueConfig has the functions that make requests. All fields are needed, except Closed and ErrClosed.
type QueueConfig struct {
	// Ask makes requests in order, until one of them is not granted, and returns the answer. It
	// returns when ctx ends.
	Ask func(ctx context.Context, requests []Request) Answer
	// Return gives back grants that no waiter takes, the last one first. It does not block. The caller of
	// [NewQueues] calls Wake when that is done.
	Return func(grants []Grant)
	// Takes returns the least time until a request fits after another one has left no room.
	Takes func(*Request) time.Duration
	// GaveUp returns the error of a waiter with a context that has ended.
	GaveUp func(ctx context.Context) error
	// Most is how many requests an Ask has at most.
	Most int
	// Rank returns the rank of a queue among those of other processes. Nil, or a nil rank, is no order over processes.
	Rank func(key QueueKey) Rank
	// Closed ends all waits when it is closed, with the error of ErrClosed. Nil ends none.
	Closed <-chan struct{}
	// ErrClosed is the error of waits that Closed has ended.
	ErrClosed error
}

// Grant is the units that a request was granted.
type Grant interface {
	// Units returns how many units they are. A grant is for any request of as many.
	Units() int
	// Late reports whether the grant comes too late for a waiter that waits until then. It goes to another one.
	Late(until time.Time) bool
	// Deny returns the error of a waiter for which the grant comes too late.
	Deny(*Request) error
}

// Denial is the part of an answer about requests that were not granted.
type Denial interface {
	// Deny returns the error of a waiter with a request that cannot be granted before an instant. The instant is the zero
	// time if it is not known.
	Deny(q *Request, at time.Time) error
}

// unanswered is the denial of requests while there was no answer, or only an error.
type unanswered struct{ err error }

// Deny implements [Denial].
func (u unanswered) Deny(*Request, time.Time) error { return u.err }

// Answer is the answer to the requests of one Ask.
type Answer struct {
	// Grants are for the first requests, in their order.
	Grants []Grant
	// Latest is the denial of the others, or of the next request. It is not nil unless there is an Err.
	Latest Denial
	// Next is when the next request can be granted at the earliest, and so when to ask again. The zero
	// time is at once.
	Next time.Time
	// Again is when to ask again at the latest, in case the room that Next leaves is not used. The zero time is at Next.
	Again time.Time
	// Room is how many units there are for older waiters of other processes, if the first request that was not granted, and the oldest of
	// these waiters, would fit in them. It is 0 otherwise.
	Room int
	// Held is until when something else than units keeps the requests from being granted: others need not leave room for them until then.
	// The zero time says that nothing does.
	Held time.Time
	// Full says that the request which is granted at Next leaves no room for others.
	Full bool
	// Never says that the first request which was not granted never will be.
	Never bool
	// Err is why there is no answer to any of the requests.
	Err error
}
