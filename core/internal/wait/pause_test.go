package wait

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"
)

// Pauses grow from 5 to 100 ms, less a quarter at most.
func TestBackoffGrows(t *testing.T) {
	for attempt, milliseconds := range map[int]int{0: 5, 1: 10, 4: 80, 5: 100, 1000: 100} {
		want := time.Duration(milliseconds) * time.Millisecond
		if got := Backoff(attempt); got > want || got <= want-want/4-1 {
			t.Errorf("the pause %d is %v, want %v less up to a quarter", attempt, got, want)
		}
	}
}

// Until ends at its instant, or with its context.
func TestUntil(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		start := time.Now()
		if !Until(t.Context(), start.Add(time.Second)) || time.Since(start) != time.Second {
			t.Errorf("it took %v", time.Since(start))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if Until(ctx, time.Now().Add(time.Second)) {
			t.Error("the instant came although the context had ended")
		}
	})
}

// A waiter that was told a later instant looks after a second, then each time when it has waited for a quarter longer, and at the latest
// after ten seconds.
func TestLookAgain(t *testing.T) {
	for waited, want := range map[time.Duration]time.Duration{
		0: time.Second, 4 * time.Second: time.Second, 8 * time.Second: 2 * time.Second, time.Hour: 10 * time.Second,
	} {
		if got := LookAgain(waited); got != want {
			t.Errorf("after %v it looks in %v, want %v", waited, got, want)
		}
	}
}
