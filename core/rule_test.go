package core

import (
	"runtime"
	"strconv"
	"testing"
	"time"
)

// knownRules returns how many limits are remembered whose names begin so.
func knownRules(prefix string) int {
	rules.mu.RLock()
	defer rules.mu.RUnlock()
	count := 0
	for d := range rules.of {
		if len(d.name) >= len(prefix) && d.name[:len(prefix)] == prefix {
			count++
		}
	}
	return count
}

func TestLimitsOfOneDefinitionAreOne(t *testing.T) {
	made := make([]Limit, 8)
	done := make(chan struct{})
	for i := range made {
		go func() {
			made[i] = Leaky(7, PerHour(3)).Named("one-" + strconv.Itoa(1))
			done <- struct{}{}
		}()
	}
	for range made {
		<-done
	}
	for _, l := range made {
		if l != made[0] {
			t.Fatalf("%v and %v are two", l, made[0])
		}
	}
	if l := made[0].Named(""); l != Leaky(7, PerHour(3)) || l == made[0] || l.Same(made[0]) {
		t.Errorf("unnamed again it is %v", l)
	}
	if l := (Limit{}).Named("").Named(""); l != (Limit{}) {
		t.Errorf("the zero Limit without a name is %v", l)
	}
}

// Limits are made up for tenants that come and go.
func TestLimitsThatNobodyUsesAreForgotten(t *testing.T) {
	const made = 1000
	kept := FixedWindow(1, time.Minute).Named("tenant-kept")
	for i := range made {
		FixedWindow(2, time.Minute).Named("tenant-" + strconv.Itoa(i))
	}
	deadline := time.Now().Add(10 * time.Second)
	for knownRules("tenant-") > 2 { // the one that is kept, and its namesake
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d limits are remembered", knownRules("tenant-"), made)
		}
		runtime.GC()
	}
	if again := FixedWindow(1, time.Minute).Named("tenant-kept"); again != kept {
		t.Errorf("%v and %v are two", again, kept)
	}
}
