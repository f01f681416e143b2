package wait

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// shortestPoll is how long after a denial the first waiter looks whether another process has given something
	// back, at first. It doubles until longestPoll.
	shortestPoll = 5 * time.Millisecond
	longestPoll  = 100 * time.Millisecond
)

// Backoff returns pauses between polls that double from 5 to 100 milliseconds. Each is shorter by up to a quarter, so that
// processes do not ask in step.
func Backoff(attempt int) time.Duration {
	pause := min(shortestPoll<<min(attempt, 10), longestPoll)
	return pause - rand.N(pause/4)
}

// Rarely returns the pause between polls that are made only in case a message was lost: from 250 to 300 milliseconds, so that
// processes do not ask in step.
func Rarely() time.Duration { return rarely + rand.N(rarely/5) }

const rarely = 250 * time.Millisecond

// LookAgain returns how long after a denial a waiter asks again although it was told a later instant, in case others have given
// units back since: a second, or a quarter of the time for which it has waited, or ten seconds at most.
func LookAgain(waited time.Duration) time.Duration {
	return min(max(shortestLook, waited/4), longestLook)
}

const (
	shortestLook = time.Second
	longestLook  = 10 * time.Second
)

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
