package batch

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"
)

// While a trial is in flight, calls from before the breaker opened neither close it nor open it again.
func TestOnlyTheTrialCounts(t *testing.T) {
	for _, early := range []Outcome{Succeeded, Failed, Unknown} {
		for _, trial := range []Outcome{Succeeded, Failed, Unknown} {
			bubbletest.Run(t, func(t *testing.T) {
				const pause = time.Second
				b := NewBreaker(1, pause, func(State) {})
				for range 3 { // that are in flight together
					if admitted, isTrial := b.Admit(); !admitted || isTrial {
						t.Fatalf("admitted %t, as a trial %t", admitted, isTrial)
					}
				}
				b.Ended(false, Failed)
				b.Ended(false, early)
				if !b.Refuses() {
					t.Error("it does not refuse after a failure")
				}
				time.Sleep(2 * pause)
				if admitted, isTrial := b.Admit(); !admitted || !isTrial {
					t.Fatalf("admitted %t, as a trial %t, want a trial", admitted, isTrial)
				}
				b.Ended(false, early)
				if admitted, _ := b.Admit(); admitted || !b.Refuses() {
					t.Errorf("a call from before that ended with %v lets others pass the trial", early)
				}
				b.Ended(true, trial)
				if refuses := b.Refuses(); refuses != (trial == Failed) {
					t.Errorf("it refuses after a trial that ended with %v: %t", trial, refuses)
				}
			})
		}
	}
}
