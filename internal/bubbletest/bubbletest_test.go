package bubbletest_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"
)

// Timers of channels that goroutines look at, and those that run functions, are due at the same time on as many processors as there are:
// the race detector does not end the process.
func TestTimersOfABubbleUnderTheRaceDetector(t *testing.T) {
	before := runtime.GOMAXPROCS(4)
	defer runtime.GOMAXPROCS(before)
	for range 30 {
		bubbletest.Run(t, func(*testing.T) {
			var group sync.WaitGroup
			for i := range 40 {
				group.Go(func() {
					for range 60 {
						one, other := time.NewTimer(time.Millisecond), time.NewTimer(time.Millisecond)
						select {
						case <-one.C:
						case <-other.C:
						}
						select {
						case <-one.C:
						case <-other.C:
						default:
						}
						time.AfterFunc(time.Duration(i%3)*time.Millisecond, func() { one.Stop() })
					}
				})
			}
			group.Wait()
		})
	}
	if now := runtime.GOMAXPROCS(0); now != 4 {
		t.Errorf("%d processors run Go code after the bubbles, want 4 as before", now)
	}
}
