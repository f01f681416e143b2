package core

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// knownSpecs returns how many specs are kept whose names have a prefix.
func knownSpecs(prefix string) int {
	specs.mu.RLock()
	defer specs.mu.RUnlock()
	count := 0
	for p := range specs.of {
		if strings.HasPrefix(p.Name, prefix) {
			count++
		}
	}
	return count
}

func TestEqualLimitsHaveOneSpec(t *testing.T) {
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
	if l := made[0].Named(""); l != Leaky(7, PerHour(3)) || l == made[0] || l.Identity() == made[0].Identity() {
		t.Errorf("unnamed again it is %v", l)
	}
	if l := (Limit{}).Named("").Named(""); l != (Limit{}) || l.Identity() != l {
		t.Errorf("the zero Limit without a name is %v", l)
	}
}

// Limits are made up for tenants that come and go.
func TestLimitsThatNobodyUsesAreForgotten(t *testing.T) {
	const made = 1000
	kept := FixedWindow(1, time.Minute).Named("tenant-kept").spec.Shadow() // which keeps the spec itself
	for i := range made {
		FixedWindow(2, time.Minute).Named("tenant-" + strconv.Itoa(i)).spec.Shadow()
	}
	deadline := time.Now().Add(10 * time.Second)
	for knownSpecs("tenant-") > 2 { // the one that is kept, and its identity
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d limits are remembered", knownSpecs("tenant-"), made)
		}
		runtime.GC()
	}
	if again := FixedWindow(1, time.Minute).Named("tenant-kept").spec.Shadow(); again != kept {
		t.Errorf("%v and %v are two", again, kept)
	}
	if other := FixedWindow(3, time.Minute).Named("tenant-kept").spec.Shadow(); other.Identity() != kept.Identity() {
		t.Errorf("the shadows of %v and %v have two identities", other, kept)
	}
}
