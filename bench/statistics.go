package main

import (
	"math"
	"slices"
	"time"
)

// spread sums up one figure of several rounds: the median, and the lowest and the highest of the middle half of
// the rounds. So a few rounds that a shared machine has disturbed do not count.
type spread struct{ median, low, high float64 }

// widest is how many times its low end the high end of a figure's middle half may be. A wider figure is not told.
const widest = 1.5

// steady reports whether the rounds agree about a figure, differences of a grain aside.
func (s spread) steady(grain float64) bool {
	return s.high-s.low <= grain || s.low > 0 && s.high <= widest*s.low
}

// spreadOf returns the spread of the rounds' figures, and NaN for none.
func spreadOf(figures []float64) spread {
	if len(figures) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(figures))
	quarter := (len(sorted) - 1) / 4
	return spread{median(figures), sorted[quarter], sorted[len(sorted)-1-quarter]}
}

// median returns the middle figure, or the mean of the middle two.
func median(figures []float64) float64 {
	sorted := slices.Sorted(slices.Values(figures))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// percentile returns the smallest time that at least p percent of the times do
// not exceed (the nearest-rank method), and 0 of none. The times are sorted.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// metric is one figure of a sample.
type metric struct {
	value  func(sample) float64
	better better
	grain  float64 // differences between rounds that are no wider say nothing
}

// better says which of two figures is better, as a mark behind the name of the figure.
type better string

const (
	neither better = ""
	more    better = " ↑"
	less    better = " ↓"
)

// each returns a figure of every round.
func each(samples []sample, of metric) []float64 {
	figures := make([]float64, len(samples))
	for i, s := range samples {
		figures[i] = of.value(s)
	}
	return figures
}

// ratio compares two contenders round by round, so that a busy minute of the
// machine, which both have met, does not count as a difference between them.
func ratio(of metric, samples, baseline []sample) spread {
	rounds := min(len(samples), len(baseline))
	ratios := make([]float64, rounds)
	for i := range rounds {
		ratios[i] = of.value(samples[i]) / of.value(baseline[i])
	}
	return spreadOf(ratios)
}
