//go:build !race

package demand

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"
)

func sortedInts(all []int64) []int64 { return slices.Sorted(slices.Values(all)) }

// Nothing is rounded, since each rate lets an event pass every whole number of microseconds.
func TestRates(t *testing.T) {
	for i, r := range Rates {
		if r.Period%time.Duration(r.Events) != 0 || r.Period/time.Duration(r.Events)%time.Microsecond != 0 {
			t.Errorf("%s is no whole number of microseconds an event", r)
		}
		if i > 0 && Interval(i) <= Interval(i-1) {
			t.Errorf("%s is not slower than %s", r, Rates[i-1])
		}
	}
	if !slices.IsSorted(Bursts) || Bursts[0] != 1 || slices.ContainsFunc(Bursts[1:], func(b int) bool { return RoundUp(b-1) == 0 }) {
		t.Errorf("bursts are %v", Bursts)
	}
	for i, b := range Bursts[1:] {
		if b > 2*Bursts[i] {
			t.Errorf("burst %d is more than twice %d", b, Bursts[i])
		}
	}
}

func TestDistribution(t *testing.T) {
	var more counts
	more.add(3)
	more.add(3)
	more.add(900)
	d := newDistribution([]uint32{5, 1, 1, 2}, &more)
	for _, c := range []struct{ got, want int }{
		{d.Keys(), 7},
		{d.Above(0), 7},
		{d.Above(1), 5},
		{d.Above(2), 4},
		{d.Above(4), 2},
		{d.Above(899), 1},
		{d.Above(900), 0},
		{d.Least(0), 900},
		{d.Least(1), 5},
		{d.Least(2), 3},
		{d.Least(6), 1},
		{d.Quantile(0.5), 3},
		{d.Quantile(1), 900},
		{d.Quantile(0.01), 1},
		{Distribution{}.Keys(), 0},
		{Distribution{}.Above(3), 0},
		{Distribution{}.Quantile(1), 0},
		{Distribution{}.Least(0), 0},
	} {
		if c.got != c.want {
			t.Errorf("got %d, want %d of %v", c.got, c.want, d.steps)
		}
	}
}

// A level above Most is cut there, so that no number overflows, however long it goes on.
func TestMost(t *testing.T) {
	var b bucket
	slowest := RateCount - 1
	b.need[slowest] = Most - 1
	b.empty[slowest] = start + (Most-1)*intervals[slowest]
	for range 3 {
		b.fill(start)
	}
	if b.need[slowest] != Most || b.empty[slowest] != start+Most*intervals[slowest] {
		t.Errorf("the bucket needs %d and is empty %d later", b.need[slowest], (b.empty[slowest]-start)/intervals[slowest])
	}
}

func TestSuspect(t *testing.T) {
	for _, c := range []struct {
		requests, refused, limited uint64
		want                       bool
	}{{20, 10, 0, true}, {20, 9, 0, false}, {19, 19, 0, false}, {100, 0, 100, false}} {
		k := Key{Requests: c.requests, Refused: c.refused, Limited: c.limited}
		if k.Suspect() != c.want {
			t.Errorf("%+v: %v", c, k.Suspect())
		}
	}
}

func TestProposeOfNothing(t *testing.T) {
	if p := NewTracker(0).Demand().Propose(time.Minute, time.Hour, time.Hour); p != nil {
		t.Errorf("proposals of an empty log: %v", p)
	}
}

func TestPeaks(t *testing.T) {
	tracker := NewTracker(0)
	tracker.Second(arrivalsOf("a", start, start+1, start+59_999_999, start+60_000_000, start+3_600_000_000))
	if got := tracker.Demand().Keys[0].Peak; got != [3]uint32{3, 4, 5} {
		t.Errorf("most in a minute, an hour and a day: %v", got)
	}
}

// A looser proposal has the rate of a tighter one at least, although a slower one with its burst would let a key have less.
func TestLooserProposalsAreNotSlower(t *testing.T) {
	tracker := NewTracker(0)
	steady := make([]int64, 300) // ten a second
	for i := range steady {
		steady[i] = start + int64(i)*100_000
	}
	for key := range 1000 {
		tracker.Second(arrivalsOf(strconv.Itoa(key), steady...))
	}
	tracker.Second(arrivalsOf("many at once", make([]int64, 2000)...))
	proposals := tracker.Demand().Propose(10*time.Second, time.Hour, time.Hour)
	got := fmt.Sprint(proposals[0].Cell.Limit(), "; ", proposals[1].Cell.Limit(), "; ", proposals[2].Cell.Limit())
	if want := "leaky 2000, 10/s; leaky 1, 10/s; leaky 1, 10/s"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What a limit denied is counted by itself.
func TestStatuses(t *testing.T) {
	tracker := NewTracker(0)
	all := arrivalsOf("a", make([]int64, 5)...)
	for i, status := range []uint16{200, 429, 404, 500, 429} {
		all[i].Status = status
	}
	tracker.Second(all)
	if k := tracker.Demand().Keys[0]; k.Requests != 5 || k.Refused != 1 || k.Limited != 2 {
		t.Errorf("%d requests, %d refused, %d limited", k.Requests, k.Refused, k.Limited)
	}
}

// A looser proposal has the burst of a tighter one at least, although its rate alone would do.
func TestLooserProposalsHaveNoSmallerBurst(t *testing.T) {
	tracker := NewTracker(0)
	people, programs := make([]int64, 50), make([]int64, 30_000) // fifty requests, one a second, and ten a second for 50 minutes
	for i := range people {
		people[i] = start + int64(i)*1_000_000
	}
	for i := range programs {
		programs[i] = start + int64(i)*100_000
	}
	for key := range 990 {
		tracker.Second(arrivalsOf(strconv.Itoa(key), people...))
	}
	for key := range 10 {
		all := arrivalsOf("program "+strconv.Itoa(key), programs...)
		for i := range all {
			all[i].AgentHash = uint64(i) // of many people, so it is normal
		}
		tracker.Second(all)
	}
	proposals := tracker.Demand().Propose(1000*time.Second, 1000*time.Hour, 1000*time.Hour)
	got := fmt.Sprint(proposals[0].Cell.Limit(), "; ", proposals[1].Cell.Limit(), "; ", proposals[2].Cell.Limit())
	if want := "leaky 50, 10/s; leaky 50, 10/s; leaky 50, 3/d"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
