package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// tally has the counts of callers.
type tally struct {
	checks   int // answered
	admitted int
	errors   int
	elapsed  time.Duration
	server   time.Duration // the processor time of the process that was asked, where it is one of its own

	// Where latency is measured, the times of the answers, errors included.
	times    []time.Duration
	p50, p99 time.Duration
}

func (t *tally) count(admitted bool, err error) {
	if err != nil {
		t.errors++
		return
	}
	t.checks++
	if admitted {
		t.admitted++
	}
}

func (t *tally) add(other tally) {
	t.checks += other.checks
	t.admitted += other.admitted
	t.errors += other.errors
	t.times = append(t.times, other.times...)
}

// settle turns the times into percentiles.
func (t *tally) settle() {
	slices.Sort(t.times)
	t.p50, t.p99 = percentile(t.times, 50), percentile(t.times, 99)
	t.times = nil
}

// load is how a contender is asked.
type load func(ctx context.Context, ask Ask) tally

// closedLoop has goroutines that ask about random names, one call after the
// other without a pause, for as long as the duration, and once at least.
func closedLoop(goroutines int, duration time.Duration, names []string) load {
	return func(ctx context.Context, ask Ask) tally {
		var over atomic.Bool
		defer time.AfterFunc(duration, func() { over.Store(true) }).Stop()
		return together(goroutines, func(random *rand.Rand) tally {
			var own tally
			for {
				own.count(ask(ctx, names[random.IntN(len(names))]))
				if over.Load() || ctx.Err() != nil {
					return own
				}
			}
		})
	}
}

// paced has goroutines that pause for up to the longest pause, evenly distributed,
// before each call, and time the answers. Each asks once at least.
func paced(goroutines int, longest, duration time.Duration, names []string) load {
	return func(ctx context.Context, ask Ask) tally {
		var over atomic.Bool
		defer time.AfterFunc(duration, func() { over.Store(true) }).Stop()
		total := together(goroutines, func(random *rand.Rand) tally {
			own := tally{times: make([]time.Duration, 0, 4*duration/longest+64)}
			for {
				time.Sleep(rand.N(longest))
				name := names[random.IntN(len(names))]
				start := time.Now()
				admitted, err := ask(ctx, name)
				own.times = append(own.times, time.Since(start))
				own.count(admitted, err)
				if over.Load() || ctx.Err() != nil {
					return own
				}
			}
		})
		total.settle()
		return total
	}
}

// eachOnce has goroutines that share the names and ask about each of them once, in
// their order.
func eachOnce(goroutines int, names []string) load {
	return func(ctx context.Context, ask Ask) tally {
		var next atomic.Int64
		return together(goroutines, func(*rand.Rand) tally {
			var own tally
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(names) {
					break
				}
				own.count(ask(ctx, names[i]))
			}
			return own
		})
	}
}

// together runs a caller in each of the goroutines and adds up their counts.
func together(goroutines int, caller func(*rand.Rand) tally) tally {
	tallies := make([]tally, goroutines)
	start := time.Now()
	var group sync.WaitGroup
	for i := range goroutines {
		group.Go(func() {
			tallies[i] = caller(rand.New(rand.NewPCG(rand.Uint64(), uint64(i))))
		})
	}
	group.Wait()
	total := tally{elapsed: time.Since(start)}
	for _, own := range tallies {
		total.add(own)
	}
	return total
}

// namesOf returns n names that start with a prefix and end with a number.
func namesOf(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = prefix + strconv.Itoa(i)
	}
	return names
}
