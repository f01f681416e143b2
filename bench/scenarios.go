package main

import (
	"context"
	"fmt"
	"time"
)

// bench is one run: a profile, a redis-server, and the eyes on it.
type bench struct {
	profile

	redis  string // the server's address
	meter  meter
	report func(format string, arguments ...any) // progress
}

// scenario is one situation in which contenders are compared.
type scenario struct {
	name string
	run  func(b *bench, ctx context.Context) ([]comparison, error)
}

// scenarios are all there is, in the order of the report.
func scenarios() []scenario {
	return []scenario{
		{"closed-loop", (*bench).closedLoops},
		{"paced", (*bench).pacedCallers},
		{"three-limits", (*bench).threeLimits},
		{"fair-shares", (*bench).fairShares},
		{"hot-key", (*bench).hotKey},
		{"denied-key", (*bench).deniedKey},
		{"classic", (*bench).classic},
		{"at-once", (*bench).atOnce},
		{"million-keys", (*bench).millionKeys},
		{"leases", (*bench).leases},
		{"redis-held", (*bench).held},
		{"memory", (*bench).memory},
		{"middleware", (*bench).middleware},
		{"middleware-in-memory", (*bench).middlewareInMemory},
		{"http", (*bench).http},
		{"service", (*bench).service},
		{"logs", (*bench).logs},
	}
}

// The quotas of the scenarios. All are given to every contender as they are.
var (
	// roomy denies none of the calls about one of many names.
	roomy = quota{6_000, time.Minute}
	// roomiest denies none of the calls about a single name.
	roomiest = quota{60_000_000, time.Minute}
	// single denies everything but the first.
	single = quota{1, time.Hour}
	// lasting leaves keys that outlive the run.
	lasting = quota{10, time.Hour}
	// counted admits exactly the classic row's hundred checks a name.
	counted = quota{100, time.Hour}
)

// with opens contenders under a quota on an empty server, has them compared, and
// closes them.
func (b *bench) with(ctx context.Context, contenders []contender, q quota, compare func(entries []*entry) error) (entries []*entry, err error) {
	if err := b.empty(ctx); err != nil {
		return nil, err
	}
	entries, err = open(b.redis, contenders, q)
	defer func() {
		if failure := closeAll(entries); err == nil {
			err = failure
		}
	}()
	if err != nil {
		return nil, err
	}
	return entries, compare(entries)
}

// empty deletes everything on the server.
func (b *bench) empty(ctx context.Context) error {
	if err := b.meter.redis.FlushAll(ctx).Err(); err != nil {
		return fmt.Errorf("bench: emptying the server: %w", err)
	}
	return nil
}

// turns returns how entries take turns in a closed loop. A single goroutine is measured for longer: it makes fewer checks, and meets
// more of the machine's other work.
func (b *bench) turns(goroutines int, names []string) turns {
	length := b.loop
	if goroutines == 1 {
		length = b.lone
	}
	return turns{rounds: b.Rounds, duration: length, warmup: b.warmup, run: asking(func(d time.Duration) load {
		return closedLoop(goroutines, d, names)
	})}
}

// callers writes how many goroutines ask.
func callers(goroutines int) string {
	if goroutines == 1 {
		return "1 goroutine"
	}
	return fmt.Sprintf("%d goroutines", goroutines)
}
