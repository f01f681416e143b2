package admin_test

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
)

func TestParseLimitOfAnEntry(t *testing.T) {
	brute := core.Ban{Strikes: core.SlidingLog(2, time.Minute), First: time.Hour}
	limits := []core.Limit{
		core.Leaky(10, core.PerSecond(1)), core.SlidingLog(5, 15*time.Minute), core.Calendar(7, core.Monthly("Europe/Berlin").From(15)),
		core.Concurrent(3, time.Minute), brute.Limit(),
	}
	l := core.New(core.NewMemory())
	for _, limit := range limits {
		if _, err := l.Reserve(t.Context(), core.Check{Key: "user:1", Limit: limit}); err != nil {
			t.Fatal(err)
		}
	}
	permit, err := l.TryAcquire(t.Context(), "user:1", core.Concurrent(3, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer permit.Release()
	if _, err := l.Charge(t.Context(), "user:1", core.Leaky(10, core.PerSecond(1)).Named("gcra:10:1/s"), 1); err != nil {
		t.Fatal(err)
	}
	topUp(t, l, "user:1", credits, 3, "payment")
	limits = append(limits, credits)
	found := make(map[core.Limit]bool)
	entries, _ := listAll(t, l, "")
	for entry := range entries {
		if entry.Named != (entry.Limit == "gcra:10:1/s" || entry.Limit == "credits") {
			t.Errorf("%+v", entry)
		}
		limit, ok := entry.ParseLimit()
		if ok == (entry.Limit == "gcra:10:1/s") { // of which the numbers are not known
			t.Errorf("%+v: %v, %v", entry, limit, ok)
		}
		found[limit] = ok
	}
	for _, limit := range limits {
		if !found[limit] {
			t.Errorf("%s is not found in %v", limit, entries)
		}
	}
}
