package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// entry is one row of a comparison: an open contender, and its
// samples so far.
type entry struct {
	contender

	setup   *setup
	ask     Ask
	samples []sample
	bytes   float64 // per key, where that is measured
}

// open opens contenders under a quota. The caller closes the entries, also
// after an error.
func open(redis string, contenders []contender, q quota) ([]*entry, error) {
	var entries []*entry
	for _, c := range contenders {
		opened := &entry{contender: c, setup: &setup{address: redis}}
		entries = append(entries, opened)
		ask, err := c.open(opened.setup, q)
		if err != nil {
			return entries, fmt.Errorf("bench: opening %s: %w", c.name, err)
		}
		opened.ask = ask
	}
	return entries, nil
}

// closeAll closes entries, and lets go of them: a million unused keys
// would make every later collection a long one.
func closeAll(entries []*entry) error {
	var failures []error
	for _, e := range entries {
		failures = append(failures, e.setup.close())
		e.ask, e.setup = nil, nil
	}
	return errors.Join(failures...)
}

// turns says how entries take turns.
type turns struct {
	rounds   int
	duration time.Duration // of a run
	warmup   time.Duration // of the run before it that does not count; 0 for none
	// run asks an entry for as long as the duration, in a round that is negative
	// while it warms up.
	run func(ctx context.Context, e *entry, round int, duration time.Duration) (tally, error)
}

// asking runs a load that depends on its duration alone.
func asking(loadOf func(time.Duration) load) func(context.Context, *entry, int, time.Duration) (tally, error) {
	return func(ctx context.Context, e *entry, _ int, duration time.Duration) (tally, error) {
		return loadOf(duration)(ctx, e.ask), nil
	}
}

// take measures every entry once in each round, in an order that is shuffled for
// each round, so that all of them meet the same machine.
func (t turns) take(ctx context.Context, m meter, entries []*entry) error {
	for round := range t.rounds {
		for _, i := range rand.Perm(len(entries)) {
			measured, err := t.one(ctx, m, entries[i], round)
			if err != nil {
				return fmt.Errorf("bench: round %d of %s: %w", round+1, entries[i].name, err)
			}
			entries[i].samples = append(entries[i].samples, measured)
		}
	}
	return nil
}

func (t turns) one(ctx context.Context, m meter, e *entry, round int) (sample, error) {
	if t.warmup > 0 {
		if _, err := t.run(ctx, e, -1, t.warmup); err != nil {
			return sample{}, err
		}
	}
	unanswered := 0
	for range patience {
		before := e.setup.failedOpen.Load()
		measured, err := m.measure(ctx, func() (tally, error) { return t.run(ctx, e, round, t.duration) })
		measured.failedOpen = e.setup.failedOpen.Load() - before
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || measured.checks > 0 {
			return measured, err
		}
		unanswered += measured.errors
	}
	return sample{}, fmt.Errorf("none of %d calls was answered", unanswered)
}

// samplesOf returns the samples of the entry with a name, or nil.
func samplesOf(entries []*entry, name string) []sample {
	for _, e := range entries {
		if e.name == name {
			return e.samples
		}
	}
	return nil
}
