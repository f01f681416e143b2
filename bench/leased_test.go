package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// onLeasedMemory is a store in memory with leases of a tenth of a second on it.
func onLeasedMemory(*setup) core.Store {
	return core.Lease(core.NewMemory(), core.Tolerance{Over: 0.1})
}

// Leased checks beside the limiter of the Go project, over 10,000 keys of which 100 are hot: those get 999 checks of 1,000. What a check
// costs is told as time that passes and as time of the processors, since others may use those at the same time.
//
//	go test -run '^$' -bench Leased -benchmem -cpu 1,2 .
func BenchmarkLeased(b *testing.B) {
	names := namesOf("user:", 10_000)
	for _, c := range []contender{own(leasedName, leaky, onLeasedMemory), timeRate(), own(leakyName, leaky, func(*setup) core.Store { return core.NewMemory() })} {
		ask, err := c.open(&setup{}, flood)
		if err != nil {
			b.Fatal(err)
		}
		for _, hot := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/%d hot", c.name, hot), func(b *testing.B) {
				for range 50 {
					for _, name := range names[:hot] {
						_, _ = ask(b.Context(), name)
					}
					time.Sleep(100 * time.Microsecond)
				}
				askAll(b, ask, names, hot)
			})
		}
	}
}

func askAll(b *testing.B, ask Ask, names []string, hot int) {
	b.Helper()
	var next atomic.Uint64
	ctx := context.Background()
	runtime.GC()
	b.ReportAllocs()
	before := processorTime(b)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		random := rand.New(rand.NewPCG(1, next.Add(1)))
		for pb.Next() {
			name := names[random.Uint64()%uint64(hot)]
			if random.Uint64()%1000 == 0 {
				name = names[random.Uint64()%uint64(len(names))]
			}
			if ok, err := ask(ctx, name); err != nil || !ok {
				b.Error("denied", err)
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
}

// processorTime returns what this process has used of the processors.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	used, err := processCPU()
	if err != nil {
		b.Fatal(err)
	}
	return used
}
