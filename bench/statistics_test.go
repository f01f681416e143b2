package main

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestMedianIsTheMiddleOne(t *testing.T) {
	for _, c := range []struct {
		figures []float64
		want    float64
	}{
		{[]float64{7}, 7},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		given := slices.Clone(c.figures)
		if got := median(c.figures); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.figures, got, c.want)
		}
		if !slices.Equal(given, c.figures) {
			t.Errorf("median changed %v to %v", given, c.figures)
		}
	}
}

func TestSpreadIsMedianAndMiddleHalf(t *testing.T) {
	for _, c := range []struct {
		figures []float64
		want    spread
	}{
		{[]float64{7}, spread{7, 7, 7}},
		{[]float64{3, 1, 2}, spread{2, 1, 3}},
		{[]float64{9, 3, 1, 5, 7}, spread{5, 3, 7}},
		{[]float64{90, 8, 1, 2, 3, 4, 5, 6, 7}, spread{5, 3, 7}},
	} {
		if got := spreadOf(c.figures); got != c.want {
			t.Errorf("spreadOf(%v) = %v, want %v", c.figures, got, c.want)
		}
	}
	if got := spreadOf(nil); !math.IsNaN(got.median) {
		t.Errorf("the spread of nothing is %v", got)
	}
}

func TestMedianLiesInTheMiddleHalf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := spreadOf(rapid.SliceOfN(rapid.Float64Range(0, 1e9), 1, 20).Draw(t, "figures"))
		if s.median < s.low || s.median > s.high {
			t.Fatalf("%v", s)
		}
	})
}

func TestPercentileIsTheSmallestThatEnoughDoNotExceed(t *testing.T) {
	times := make([]time.Duration, 100)
	for i := range times {
		times[i] = time.Duration(i + 1)
	}
	for _, c := range []struct {
		times []time.Duration
		p     float64
		want  time.Duration
	}{
		{times, 50, 50},
		{times, 99, 99},
		{times, 99.1, 100},
		{times, 100, 100},
		{times, 0, 1},
		{times[:1], 50, 1},
		{times[:3], 50, 2},
		{nil, 50, 0},
	} {
		if got := percentile(c.times, c.p); got != c.want {
			t.Errorf("percentile %v of %d times = %d, want %d", c.p, len(c.times), got, c.want)
		}
	}
}

// took returns samples of one check each.
func took(times ...time.Duration) []sample {
	samples := make([]sample, len(times))
	for i, elapsed := range times {
		samples[i] = sample{tally: tally{checks: 1, admitted: 1, elapsed: elapsed}}
	}
	return samples
}

func TestRatioComparesRoundByRound(t *testing.T) {
	// Everything is three times as slow in the second round, and the ratio is not.
	got := ratio(seconds, took(2*time.Second, 6*time.Second), took(4*time.Second, 12*time.Second))
	if want := (spread{0.5, 0.5, 0.5}); got != want {
		t.Errorf("ratio = %v, want %v", got, want)
	}
}

func TestRatioToABaselineThatWasNotMeasuredIsNone(t *testing.T) {
	if got := showRatio(ratio(seconds, took(time.Second), nil)); got != missing {
		t.Errorf("the ratio is %q", got)
	}
}
