package arrival_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/arrival"
	"github.com/weir-go/ratelimit/cmd/weir/internal/logfile"
)

const years = 10 * 365 * 86400.0

// steady is a log of so many lines, the given seconds apart.
func steady(lines int, apart float64) []string {
	all := make([]string, lines)
	for i := range all {
		all[i] = exact("a", float64(i)*apart)
	}
	return all
}

// A line whose time is far outside of those around it counts nowhere, wherever it stands.
func TestOutliersAreSetAside(t *testing.T) {
	for _, off := range []float64{years, -years, 30 * 86400} {
		for _, n := range []int{30, 3000} {
			for _, at := range []int{0, 1, n / 3, n - 2, n - 1, n} {
				if n == 30 && at >= n-1 {
					continue // nothing follows, and too few stand before it
				}
				lines := slices.Insert(steady(n, 5), at, exact("a", float64(at)*5+off))
				c, s := read(t, arrival.Options{}, file(t, lines...))
				if s.Aside != 1 || len(c.all) != n || s.Arrivals != int64(n) || s.Late != 0 || s.Span() != time.Duration(n-1)*5*time.Second {
					t.Errorf("off by %v s as line %d of %d: %d set aside, %d late, a span of %v", off, at, n, s.Aside, s.Late, s.Span())
				}
				if first := noon.Add(time.Duration(float64(at)*5+off) * time.Second).Format(time.RFC3339); !strings.Contains(s.Outlier(), "Its time is "+first) {
					t.Error(s.Outlier())
				}
			}
		}
	}
	var lines []string
	for i := range 3000 {
		lines = append(lines, plain("a", float64(i)*5))
	}
	for _, at := range []int{2000, 2000, 2001, 7, 0} {
		lines = slices.Insert(lines, at, plain("a", years))
	}
	if _, s := read(t, arrival.Options{}, file(t, lines...)); s.Aside != 5 || s.Whole != 3000 || !strings.HasPrefix(s.Outlier(), "5 of 3005 lines have a time far outside") {
		t.Errorf("%d of 5 are set aside, %d in whole seconds: %s", s.Aside, s.Whole, s.Outlier())
	}
}

// A line at the end of a block is judged by those of the next block.
func TestOutlierAtTheEndOfABlock(t *testing.T) {
	const n = 6000
	at := logfile.BlockSize/len(exact("a", 0)) - 1
	lines := slices.Insert(steady(n, 5), at, exact("a", float64(at)*5+30*3600)) // no further than a pause of this log may be
	if c, s := read(t, arrival.Options{}, file(t, lines...)); at > n-1000 || s.Aside != 1 || len(c.all) != n {
		t.Errorf("line %d: %d set aside", at, s.Aside)
	}
}

// Logs with pauses, that grow slowly or are of many days, or in which a clock was set, have no line that is set aside.
func TestPausesAreNoOutliers(t *testing.T) {
	weekly := steady(200, 7*86400)
	nights := append(steady(500, 1), make([]string, 0, 500)...)
	for i := range 500 {
		nights = append(nights, exact("a", 14*3600+float64(i)))
	}
	slow := steady(40, math.Exp2(14))
	set := append(steady(500, 1), nights[:500]...)
	for i := range 600 {
		set = append(set, exact("a", 9*3600+float64(i)))
	}
	set = append(set, steady(600, 1)...)
	reversed := slices.Clone(weekly)
	slices.Reverse(reversed)
	for name, lines := range map[string][]string{"weekly": weekly, "nights": nights, "slow": slow, "set": set, "reversed": reversed, "one": weekly[:1], "two": {weekly[0], weekly[9]}} {
		c, s := read(t, arrival.Options{}, file(t, lines...))
		if s.Aside != 0 || len(c.all) != len(lines) || s.Outlier() != "" {
			t.Errorf("%s: %s", name, s.Outlier())
		}
	}
}

// What is set aside does not depend on the keys that are asked for.
func TestOutliersAreTheSameInBothPasses(t *testing.T) {
	var lines []string
	for i := range 4000 {
		lines = append(lines, exact(fmt.Sprintf("192.0.2.%d", 1+i%200), float64(i)))
	}
	lines = slices.Insert(lines, 2000, exact("192.0.2.7", years))
	of := arrival.Hash([]byte("192.0.2.7"))
	c, s := read(t, arrival.Options{Workers: 2, Keep: func(hash uint64) arrival.Part {
		if hash == of {
			return arrival.When
		}
		return arrival.None
	}}, file(t, lines...))
	if s.Aside != 1 || len(c.all) != 20 {
		t.Errorf("%d set aside, %d requests", s.Aside, len(c.all))
	}
	route, err := arrival.NewRoute("/b")
	if err != nil {
		t.Fatal(err)
	}
	if _, s = read(t, arrival.Options{Route: route}, file(t, lines...)); s.Aside != 1 {
		t.Errorf("%d set aside of another route", s.Aside)
	}
}

// A log that begins with an outlier is merged with others where its other lines are.
func TestOutlierInFrontOfMergedLogs(t *testing.T) {
	one, two := steady(400, 1), []string{exact("b", years)}
	for i := range 400 {
		two = append(two, exact("b", float64(i)+0.5))
	}
	c, s := read(t, arrival.Options{}, file(t, one...), file(t, two...))
	if s.Late != 0 || s.Aside != 1 || len(c.all) != 800 {
		t.Errorf("%d late, %d set aside, %d requests", s.Late, s.Aside, len(c.all))
	}
}
