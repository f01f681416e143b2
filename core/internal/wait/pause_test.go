package wait

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
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
	synctest.Test(t, func(t *testing.T) {
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
