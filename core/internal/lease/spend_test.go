package lease_test

import (
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/lease"
)

// What was granted is spent once, whoever spends it.
func TestGrantIsSpentOnce(t *testing.T) {
	s := &store{most: 8}
	set := s.set(1)
	spec := specOf(exact.Leaky, 1000, 1000, time.Second)
	for range 8 {
		set.Admitted(lease.Wanted{Key: "key", Spec: spec, Units: 1})
	}
	untilGranted(t, set, "key", spec)
	var mu sync.Mutex
	spent := 0
	var working sync.WaitGroup
	for worker := range 8 {
		working.Go(func() {
			for i := range 2000 {
				units := 1 + (i+worker)%3
				if one, ok := set.Spend("key", spec, units); ok {
					if i%5 == 0 {
						one.Undo()
						continue
					}
					mu.Lock()
					spent += units
					mu.Unlock()
				}
			}
		})
	}
	working.Wait()
	set.Close()
	counted, granted := 0, 0
	for _, e := range s.ended {
		counted, granted = counted+e.Spent, granted+e.Granted
	}
	// What was put back into a grant that had ended counts as spent.
	if spent > counted || counted > granted || spent == 0 {
		t.Errorf("%d were spent, %d are told, of %d", spent, counted, granted)
	}
}

// untilGranted waits until units of a key are granted, outside of a bubble.
func untilGranted(t *testing.T, set *lease.Set, key string, spec *exact.Spec) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if one, ok := set.SpendNow(key, spec, 1); ok {
			one.Undo()
			return
		}
	}
	t.Fatalf("%q is not granted", key)
}

func TestSpendingAllocatesNothing(t *testing.T) {
	s := &store{}
	set := s.set(1)
	defer set.Close()
	spec := specOf(exact.Leaky, 1_000_000_000, 1_000_000_000, time.Second)
	for range 8 {
		set.Admitted(lease.Wanted{Key: "key", Spec: spec, Units: 1})
	}
	untilGranted(t, set, "key", spec)
	if n := testing.AllocsPerRun(1000, func() { _, _ = set.Spend("key", spec, 1) }); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}
