package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/admin"
)

// holding is a call to a key, or to keys, in which a number of things lie.
type holding struct {
	name string
	// prepare makes n things, and ask makes a call that meets them.
	prepare, ask func(ctx context.Context, l *core.Limiter, n int) error
	// takes says that the call uses the things up, so that they are prepared anew before each.
	takes bool
}

// asked is how often the call of a holding is made, and askedAnew if all is prepared anew.
const asked, askedAnew = 20, 3

// logOf is a sliding log of twice n units.
func logOf(n int) core.Limit { return core.SlidingLog(2*n, time.Hour) }

// heldBan is the ban of the keys that are banned.
var heldBan = core.Ban{Strikes: core.SlidingLog(1, time.Hour), First: time.Hour}

// reserving is a check that reserves for a moment only.
func reserving(n int) core.Check {
	return core.Check{Key: "key", Limit: core.Leaky(2*n+asked, core.PerHour(1)), ReserveFor: time.Millisecond}
}

// holders is a limit of n places, and some more.
func holders(n int, lease time.Duration) core.Limit { return core.Concurrent(n+asked, lease) }

// holdings are the situations in the order of the table, on a server.
func holdings(url string) []holding {
	nothing := func(context.Context, *core.Limiter, int) error { return nil }
	fillLog := func(ctx context.Context, l *core.Limiter, n int) error {
		for left := n; left > 0; left -= 1000 {
			if _, err := l.AllowN(ctx, "key", logOf(n), min(left, 1000)); err != nil {
				return err
			}
		}
		return nil
	}
	// hold takes n places, and does not renew them.
	hold := func(ctx context.Context, limit core.Limit, n int) error {
		l, err := core.Open(url, core.WithBudget(time.Minute))
		if err != nil {
			return err
		}
		taken := make([]*core.Reservation, n)
		err = crowd(n, func(i int) (err error) {
			taken[i], err = l.Reserve(ctx, core.Check{Key: "key", Limit: limit})
			return err
		})
		_ = l.Close()
		runtime.KeepAlive(taken)
		return err
	}
	list := []holding{
		{"a check beside so many reservations that have ended", func(ctx context.Context, l *core.Limiter, n int) error {
			err := crowd(n, func(int) error {
				_, err := l.Reserve(ctx, reserving(n))
				return err
			})
			time.Sleep(10 * time.Millisecond) // until the last one has ended
			return err
		}, func(ctx context.Context, l *core.Limiter, n int) error {
			_, err := l.Reserve(ctx, reserving(n))
			return err
		}, false},
		{"a call for so many places", nothing, func(ctx context.Context, l *core.Limiter, n int) error {
			r, err := l.Reserve(ctx, core.Check{Key: "key", Limit: core.Concurrent(1_000_000, time.Minute), Cost: n})
			if err != nil {
				return err
			}
			return r.Cancel(ctx)
		}, false},
		{"a call beside so many holders whose leases have ended", func(ctx context.Context, _ *core.Limiter, n int) error {
			defer time.Sleep(1100 * time.Millisecond) // until the last lease has ended
			return hold(ctx, holders(n, time.Second), n)
		}, func(ctx context.Context, l *core.Limiter, n int) error {
			_, err := l.Reserve(ctx, core.Check{Key: "key", Limit: holders(n, time.Second)})
			return err
		}, false},
		{"a reset of so many holders", func(ctx context.Context, _ *core.Limiter, n int) error {
			return hold(ctx, holders(n, time.Minute), n)
		}, func(ctx context.Context, l *core.Limiter, n int) error {
			return l.Reset(ctx, "key", holders(n, time.Minute))
		}, true},
		{"a page of so many bans", func(ctx context.Context, l *core.Limiter, n int) error {
			return crowd(n, func(i int) error {
				_, err := l.Strike(ctx, fmt.Sprint("user:", i), heldBan, 1)
				return err
			})
		}, func(ctx context.Context, l *core.Limiter, _ int) error {
			_, _, err := admin.Bans(ctx, l, heldBan, "", "")
			return err
		}, false},
		{"a check of a sliding log of so many units", fillLog, func(ctx context.Context, l *core.Limiter, n int) error {
			_, err := l.Allow(ctx, "key", logOf(n))
			return err
		}, false},
		{"a settlement in a sliding log of so many units", fillLog, func(ctx context.Context, l *core.Limiter, n int) error {
			r, err := l.Reserve(ctx, core.Check{Key: "key", Limit: logOf(n)})
			if err != nil {
				return err
			}
			return r.Cancel(ctx)
		}, false},
		{"a reset of a sliding log of so many units", fillLog, func(ctx context.Context, l *core.Limiter, n int) error {
			return l.Reset(ctx, "key", logOf(n))
		}, true},
		{"a check of so many units of a sliding log", nothing, func(ctx context.Context, l *core.Limiter, n int) error {
			_, err := l.AllowN(ctx, "key", core.SlidingLog(1_000_000, time.Hour), n)
			return err
		}, false},
	}
	for name, limit := range map[string]core.Limit{
		"leaky bucket": core.Leaky(100, core.PerSecond(1)), "sliding window": core.SlidingWindow(100, time.Hour),
		"sliding log": core.SlidingLog(100, time.Hour),
	} {
		of := "checks of so many callers at once, each under its own " + name
		list = append(list, holding{of, nothing, func(ctx context.Context, l *core.Limiter, n int) error {
			return crowd(min(n, 10_000), func(i int) error {
				_, err := l.Allow(ctx, fmt.Sprint("user:", i), limit)
				return err
			})
		}, false})
	}
	slices.SortStableFunc(list, func(a, b holding) int { return strings.Compare(a.name, b.name) })
	return list
}

// crowd calls do n times, by some goroutines at once.
func crowd(n int, do func(i int) error) error {
	const goroutines = 500
	failures := make([]error, goroutines)
	var group sync.WaitGroup
	for first := range goroutines {
		group.Go(func() {
			for i := first; i < n && failures[first] == nil; i += goroutines {
				failures[first] = do(i)
			}
		})
	}
	group.Wait()
	for _, err := range failures {
		if err != nil {
			return fmt.Errorf("bench: %w", err)
		}
	}
	return nil
}

// held shows for how long one script run holds Redis, however much lies in a key.
func (b *bench) held(ctx context.Context) (_ []comparison, err error) {
	if err := b.empty(ctx); err != nil {
		return nil, err
	}
	before, err := b.logRuns(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		for name, value := range before {
			if failed := b.meter.redis.ConfigSet(ctx, name, value).Err(); err == nil {
				err = failed
			}
		}
	}()
	longest := make(map[*entry][]time.Duration)
	var entries []*entry
	for _, h := range holdings("redis://" + b.redis) {
		e := &entry{contender: contender{name: h.name, own: true}}
		entries = append(entries, e)
		started := time.Now()
		for _, n := range b.things {
			b.report("%s: %d", h.name, n)
			run, err := b.longestRun(ctx, h, n)
			if err != nil {
				return nil, err
			}
			longest[e] = append(longest[e], run)
		}
		e.samples = append(e.samples, sample{tally: tally{checks: asked * len(b.things), elapsed: time.Since(started)}})
	}
	columns := make([]column, len(b.things))
	for i, n := range b.things {
		columns[i] = column{showRate(float64(n)), less, func(e *entry, _ []*entry) string { return showTime(longest[e][i].Seconds()) }}
	}
	return []comparison{{
		slug:  "redis-held",
		title: "How long one script run holds Redis",
		text: fmt.Sprintf("While a script runs, Redis does nothing else. This is the longest run of a call, as SLOWLOG has it, with so many things in a key: "+
			"the median over %d calls (%d where a call takes away what it meets), since a run that the machine interrupts is longer.", asked, askedAnew),
		entries: entries,
		columns: columns,
	}}, nil
}

// logRuns has the server log every command, and returns the settings that it had.
func (b *bench) logRuns(ctx context.Context) (before map[string]string, err error) {
	before = make(map[string]string)
	for name, value := range map[string]string{"slowlog-log-slower-than": "0", "slowlog-max-len": "20000"} {
		was, err := b.meter.redis.ConfigGet(ctx, name).Result()
		if err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
		before[name] = was[name]
		if err := b.meter.redis.ConfigSet(ctx, name, value).Err(); err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
	}
	return before, nil
}

// longestRun returns the longest script run of a call to n things: the median over several calls.
func (b *bench) longestRun(ctx context.Context, h holding, n int) (time.Duration, error) {
	l, err := core.Open("redis://"+b.redis, core.WithBudget(time.Minute))
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	defer func() { _ = l.Close() }()
	calls := asked
	if h.takes {
		calls = askedAnew
	}
	var runs []time.Duration
	for i := range calls {
		if i == 0 || h.takes {
			if err := b.prepare(ctx, l, h, n); err != nil {
				return 0, err
			}
		}
		run, err := b.longestRunOf(ctx, func() error { return h.ask(ctx, l, n) })
		if err != nil {
			return 0, fmt.Errorf("bench: %w", err)
		}
		runs = append(runs, run)
	}
	slices.Sort(runs)
	return runs[len(runs)/2], nil
}

// prepare empties the server, has it know the scripts, and makes n things.
func (b *bench) prepare(ctx context.Context, l *core.Limiter, h holding, n int) error {
	if err := b.empty(ctx); err != nil {
		return err
	}
	err := l.Ping(ctx)
	if err == nil {
		err = h.prepare(ctx, l, n)
	}
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// longestRunOf returns the longest script run of a call.
func (b *bench) longestRunOf(ctx context.Context, call func() error) (longest time.Duration, err error) {
	if err := b.meter.redis.Do(ctx, "slowlog", "reset").Err(); err != nil {
		return 0, err
	}
	if err := call(); err != nil {
		return 0, err
	}
	logged, err := b.meter.redis.SlowLogGet(ctx, 20_000).Result()
	for _, run := range logged {
		if strings.HasPrefix(strings.ToLower(run.Args[0]), "eval") {
			longest = max(longest, run.Duration)
		}
	}
	return longest, err
}
