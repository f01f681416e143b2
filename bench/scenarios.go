package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"
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
		{"hot-key", (*bench).hotKey},
		{"denied-key", (*bench).deniedKey},
		{"classic", (*bench).classic},
		{"million-keys", (*bench).millionKeys},
		{"memory", (*bench).memory},
		{"middleware", (*bench).middleware},
		{"http", (*bench).http},
	}
}

// The quotas of the scenarios. All are given to every contender as they are.
var (
	// roomy refuses none of the questions about one of many names.
	roomy = quota{6_000, time.Minute}
	// roomiest refuses none of the questions about a single name.
	roomiest = quota{60_000_000, time.Minute}
	// single refuses everything but the first.
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

// turns returns how entries take turns in a closed loop.
func (b *bench) turns(goroutines int, names []string) turns {
	return turns{rounds: b.Rounds, duration: b.profile.run, warmup: b.warmup, run: asking(func(d time.Duration) load {
		return closedLoop(goroutines, d, names)
	})}
}

// checkColumns are the columns of most tables.
func checkColumns() []column {
	return append([]column{
		figure("checks/s", perSecond, showRate),
		against(floorName, perSecond),
		against(redisRateName, perSecond),
	}, costs()...)
}

func (b *bench) closedLoops(ctx context.Context) ([]comparison, error) {
	var comparisons []comparison
	for _, goroutines := range []int{1, 16, 128, 512} {
		b.report("closed loop, %d goroutines", goroutines)
		names := namesOf("user:", b.names)
		entries, err := b.with(ctx, inRedis(), roomy, func(entries []*entry) error {
			return b.turns(goroutines, names).take(ctx, b.meter, entries)
		})
		if err != nil {
			return nil, err
		}
		comparisons = append(comparisons, comparison{
			slug:  fmt.Sprintf("closed-loop-%d", goroutines),
			title: fmt.Sprintf("Closed loop, %s", plural(goroutines, "goroutine")),
			text: fmt.Sprintf("Each goroutine asks about one of %s keys, at random, and asks again as soon as it has the answer. "+
				"Nothing is refused.", showRate(float64(b.names))),
			entries: entries,
			columns: checkColumns(),
			plots:   []plotted{{"checks per second", perSecond, floorName}},
		})
	}
	return comparisons, nil
}

func (b *bench) pacedCallers(ctx context.Context) ([]comparison, error) {
	const callers, longest = 256, 4 * time.Millisecond
	b.report("%d paced callers", callers)
	names := namesOf("user:", b.names)
	entries, err := b.with(ctx, inRedis(), roomy, func(entries []*entry) error {
		return turns{rounds: b.Rounds, duration: b.profile.paced, warmup: b.warmup, run: asking(func(d time.Duration) load {
			return paced(callers, longest, d, names)
		})}.take(ctx, b.meter, entries)
	})
	return []comparison{{
		slug:  "paced",
		title: fmt.Sprintf("Latency of %d paced callers", callers),
		text: fmt.Sprintf("Each caller pauses for 0 to %v before each question, as the requests of a busy server do. "+
			"Times are those of the callers, from the question to the answer.", longest),
		entries: entries,
		columns: append([]column{
			figure("p50", p50, showTime),
			against(redisRateName, p50),
			figure("p99", p99, showTime),
			against(redisRateName, p99),
			figure("checks/s", perSecond, showRate),
		}, costs()...),
		plots: []plotted{{"median latency", p50, redisRateName}, {"99th percentile", p99, redisRateName}},
	}}, err
}

func (b *bench) threeLimits(ctx context.Context) ([]comparison, error) {
	var comparisons []comparison
	for _, goroutines := range []int{1, 128} {
		b.report("three limits, %d goroutines", goroutines)
		names := namesOf("user:", b.names)
		entries, err := b.with(ctx, threeLimits(), threeQuotas()[0], func(entries []*entry) error {
			return b.turns(goroutines, names).take(ctx, b.meter, entries)
		})
		if err != nil {
			return nil, err
		}
		comparisons = append(comparisons, comparison{
			slug:  fmt.Sprintf("three-limits-%d", goroutines),
			title: fmt.Sprintf("Three limits for one request, %s", plural(goroutines, "goroutine")),
			text: "A limit a second, a minute and an hour for the same key. Only the first two rows charge all or none; three calls " +
				"leave the first charged when the second refuses. The first row is one limit, to compare with.",
			entries: entries,
			columns: append([]column{
				figure("requests/s", perSecond, showRate),
				against(leakyName, perSecond),
				against(threeRedisRateName, perSecond),
			}, costs()...),
			plots: []plotted{{"requests per second", perSecond, threeRedisRateName}},
		})
	}
	return comparisons, nil
}

func (b *bench) hotKey(ctx context.Context) ([]comparison, error) {
	b.report("one hot key")
	entries, err := b.with(ctx, inRedis(), roomiest, func(entries []*entry) error {
		return b.turns(128, []string{"everybody"}).take(ctx, b.meter, entries)
	})
	return []comparison{{
		slug:    "hot-key",
		title:   "One hot key, 128 goroutines",
		text:    "Everybody asks about the same key, and all are admitted.",
		entries: entries,
		columns: checkColumns(),
		plots:   []plotted{{"checks per second", perSecond, floorName}},
	}}, err
}

func (b *bench) deniedKey(ctx context.Context) ([]comparison, error) {
	contenders := append(append([]contender{floor()}, ownForDenials()...), rivalsInRedis()...)
	var comparisons []comparison
	for _, goroutines := range []int{1, 128} {
		b.report("one denied key, %d goroutines", goroutines)
		names := []string{"attacker"}
		entries, err := b.with(ctx, contenders, single, func(entries []*entry) error {
			for _, e := range entries {
				if _, err := e.ask(ctx, names[0]); err != nil { // the one that is admitted
					return fmt.Errorf("bench: %s: %w", e.name, err)
				}
			}
			return b.turns(goroutines, names).take(ctx, b.meter, entries)
		})
		if err != nil {
			return nil, err
		}
		comparisons = append(comparisons, comparison{
			slug:  fmt.Sprintf("denied-key-%d", goroutines),
			title: fmt.Sprintf("One denied key, %s", plural(goroutines, "goroutine")),
			text: "One caller hammers a key that has nothing left: one an hour, except for go-zero's token bucket, " +
				"whose least is one a second.",
			entries: entries,
			columns: append([]column{figure("each", secondsEach, showTime)}, checkColumns()...),
			plots:   []plotted{{"refusals per second", perSecond, floorName}},
		})
	}
	return comparisons, nil
}

func (b *bench) classic(ctx context.Context) ([]comparison, error) {
	b.report("the classic row")
	contenders := []contender{
		own(leakyName, leaky, onRedis),
		own("ratelimit fixed window", fixedWindow, onRedis),
		own("ratelimit sliding log", slidingLog, onRedis),
		redisRate(), ululeWindow(), floor(),
	}
	entries, err := b.with(ctx, contenders, counted, func(entries []*entry) error {
		return turns{rounds: b.Rounds, warmup: time.Nanosecond, run: func(ctx context.Context, e *entry, round int, _ time.Duration) (tally, error) {
			if round < 0 {
				return eachOnce(1, namesOf("warm:", 100))(ctx, e.ask), nil
			}
			return eachOnce(1, classicNames(round, b.profile.classic))(ctx, e.ask), nil
		}}.take(ctx, b.meter, entries)
	})
	return []comparison{{
		slug:  "classic",
		title: "The classic row: one caller, a hundred names",
		text: fmt.Sprintf("%s checks over 100 names, one after the other, all admitted; new names in each round.",
			showRate(float64(b.profile.classic))),
		entries: entries,
		columns: append([]column{
			figure("all of them", seconds, showTime),
			figure("each", secondsEach, showTime),
			against(leakyName, seconds),
		}, costs()...),
		plots: []plotted{{"wall time", seconds, leakyName}},
	}}, err
}

// classicNames returns the names of a round's checks, in their order.
func classicNames(round, checks int) []string {
	hundred := namesOf(fmt.Sprintf("round%d:", round), 100)
	names := make([]string, checks)
	for i := range names {
		names[i] = hundred[i%len(hundred)]
	}
	return names
}

func (b *bench) millionKeys(ctx context.Context) ([]comparison, error) {
	const goroutines = 128
	contenders := []contender{
		own(leakyName, leaky, onRedis), own("ratelimit GCRA", gcra, onRedis), redisRate(), ululeWindow(), throttledGCRA(),
	}
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
	}, costs()...)
	many := showRate(float64(b.million))
	return []comparison{
		{
			slug:  "new-keys",
			title: fmt.Sprintf("%s new keys, %d goroutines", many, goroutines),
			text: "Every question makes a key that did not exist. The size is what `MEMORY USAGE` says of it, the name included; " +
				"all contenders were given the same name.",
			entries: created,
			columns: append([]column{{"size of a key", func(e *entry, _ []*entry) string { return showBytes(e.bytes) }}}, columns...),
			plots:   []plotted{{"checks per second", perSecond, redisRateName}},
		},
		{
			slug:    "many-keys",
			title:   fmt.Sprintf("Among %s keys, %d goroutines", many, goroutines),
			text:    fmt.Sprintf("The server holds %s keys of each contender, who are asked about random ones of theirs.", many),
			entries: random,
			columns: columns,
			plots:   []plotted{{"checks per second", perSecond, redisRateName}},
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

// loopName is the row of a table that says what the measuring itself takes.
const loopName = "the loop itself"

// emptyLoop is a contender that does nothing.
func emptyLoop() contender {
	return contender{
		name:      loopName,
		algorithm: "none",
		lacks:     "It decides nothing; it is what choosing a name and calling a function costs here.",
		open: func(*setup, quota) (Ask, error) {
			return func(context.Context, string) (bool, error) { return true, nil }, nil
		},
	}
}

func (b *bench) memory(ctx context.Context) ([]comparison, error) {
	contenders := append([]contender{emptyLoop()}, inMemory()...)
	columns := []column{
		figure("each", secondsEach, showTime),
		figure("checks/s", perSecond, showRate),
		against("httprate", perSecond),
		figure("allocations", allocationsEach, showCount),
		figure("CPU", cpuEach, showTime),
	}
	var comparisons []comparison
	for _, goroutines := range []int{1, runtime.GOMAXPROCS(0), 128} {
		b.report("in memory, %d goroutines", goroutines)
		names := namesOf("user:", b.names)
		entries, err := b.with(ctx, contenders, roomy, func(entries []*entry) error {
			return b.turns(goroutines, names).take(ctx, b.meter, entries)
		})
		if err != nil {
			return nil, err
		}
		comparisons = append(comparisons, comparison{
			slug:  fmt.Sprintf("memory-%d", goroutines),
			title: fmt.Sprintf("In memory, %s", plural(goroutines, "goroutine")),
			text: fmt.Sprintf("No Redis: state inside the process, %s keys, nothing refused. \"Each\" is wall time over checks, "+
				"so that several cores can make it less than the CPU that a check takes.", showRate(float64(b.names))),
			entries: entries,
			columns: columns,
			plots:   []plotted{{"checks per second", perSecond, "httprate"}},
		})
	}
	many, err := b.memoryOfMany(ctx)
	return append(comparisons, many), err
}

func (b *bench) memoryOfMany(ctx context.Context) (comparison, error) {
	b.report("in memory, %d keys", b.million)
	names := namesOf("user:", b.million)
	entries, err := b.with(ctx, inMemory(), lasting, func(entries []*entry) error {
		share := b.million / b.Rounds
		return turns{rounds: b.Rounds, run: func(ctx context.Context, e *entry, round int, _ time.Duration) (tally, error) {
			before := heapInUse()
			counted := eachOnce(runtime.GOMAXPROCS(0), names[round*share:(round+1)*share])(ctx, e.ask)
			e.bytes += (float64(heapInUse()) - float64(before)) / float64(share*b.Rounds)
			return counted, nil
		}}.take(ctx, b.meter, entries)
	})
	return comparison{
		slug:  "memory-new-keys",
		title: fmt.Sprintf("In memory, %s new keys, %s", showRate(float64(b.million)), plural(runtime.GOMAXPROCS(0), "goroutine")),
		text: "Every question makes a key that did not exist. The size is the growth of the heap, shared out; " +
			"the names are shared by all contenders and not in it, unless a contender copies them.",
		entries: entries,
		columns: []column{
			{"size of a key", func(e *entry, _ []*entry) string { return showBytes(e.bytes) }},
			figure("each", secondsEach, showTime),
			figure("checks/s", perSecond, showRate),
			against("httprate", perSecond),
		},
		plots: []plotted{{"checks per second", perSecond, "httprate"}},
	}, err
}

// plural writes a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
