package queue

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// Denied is a part of a request that was denied.
type Denied struct {
	// Place is that of the part in the request.
	Place int
	// RetryAfter is when it may be granted at the earliest, or [Never].
	RetryAfter time.Duration
	// Frees says that there may be room at any time, since others give it back.
	Frees bool
}

// Never is the RetryAfter of what can never be granted.
const Never time.Duration = math.MaxInt64

// Unknown is after how long to ask again at the latest if it is not known when there is room.
const Unknown = time.Hour

// Longest returns the one of some denied parts after which it takes longest until it is granted: of several, the last.
func Longest(parts []Denied) (longest Denied) {
	for _, d := range parts {
		if longest.RetryAfter <= d.RetryAfter {
			longest = d
		}
	}
	return longest
}

// Denied sets when to ask again for a request of which parts were denied just now. freesOnly says that the request waits
// for nothing but what others give back.
func (a *Answer[G, D]) Denied(now time.Time, parts []Denied, freesOnly bool) {
	for _, d := range parts {
		switch {
		case freesOnly && !d.Frees: // those behind it may fit
			a.Never, a.Next, a.Again = true, time.Time{}, time.Time{}
			return
		case d.RetryAfter == Never:
			a.Never = true
		case d.Frees: // until then it polls, in case another alternative fits sooner
			a.Again = now.Add(Unknown)
		default:
			if next := now.Add(d.RetryAfter); next.After(a.Next) {
				a.Next = next
			}
		}
	}
}

const (
	// shortestPoll is how long after a denial the first waiter looks whether another process has given something
	// back, at first. It doubles until longestPoll.
	shortestPoll = 5 * time.Millisecond
	longestPoll  = 100 * time.Millisecond
)

// Backoff is a [Config.Poll] whose pauses double from 5 to 100 milliseconds. Each is shorter by up to a quarter, so that
// processes do not ask in step.
func Backoff(attempt int) time.Duration {
	pause := min(shortestPoll<<min(attempt, 10), longestPoll)
	return pause - rand.N(pause/4)
}

// Until waits until an instant, and reports whether it came before ctx ended.
func Until(ctx context.Context, due time.Time) bool {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
