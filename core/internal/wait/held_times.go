package wait

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// HeldTimes are how long the places of limits have lately been held. The zero value knows nothing. Many
// goroutines may use it at once.
type HeldTimes struct {
	of    sync.Map // of *times, by *exact.Spec
	known atomic.Int32
}

// times are how long places of a limit have lately been held.
type times struct {
	mu    sync.Mutex
	count int
	times [31]time.Duration
}

// mostTimed bounds how many limits have their times noted.
const mostTimed = 1024

// Note notes how long a place of a limit was held. Limits of one identity have their times together. Those
// of more than 1024 limits are not noted.
func (h *HeldTimes) Note(s *exact.Spec, elapsed time.Duration) {
	found, ok := h.of.Load(s.Identity())
	if !ok {
		if h.known.Add(1) > mostTimed {
			h.known.Add(-1)
			return
		}
		found, ok = h.of.LoadOrStore(s.Identity(), new(times))
		if ok {
			h.known.Add(-1)
		}
	}
	t := found.(*times) //nolint:forcetypeassert // the map holds nothing else
	t.mu.Lock()
	defer t.mu.Unlock()
	t.times[t.count%len(t.times)] = elapsed
	t.count++
}

// Median returns the median of the latest 31 times of a limit, or false if none is known.
func (h *HeldTimes) Median(s *exact.Spec) (time.Duration, bool) {
	found, ok := h.of.Load(s.Identity())
	if !ok {
		return 0, false
	}
	t := found.(*times) //nolint:forcetypeassert // the map holds nothing else
	t.mu.Lock()
	times := slices.Clone(t.times[:min(t.count, len(t.times))])
	t.mu.Unlock()
	if len(times) == 0 { // the first one is being noted
		return 0, false
	}
	slices.Sort(times)
	return times[len(times)/2], true
}
