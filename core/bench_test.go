package core_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// benchmarked are limits that admit nearly all of what a benchmark asks.
var benchmarked = map[string]core.Quota{
	"leaky":          core.Leaky(1_000_000, core.PerSecond(1_000_000)),
	"shaping":        core.Shaping(1_000_000, core.PerSecond(1_000_000)),
	"token bucket":   core.TokenBucket(1_000_000, core.PerSecond(1_000_000)),
	"gcra":           core.GCRA(1_000_000, core.PerSecond(1_000_000)),
	"fixed window":   core.FixedWindow(1_000_000_000, time.Hour),
	"sliding window": core.SlidingWindow(1_000_000, time.Hour),
	"sliding log":    core.SlidingLog(1000, time.Millisecond),
}

// fourCommands are what a limit that is kept in a hash cannot do without: no
// arithmetic, no arguments, no verdict.
const fourCommands = `
redis.call('TIME')
redis.call('HMGET', KEYS[1], 'level', 'last_leak')
redis.call('HSET', KEYS[1], 'level', '1000000', 'last_leak', '1763683200123456')
redis.call('PEXPIRE', KEYS[1], '2000')
return ''`

// BenchmarkRedis shows what a check costs beside the least that a script call on
// the same client can cost. The two take turns, call by call, so that both meet the
// same machine: "x-bare" is the ratio of their median times.
func BenchmarkRedis(b *testing.B) {
	client := redistest.Shared(b).Client(b, func(o *redis.Options) { // as core.Open makes it
		o.ContextTimeoutEnabled, o.MaxRetries = true, -1
	})
	limiter := core.New(core.NewRedis(client, core.WithPrefix(redistest.Prefix(b)), core.WithBudget(patient)))
	hash, err := client.ScriptLoad(b.Context(), "return 1").Result()
	if err != nil {
		b.Fatal(err)
	}
	bare := func() error { return client.EvalSha(b.Context(), hash, []string{"key"}).Err() }
	beside := func(name string, call func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var bares, calls []time.Duration
			for b.Loop() {
				bares = append(bares, timed(b, bare))
				calls = append(calls, timed(b, call))
			}
			b.ReportMetric(float64(median(calls))/float64(median(bares)), "x-bare")
		})
	}
	beside("bare EVALSHA", bare)
	beside("three bare EVALSHA", func() error { return errors.Join(bare(), bare(), bare()) })
	commands, err := client.ScriptLoad(b.Context(), fourCommands).Result()
	if err != nil {
		b.Fatal(err)
	}
	beside("four commands alone", func() error {
		ctx, cancel := context.WithTimeout(b.Context(), patient) // as a check has it
		defer cancel()
		return client.EvalSha(ctx, commands, []string{"four commands"}).Err()
	})
	for _, name := range slices.Sorted(maps.Keys(benchmarked)) {
		beside(name, func() error {
			_, err := limiter.Allow(b.Context(), "key", benchmarked[name])
			return err
		})
	}
	beside("denied", func() error {
		_, err := limiter.AllowN(b.Context(), "denied", core.Leaky(1, core.PerSecond(1)), 2)
		return err
	})
	for name, headroom := range map[string]int{"one check in a call": 0, "one check with headroom": 200} {
		check := core.Check{Key: "headroom", Limit: benchmarked["leaky"], Headroom: headroom}
		beside(name, func() error {
			_, err := limiter.AllowAll(b.Context(), check)
			return err
		})
	}
	beside("three checks in a call", func() error {
		_, err := limiter.AllowAll(b.Context(), threeLimits("call")...)
		return err
	})
}

func timed(b *testing.B, call func() error) time.Duration {
	b.Helper()
	start := time.Now()
	if err := call(); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// BenchmarkLimit shows what it takes to make a limit where there is an equal one, and
// where there is none.
func BenchmarkLimit(b *testing.B) {
	kept := core.Leaky(10, core.PerSecond(1))
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if core.Leaky(10, core.PerSecond(1)) != kept {
				b.Fatal("equal limits differ")
			}
		}
	})
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for n := 1; b.Loop(); n++ {
			core.Leaky(n, core.PerSecond(1))
		}
	})
}

func BenchmarkMemory(b *testing.B) {
	limiter := core.New(core.NewMemory())
	benchmarkChecks(b, limiter)
	b.Run("in parallel, one key", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := limiter.Allow(b.Context(), "key", benchmarked["leaky"]); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

func benchmarkChecks(b *testing.B, limiter *core.Limiter) {
	for _, name := range slices.Sorted(maps.Keys(benchmarked)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := limiter.Allow(b.Context(), "key", benchmarked[name]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, call := range []struct {
		name   string
		checks []core.Check
	}{
		{"one check in a call", threeLimits("call")[:1]},
		{"three checks in a call", threeLimits("call")},
	} {
		b.Run(call.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := limiter.AllowAll(b.Context(), call.checks...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDenialCache shows what it costs to deny a client that hammers one key.
func BenchmarkDenialCache(b *testing.B) {
	limit := core.Leaky(1, core.PerDay(1))
	for name, store := range map[string]core.Store{
		"memory":        core.NewMemory(),
		"memory cached": denialcache.New(core.NewMemory(), 1000),
		"redis cached": denialcache.New(core.NewRedis(redistest.Shared(b).Client(b),
			core.WithPrefix(redistest.Prefix(b)), core.WithBudget(patient)), 1000),
	} {
		b.Run(name, func(b *testing.B) {
			limiter := core.New(store)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := limiter.Allow(b.Context(), "key", limit); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMemoryKeys shows what a key costs, the text of the key included, and
// that many keys are no slower to come by than few.
func BenchmarkMemoryKeys(b *testing.B) {
	for _, keys := range []int{1000, 1_000_000} {
		b.Run(strconv.Itoa(keys), func(b *testing.B) {
			limit := core.Leaky(10_000, core.PerHour(1))
			limiter := core.New(core.NewMemory())
			names := make([]string, keys)
			for i := range names {
				names[i] = fmt.Sprintf("ip:10.%d.%d.%d", i>>16, i>>8&255, i&255)
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for _, name := range names {
				if _, err := limiter.Allow(b.Context(), name, limit); err != nil {
					b.Fatal(err)
				}
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			perKey := float64(after.HeapAlloc-before.HeapAlloc) / float64(keys)
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				if _, err := limiter.Allow(b.Context(), names[i%keys], limit); err != nil {
					b.Fatal(err)
				}
				i += 7919 // in no order
			}
			b.ReportMetric(perKey, "B/key")
			runtime.KeepAlive(limiter)
		})
	}
}

// BenchmarkAcquire takes a place of one key that has many and gives it back, from 128 callers at once: with and without
// waiting where there is none. It has to take about as long for both.
func BenchmarkAcquire(b *testing.B) {
	client := redistest.Shared(b).Client(b, func(o *redis.Options) { // as core.Open makes it
		o.ContextTimeoutEnabled, o.MaxRetries, o.Dialer = true, -1, core.Dialer(nil)
	})
	limit := core.Concurrent(1_000_000, time.Minute)
	for name, options := range map[string][]core.WaitOption{"Acquire": nil, "TryAcquire": {core.WithLongestWait(0)}} {
		b.Run(name, func(b *testing.B) {
			limiter := core.New(core.NewRedis(client, core.WithPrefix(redistest.Prefix(b)), core.WithBudget(patient)))
			defer limiter.Close()
			b.SetParallelism(128 / runtime.GOMAXPROCS(0))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					permit, err := limiter.Acquire(b.Context(), "key", limit, options...)
					if err != nil {
						b.Error(err)
						return
					}
					permit.Release()
				}
			})
		})
	}
}
