package repeatable

import (
	"flag"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
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

// drawing is the file to which a child process writes what it has drawn.
const drawing = "RATELIMIT_TEST_DRAWING"

// TestTheGateDrawsTheSameEachTime has children draw under a RAPID_SEED, as .ci/run sets it for all packages.
func TestTheGateDrawsTheSameEachTime(t *testing.T) {
	if os.Getenv(drawing) != "" {
		draw(t)
		return
	}
	child := func(seed string) string {
		file := t.TempDir() + "/drawn"
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheGateDrawsTheSameEachTime$")
		c.Env = append(os.Environ(), drawing+"="+file, "RAPID_SEED="+seed)
		if output, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		drawn, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(drawn)
	}
	first := child("7")
	if second := child("7"); second != first {
		t.Errorf("one seed has drawn %q and then %q", first, second)
	}
	if other := child("8"); other == first {
		t.Errorf("two seeds have drawn %q", first)
	}
	if other := child("0"); other == child("0") {
		t.Errorf("without a seed, %q was drawn twice", other)
	}
}

// draw writes numbers to the file of a child: some from rapid, and one from this package.
func draw(t *testing.T) {
	var drawn strings.Builder
	rapid.Check(t, func(t *rapid.T) { drawn.WriteString(strconv.FormatUint(rapid.Uint64().Draw(t, "number"), 10) + " ") })
	drawn.WriteString(strconv.FormatUint(Random(t).Uint64(), 10))
	if err := os.WriteFile(os.Getenv(drawing), []byte(drawn.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}
