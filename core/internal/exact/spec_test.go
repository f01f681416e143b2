package exact

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// knownSpecs returns how many specs are remembered whose names begin so.
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

func TestEqualParamsHaveOneSpec(t *testing.T) {
	params := Params{Algorithm: Leaky, Capacity: 7, Events: 3, Period: time.Hour}
	made := make([]*Spec, 8)
	done := make(chan struct{})
	for i := range made {
		go func() {
			p := params
			p.Name = "one-" + strconv.Itoa(1)
			made[i] = SpecOf(p)
			done <- struct{}{}
		}()
	}
	for range made {
		<-done
	}
	for _, s := range made {
		if s != made[0] {
			t.Fatalf("%v and %v are two", s, made[0])
		}
	}
	if unnamed := SpecOf(params); unnamed == made[0] || unnamed.Identity() == made[0].Identity() {
		t.Errorf("%v and %v are one", unnamed, made[0])
	}
	if SpecOf(Params{}) != Zero || Zero.Problem() == nil {
		t.Errorf("the zero Params are %v, %v", SpecOf(Params{}), Zero.Problem())
	}
}

// Limits are made up for tenants that come and go.
func TestSpecsThatNobodyUsesAreForgotten(t *testing.T) {
	const made = 1000
	window := func(n int, name string) *Spec {
		return SpecOf(Params{Algorithm: FixedWindow, Name: name, Capacity: n, Events: n, Period: time.Minute})
	}
	kept := window(1, "tenant-kept").Shadow() // which keeps the spec itself
	for i := range made {
		window(2, "tenant-"+strconv.Itoa(i)).Shadow()
	}
	deadline := time.Now().Add(10 * time.Second)
	for knownSpecs("tenant-") > 2 { // the one that is kept, and its identity
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d specs are remembered", knownSpecs("tenant-"), made)
		}
		runtime.GC()
	}
	if again := window(1, "tenant-kept").Shadow(); again != kept {
		t.Errorf("%v and %v are two", again, kept)
	}
	if other := window(3, "tenant-kept").Shadow(); other.Identity() != kept.Identity() {
		t.Errorf("the shadows of %v and %v have two identities", other, kept)
	}
	runtime.KeepAlive(kept)
}

func TestShadows(t *testing.T) {
	s := SpecOf(Params{Algorithm: GCRA, Capacity: 7, Events: 3, Period: time.Hour})
	shadow := s.Shadow()
	switch {
	case s.IsShadow() || !shadow.IsShadow():
		t.Error("a spec is its shadow")
	case shadow.Shadow() != shadow || s.Shadow() != shadow:
		t.Error("a spec has several shadows")
	case shadow.Identity() != shadow || s.Identity() != s:
		t.Error("the identity of an unnamed spec is another one")
	case shadow.Units != s.Units || shadow.Params != s.Params || shadow.Problem() != nil:
		t.Errorf("%+v has the shadow %+v", s.Units, shadow.Units)
	}
}

func TestAlgorithmsHaveNames(t *testing.T) {
	for a := range All() {
		if found, ok := AlgorithmNamed(a.String()); !ok || found != a {
			t.Errorf("%d is called %q, which is the name of %d", a, a, found)
		}
		if a.Observed() < 1 || a.Next() == "" {
			t.Errorf("the table says of %s that it observes %d numbers, and %q comes next", a, a.Observed(), a.Next())
		}
	}
	if a, ok := AlgorithmNamed(""); ok {
		t.Errorf("%d has no name", a)
	}
}
