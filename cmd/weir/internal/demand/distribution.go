package demand

import (
	"cmp"
	"slices"
)

// Distribution is how many keys have each number, in ascending order.
type Distribution struct {
	steps []step
}

// step is a number, and how many keys have that or less.
type step struct {
	number uint32
	keys   int
}

func newDistribution(numbers []uint32, more ...*counts) Distribution {
	slices.Sort(numbers)
	var steps []step
	for _, n := range numbers {
		if last := len(steps) - 1; last >= 0 && steps[last].number == n {
			steps[last].keys++
		} else {
			steps = append(steps, step{n, 1})
		}
	}
	for _, c := range more {
		for n, keys := range c.small {
			if keys > 0 {
				steps = append(steps, step{uint32(n), int(keys)})
			}
		}
		for n, keys := range c.large {
			steps = append(steps, step{n, int(keys)})
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.number, b.number) })
	merged, total := steps[:0], 0
	for _, s := range steps {
		total += s.keys
		if n := len(merged); n > 0 && merged[n-1].number == s.number {
			merged[n-1].keys = total
		} else {
			merged = append(merged, step{s.number, total})
		}
	}
	return Distribution{slices.Clip(slices.Clone(merged))}
}

// Keys returns the number of all keys.
func (d Distribution) Keys() int {
	if len(d.steps) == 0 {
		return 0
	}
	return d.steps[len(d.steps)-1].keys
}

// Above returns how many keys have more than n.
func (d Distribution) Above(n int) int {
	i, _ := slices.BinarySearchFunc(d.steps, n, func(s step, n int) int {
		if int(s.number) <= n {
			return -1
		}
		return 1
	})
	if i == 0 {
		return d.Keys()
	}
	return d.Keys() - d.steps[i-1].keys
}

// Least returns the least number that at most the given number of keys exceed.
func (d Distribution) Least(exceeding int) int {
	for _, s := range d.steps {
		if d.Keys()-s.keys <= exceeding {
			return int(s.number)
		}
	}
	return 0
}

// Quantile returns the least number that the share q of the keys does not exceed.
func (d Distribution) Quantile(q float64) int {
	for _, s := range d.steps {
		if float64(s.keys) >= q*float64(d.Keys()) {
			return int(s.number)
		}
	}
	return 0
}

// Demand says how large a burst the keys of a log need at each rate.
type Demand struct {
	Requests uint64
	// Distinct is how many keys there are. It is exact as long as none was given up, and then an estimate with a standard error of 0.8 %.
	Distinct uint64
	// GivenUp is how many times a key was given up, and Missed how many requests each of the others may have had before it was followed.
	GivenUp int
	Missed  uint64
	// Suspects is how many keys look like abuse.
	Suspects int
	// Normal and All are the needed bursts at each rate: of the keys that do not look like abuse, and of all.
	Normal, All [RateCount]Distribution
	// Peaks are the most requests that keys had in a minute, an hour and a day.
	Peaks [3]Distribution
	// Keys are the keys that were followed to the end.
	Keys []*Key
}

// Demand returns the demand of all keys. The Tracker must not be used any more.
func (t *Tracker) Demand() *Demand {
	d := &Demand{Requests: t.requests, Missed: t.missed, GivenUp: t.past[0].keys + t.past[1].keys}
	d.Distinct = uint64(t.keys.n)
	if d.GivenUp > 0 {
		d.Distinct = t.distinct.Estimate()
	}
	t.index = nil
	all := make([]uint32, 0, t.keys.n)
	for k := range t.keys.all() {
		d.Keys = append(d.Keys, k)
	}
	for w := range windows {
		all = all[:0]
		for _, k := range d.Keys {
			all = append(all, k.Peak[w])
		}
		d.Peaks[w] = newDistribution(all, &t.past[0].peaks[w], &t.past[1].peaks[w])
	}
	d.judge()
	d.Suspects = t.past[1].keys
	for _, k := range d.Keys {
		d.Suspects += kind(k)
	}
	normal := make([]uint32, 0, t.keys.n)
	for r := range RateCount {
		normal, all = normal[:0], all[:0]
		for _, k := range d.Keys {
			all = append(all, k.bucket.need[r])
			if !k.Suspect() {
				normal = append(normal, k.bucket.need[r])
			}
		}
		d.Normal[r] = newDistribution(normal, &t.past[0].need[r])
		d.All[r] = newDistribution(all, &t.past[0].need[r], &t.past[1].need[r])
	}
	return d
}
