package guard_test

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// BenchmarkPlaces is a request that takes a place and gives it back: without waiting, with a rate beside it, and where
// it may wait.
func BenchmarkPlaces(b *testing.B) {
	places := guard.Policy{Limit: core.Concurrent(1_000_000, time.Minute), By: keyfuncs.Global}
	waiting := places
	waiting.Queue.MaxWait = time.Minute
	rate := guard.Policy{Limit: core.Leaky(1_000_000_000, core.PerSecond(1_000_000))}
	for name, policies := range map[string][]guard.Policy{"alone": {places}, "rate": {rate, places}, "MaxWait": {waiting}} {
		b.Run(name, func(b *testing.B) {
			limiter := core.New(core.NewMemory())
			defer limiter.Close()
			benchmark(b, ratelimit.New(limiter, guard.Options{}, policies...)(fine))
		})
	}
}
