package batch

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/weir-go/ratelimit/internal/bubbletest"
)

// gathering returns a server whose latest batch had several groups.
func gathering(t *testing.T) *server {
	t.Helper()
	s := newServer(t, true, func(c *Config[request, int]) { c.Gather, c.InFlight = true, 1 })
	release := s.hold()
	first := s.askMany(t.Context(), times(6)...)
	release()
	wantNone(t, first())
	s.wantBatches(t, 1, 5)
	return s
}

// After a batch of several groups, the next one takes along what those have to ask who can run.
func TestBatchesGatherACrowd(t *testing.T) {
	const rounds, crowd = 100, 5
	bubbletest.Run(t, func(t *testing.T) {
		s := gathering(t)
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that all of them can run before one does
		for range rounds {
			var group sync.WaitGroup
			for range crowd {
				group.Go(func() {
					if err := s.ask(t.Context(), request{weight: 1}); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			synctest.Wait()
		}
		if n := len(s.seen()) - 2; n > 2*rounds { // the scheduler may run a worker sooner, once in a while
			t.Errorf("%d calls came %d at a time, in %d batches", rounds*crowd, crowd, n)
		}
	})
}

// Whoever comes alone soon sends their calls themselves again.
func TestACrowdIsForgotten(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		s := gathering(t)
		for i := range crowdLasts {
			if s.Lane.crowd.Load() == 0 {
				t.Errorf("after %d calls that came alone, the next batch waits for nobody", i)
			}
			if err := s.ask(t.Context(), request{weight: 1}); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if s.Lane.crowd.Load() > 0 {
			t.Error("the next batch waits for others")
		}
	})
}
