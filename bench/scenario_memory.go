package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// loopName is the row of a table with the cost of measuring itself.
const loopName = "the loop itself"

// emptyLoop is a contender that does nothing.
func emptyLoop() contender {
	return contender{
		name:      loopName,
		idle:      true,
		algorithm: "none",
		note:      "It decides nothing; it is what choosing a name and calling a function costs here.",
		open: func(*setup, quota) (Ask, error) {
			return func(context.Context, string) (bool, error) { return true, nil }, nil
		},
	}
}

// memory shows the cost of a check without Redis, and whether more cores help.
func (b *bench) memory(ctx context.Context) ([]comparison, error) {
	contenders := append([]contender{emptyLoop()}, inMemory()...)
	columns := []column{
		figure("each", secondsEach, showTime),
		figure("checks/s", perSecond, showRate),
		against(httprateAlone, perSecond),
		figure("allocations", allocationsEach, showCount),
		figure("CPU", cpuEach, showTime),
	}
	var comparisons []comparison
	for _, goroutines := range slices.Compact([]int{1, runtime.GOMAXPROCS(0), 128}) {
		b.report("in memory, %s", callers(goroutines))
		names := namesOf("user:", b.names)
		entries, err := b.with(ctx, contenders, roomy, func(entries []*entry) error {
			return b.turns(goroutines, names).take(ctx, b.meter, entries)
		})
		if err != nil {
			return nil, err
		}
		comparisons = append(comparisons, comparison{
			slug:  fmt.Sprintf("memory-%d", goroutines),
			title: "In memory, " + callers(goroutines),
			text: fmt.Sprintf("No Redis: state inside the process, %s keys, nothing denied. \"Each\" is wall time over checks, "+
				"so that several cores can make it less than the CPU that a check takes. No limiter writes header fields, "+
				"but for the row that says so: middleware is compared with middleware below.", showRate(float64(b.names))),
			entries: entries,
			columns: columns,
			plots:   []plotted{{fmt.Sprintf("memory-%d", goroutines), "checks per second", perSecond, httprateAlone}},
		})
	}
	many, err := b.memoryOfMany(ctx)
	return append(comparisons, many), err
}

// memoryOfMany shows the size of a key in memory.
func (b *bench) memoryOfMany(ctx context.Context) (comparison, error) {
	b.report("in memory, %d keys", b.million)
	names := namesOf("user:", b.million)
	entries, err := b.with(ctx, inMemory(), lasting, func(entries []*entry) error {
		share := b.million / b.Rounds
		return turns{rounds: b.Rounds, run: func(ctx context.Context, e *entry, round int, _ time.Duration) (tally, error) {
			before := heapInUse() // the meter has just collected
			counted := eachOnce(runtime.GOMAXPROCS(0), names[round*share:(round+1)*share])(ctx, e.ask)
			runtime.GC()
			e.bytes += (float64(heapInUse()) - float64(before)) / float64(share*b.Rounds)
			return counted, nil
		}}.take(ctx, b.meter, entries)
	})
	return comparison{
		slug:  "memory-new-keys",
		title: fmt.Sprintf("In memory, %s new keys, %s", showRate(float64(b.million)), callers(runtime.GOMAXPROCS(0))),
		text: "Every call makes a key that did not exist. The size is the growth of the heap, shared out; " +
			"the names are shared by all contenders and not in it, unless a contender copies them.",
		entries: entries,
		columns: []column{
			{"size of a key", less, func(e *entry, _ []*entry) string { return showBytes(e.bytes) }},
			figure("each", secondsEach, showTime),
			figure("checks/s", perSecond, showRate),
			against(httprateAlone, perSecond),
		},
		plots: []plotted{{"memory-new-keys", "checks per second", perSecond, httprateAlone}},
	}, err
}
