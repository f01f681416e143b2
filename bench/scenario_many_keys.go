package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// millionKeys shows what new keys cost, and a server that is full of keys.
func (b *bench) millionKeys(ctx context.Context) ([]comparison, error) {
	const goroutines = 128
	// Few of them, since a million calls take each of them half a minute.
	contenders := []contender{own(leakyName, leaky, onRedis), own(gcraName, gcra, onRedis), redisRate(), ululeWindow()}
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
	}, costs("client")...)
	many := showRate(float64(b.million))
	return []comparison{
		{
			slug:  "new-keys",
			title: fmt.Sprintf("%s new keys, %d goroutines", many, goroutines),
			text: "Every call makes a key that did not exist. The size is what `MEMORY USAGE` says of it, the name included; " +
				"all contenders were given the same name.",
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

// sizes returns how many bytes each contender keeps in Redis after one check.
func (b *bench) sizes(ctx context.Context, contenders []contender) ([]float64, error) {
	sizes := make([]float64, len(contenders))
	for i, c := range contenders {
		_, err := b.with(ctx, []contender{c}, lasting, func(entries []*entry) error {
			if _, err := entries[0].ask(ctx, "user:123456"); err != nil {
				return fmt.Errorf("bench: %s: %w", c.name, err)
			}
			size, err := keyspaceBytes(ctx, b.meter.redis)
			sizes[i] = float64(size)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return sizes, nil
}

// keyspaceBytes returns what all keys of a server take.
func keyspaceBytes(ctx context.Context, client *redis.Client) (int64, error) {
	keys, err := client.Keys(ctx, "*").Result()
	if err != nil {
		return 0, fmt.Errorf("bench: listing keys: %w", err)
	}
	var total int64
	for _, key := range keys {
		size, err := client.MemoryUsage(ctx, key, 0).Result()
		if err != nil {
			return 0, fmt.Errorf("bench: the size of a key: %w", err)
		}
		total += size
	}
	return total, nil
}
