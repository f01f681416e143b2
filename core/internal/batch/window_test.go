package batch

import (
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"
)

// far is a server that is so far away, and carries out full batches in so long.
func far(t *testing.T, delay, own time.Duration, change ...func(*Config[request, int])) *server {
	t.Helper()
	s := newServer(t, true, append(change, func(c *Config[request, int]) {
		c.MostWaiting, c.MostInFlight = 1_000_000, func() int { return 16 }
	})...)
	s.delay, s.window = delay, window{least: s.InFlight}           // which knows nothing of when it was near
	if err := s.ask(t.Context(), request{weight: 1}); err != nil { // a round trip without a crowd
		t.Fatal(err)
	}
	s.own = own
	return s
}

// crowd makes so many calls at once, and returns how long it took until all were answered, and how many failed.
func (s *server) crowd(t *testing.T, n int) (took time.Duration, failed int) {
	t.Helper()
	began := time.Now()
	var mu sync.Mutex
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			if s.ask(t.Context(), request{weight: 1}) != nil {
				mu.Lock()
				defer mu.Unlock()
				failed++
			}
		})
	}
	group.Wait()
	return time.Since(began), failed
}

// As many batches are in flight to a distant server as it answers in a round trip, or as there may be at most.
func TestBatchesFollowTheRoundTrip(t *testing.T) {
	for name, c := range map[string]struct {
		delay, own  time.Duration
		least, most int // in flight at once
	}{
		"far":                      {40 * time.Millisecond, time.Millisecond, 16, 16},
		"near":                     {100 * time.Microsecond, time.Millisecond, 2, 3},
		"not so far":               {4 * time.Millisecond, time.Millisecond, 4, 6},
		"far, and slow":            {40 * time.Millisecond, 5 * time.Millisecond, 5, 10},
		"far, and quick":           {40 * time.Millisecond, 10 * time.Microsecond, 16, 16},
		"near, with nothing to do": {100 * time.Microsecond, 0, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				s := far(t, c.delay, c.own, func(c *Config[request, int]) { c.Patience = time.Hour })
				if _, failed := s.crowd(t, 200*testFull); failed > 0 {
					t.Errorf("%d failed", failed)
				}
				s.mu.Lock()
				s.most = s.inFlight
				s.mu.Unlock()
				s.crowd(t, 200*testFull)
				if s.most < c.least || s.most > c.most {
					t.Errorf("%d batches were in flight at once, want %d to %d", s.most, c.least, c.most)
				}
			})
		})
	}
}

// Beyond those that any call may use, batches are full: a server that is far away has no more of them than it has to.
func TestBatchesBeyondTheFirstAreFull(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		s := far(t, 40*time.Millisecond, 10*time.Microsecond)
		s.crowd(t, 200*testFull) // so that many may be in flight
		s.mu.Lock()
		s.batches, s.most = nil, 0
		s.mu.Unlock()
		release := s.hold()
		errs := s.askMany(t.Context(), times(2+2*testFull+testFull/2)...)
		s.wantBatches(t, 1, 1, testFull, testFull)
		release()
		wantNone(t, errs())
		s.wantBatches(t, 1, 1, testFull, testFull, testFull/2)
	})
}

// What a distant server answers in a second grows with what may be in flight, and no call is too much.
func TestThroughputAtADistantServer(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		s := far(t, 40*time.Millisecond, 100*time.Microsecond)
		const crowd = 200 * testFull // in 2 at once it takes 4 s
		took, failed := s.crowd(t, crowd)
		if failed > 0 || took > time.Second {
			t.Errorf("%d of %d failed, and the others took %v", failed, crowd, took)
		}
	})
}

// When batches wait for each other at the server, fewer are in flight, until they do so no more.
func TestWindowFollowsTheQueueOfTheServer(t *testing.T) {
	w := window{least: 2}
	w.note(1, 40*time.Millisecond)
	answer := func(took time.Duration) int {
		for range 300 {
			w.note(1, took)
			w.noteFull(took, w.of(16), 16)
		}
		return w.of(16)
	}
	for _, c := range []struct {
		took time.Duration
		want int
	}{{41 * time.Millisecond, 16}, {80 * time.Millisecond, 4}, {41 * time.Millisecond, 16}, {400 * time.Millisecond, 2}} {
		if n := answer(c.took); n != c.want {
			t.Errorf("%d may be in flight when each takes %v, want %d", n, c.took, c.want)
		}
	}
}

// When the server has failed, no more are in flight than any call may use.
func TestWindowBeginsAnewAfterAFailure(t *testing.T) {
	w := window{least: 2}
	w.note(1, 40*time.Millisecond)
	for range 30 {
		w.note(1, 41*time.Millisecond)
		w.noteFull(41*time.Millisecond, w.of(16), 16)
	}
	if n := w.of(16); n != 16 {
		t.Errorf("%d may be in flight, want 16", n)
	}
	if w.reset(); w.of(16) != 2 {
		t.Errorf("%d may be in flight after a failure, want 2", w.of(16))
	}
}

// A network that has become slower for good is known after a while.
func TestWindowForgetsARoundTrip(t *testing.T) {
	w := window{least: 2}
	w.note(1, time.Millisecond)
	for at := int64(1); at < int64(3*lowestLasts); at += int64(40 * time.Millisecond) {
		w.note(at, 40*time.Millisecond)
		w.noteFull(40*time.Millisecond, w.of(16), 16)
	}
	if n := w.of(16); n != 16 {
		t.Errorf("%d may be in flight, want 16", n)
	}
}
