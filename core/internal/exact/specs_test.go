package exact

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// named returns the spec of a limit with a name.
func named(name string, capacity int) *Spec {
	return SpecOf(Params{Algorithm: FixedWindow, Capacity: capacity, Events: capacity, Period: time.Minute, Name: name})
}

// knownWith returns how many specs are kept whose names have a prefix.
func knownWith(prefix string) int {
	known.mu.RLock()
	defer known.mu.RUnlock()
	count := 0
	for p := range known.of {
		if strings.HasPrefix(p.Name, prefix) {
			count++
		}
	}
	return count
}

// Limits are made up for tenants that come and go.
func TestSpecsThatNobodyUsesAreForgotten(t *testing.T) {
	const made = 1000
	kept := named("tenant-kept", 1).Shadow() // which keeps the spec itself
	for i := range made {
		named("tenant-"+strconv.Itoa(i), 2).Shadow()
	}
	deadline := time.Now().Add(10 * time.Second)
	for knownWith("tenant-") > 2 { // the one that is kept, and its identity
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d limits are remembered", knownWith("tenant-"), made)
		}
		runtime.GC()
	}
	if again := named("tenant-kept", 1).Shadow(); again != kept {
		t.Errorf("%v and %v are two", again, kept)
	}
	if other := named("tenant-kept", 3).Shadow(); other.Identity() != kept.Identity() {
		t.Errorf("the shadows of %v and %v have two identities", other, kept)
	}
}
