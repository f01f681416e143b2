package repeatable

import (
	"flag"
	"strconv"
	"testing"
)

// logged is a test that remembers its log.
type logged struct {
	testing.TB

	lines []any
}

func (l *logged) Helper() {}

func (l *logged) Logf(_ string, arguments ...any) { l.lines = append(l.lines, arguments...) }

func TestASeedThatWasLoggedRepeatsTheNumbers(t *testing.T) {
	given := flag.Lookup("rapid.seed").Value
	before := given.String()
	defer func() { _ = given.Set(before) }()
	_ = given.Set("0")

	log := &logged{TB: t}
	first, second := Random(log), Random(log)
	want := first.Uint64()
	if second.Uint64() == want {
		t.Error("two runs draw the same numbers")
	}
	if len(log.lines) != 2 {
		t.Fatalf("%d seeds were logged, want 2", len(log.lines))
	}
	seed, _ := log.lines[0].(uint64)
	_ = given.Set(strconv.FormatUint(seed, 10))
	if got := Random(log).Uint64(); got != want {
		t.Errorf("the seed %d draws %d, want %d as before", seed, got, want)
	}
}

func TestSplitSourcesDiffer(t *testing.T) {
	random := Random(t)
	if Split(random).Uint64() == Split(random).Uint64() {
		t.Error("two goroutines draw the same numbers")
	}
}
