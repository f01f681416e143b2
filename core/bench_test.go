package core_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// benchmarked are limits that admit nearly all of what a benchmark asks.
var benchmarked = map[string]core.Limit{
	"leaky":          core.Leaky(1_000_000, core.PerSecond(1_000_000)),
	"shaping":        core.Shaping(1_000_000, core.PerSecond(1_000_000)),
	"token bucket":   core.TokenBucket(1_000_000, core.PerSecond(1_000_000)),
	"gcra":           core.GCRA(1_000_000, core.PerSecond(1_000_000)),
	"fixed window":   core.FixedWindow(1_000_000_000, time.Hour),
	"sliding window": core.SlidingWindow(1_000_000, time.Hour),
	"sliding log":    core.SlidingLog(1000, time.Millisecond),
}

// BenchmarkRedis shows what a check costs beside the least that a script call on
// the same client can cost.
func BenchmarkRedis(b *testing.B) {
	client := redistest.Shared(b).Client(b)
	limiter := core.New(core.NewRedis(client, core.WithPrefix(redistest.Prefix(b)), core.WithBudget(patient)))
	hash, err := client.ScriptLoad(b.Context(), "return 1").Result()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("bare EVALSHA", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := client.EvalSha(b.Context(), hash, []string{"key"}).Err(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("three bare EVALSHA", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for range 3 {
				if err := client.EvalSha(b.Context(), hash, []string{"key"}).Err(); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	benchmarkChecks(b, limiter)
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
	for _, question := range []struct {
		name   string
		checks []core.Check
	}{
		{"one check in a question", threeLimits("question")[:1]},
		{"three checks in a question", threeLimits("question")},
	} {
		b.Run(question.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := limiter.AllowAll(b.Context(), question.checks...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
