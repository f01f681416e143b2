package main

import (
	"context"
	"fmt"
	"time"
)

// millionKeys shows the cost of new keys, and of a server that is full of keys.
func (b *bench) millionKeys(ctx context.Context) ([]comparison, error) {
	const goroutines = 128
	// Few of them, since a million calls take each of them half a minute.
	contenders := []contender{own(leakyName, leaky, onRedis), own(gcraName, gcra, onRedis), redisRate(), redisRateAutoPipeline(), ululeWindow()}
	b.report("the size of a key")
	sizes, err := b.sizes(ctx, contenders)
	if err != nil {
		return nil, err
	}
	names := namesOf("user:", b.million)
	var random []*entry
	created, err := b.with(ctx, contenders, lasting, func(entries []*entry) error {
		b.report("%d new keys", b.million)
		for i, e := range entries {
			e.bytes = sizes[i]
		}
		share := b.million / b.Rounds
		err := turns{rounds: b.Rounds, run: func(ctx context.Context, e *entry, round int, _ time.Duration) (tally, error) {
			return eachOnce(goroutines, names[round*share:(round+1)*share])(ctx, e.ask), nil
		}}.take(ctx, b.meter, entries)
		if err != nil {
			return err
		}
		b.report("among %d keys", b.million)
		random = again(entries)
		return b.turns(goroutines, names[:share*b.Rounds]).take(ctx, b.meter, random)
	})
	if err != nil {
		return nil, err
	}
	columns := append([]column{
		figure("checks/s", perSecond, showRate),
		against(redisRateName, perSecond),
		against(redisRateAuto, perSecond),
	}, costs("client")...)
	many := showRate(float64(b.million))
	return []comparison{
		{
			slug:  "new-keys",
			title: fmt.Sprintf("%s new keys, %d goroutines", many, goroutines),
			text: fmt.Sprintf("Every call makes a key that did not exist. The size is what Redis grows by (`used_memory` before and after %s keys, each "+
				"contender on an empty server), tables and names included; all contenders were given the same names.", showRate(float64(b.sized))),
			entries: created,
			columns: append([]column{{"size of a key", less, func(e *entry, _ []*entry) string { return showBytes(e.bytes) }}}, columns...),
			plots:   []plotted{{"new-keys", "checks per second", perSecond, redisRateName}},
		},
		{
			slug:    "many-keys",
			title:   fmt.Sprintf("Among %s keys, %d goroutines", many, goroutines),
			text:    fmt.Sprintf("The server holds %s keys of each contender, who are asked about random ones of theirs.", many),
			entries: random,
			columns: columns,
			plots:   []plotted{{"many-keys", "checks per second", perSecond, redisRateName}},
		},
	}, nil
}

// again returns entries that are measured anew, in a table of their own.
func again(entries []*entry) []*entry {
	fresh := make([]*entry, len(entries))
	for i, e := range entries {
		fresh[i] = &entry{contender: e.contender, ask: e.ask, setup: e.setup}
	}
	return fresh
}

// sizes returns by how many bytes a key of each contender makes Redis grow.
func (b *bench) sizes(ctx context.Context, contenders []contender) ([]float64, error) {
	names := namesOf("user:", b.sized)
	sizes := make([]float64, len(contenders))
	for i, c := range contenders {
		_, err := b.with(ctx, []contender{c}, lasting, func(entries []*entry) (err error) {
			ask := entries[0].ask
			if err := all(ctx, c, ask, namesOf("warm:", min(1000, b.sized))); err != nil { // which opens the connections
				return err
			}
			sizes[i], err = b.growth(ctx, len(names), func() error { return all(ctx, c, ask, names) })
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return sizes, nil
}

// all asks about each name once, and has none unanswered.
func all(ctx context.Context, c contender, ask Ask, names []string) error {
	const goroutines = 128
	if counted := eachOnce(goroutines, names)(ctx, ask); counted.checks < len(names) {
		return fmt.Errorf("bench: %s: %d of %d calls were not answered", c.name, len(names)-counted.checks, len(names))
	}
	return nil
}

// growth returns by how much Redis grows for each of the keys that a function makes.
func (b *bench) growth(ctx context.Context, keys int, create func() error) (float64, error) {
	before, err := b.meter.usedMemory(ctx)
	if err != nil {
		return 0, err
	}
	if err := create(); err != nil {
		return 0, err
	}
	after, err := b.meter.usedMemory(ctx)
	return (after - before) / float64(keys), err
}
