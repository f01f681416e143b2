//go:build !race

// The memory that is measured is not that of the race detector: make test runs it without.

package rls

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// TestMemoryStaysFlat asks about many descriptors, each with a limit of its own, and looks at the memory that stays. In the reference 60,000 of them take
// 200 MB for good (fault 4).
func TestMemoryStaysFlat(t *testing.T) {
	store := core.NewRedis(redistest.Shared(t).Client(t), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(time.Minute))
	s := serveOn(t, store, Options{}, limits)
	next := 0
	askMany := func(descriptors int) {
		for range descriptors / 1000 {
			var all sync.WaitGroup
			for range 10 {
				request := &pb.RateLimitRequest{Domain: "d"}
				for range 100 {
					next++
					d := bring(uint32(next), typev3.RateLimitUnit_HOUR, descriptor(fmt.Sprintf("user=%d", next)))
					request.Descriptors = append(request.Descriptors, d)
				}
				all.Go(func() {
					if _, err := s.ShouldRateLimit(t.Context(), request); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
	}
	heap := func() int {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	askMany(20_000) // buffers and tables have their size then
	before := heap()
	askMany(100_000)
	for deadline := time.Now().Add(time.Minute); heap()-before > 8<<20; { // what was collected is cleaned up beside this goroutine
		if time.Now().After(deadline) {
			t.Fatalf("100,000 descriptors have left %d bytes", heap()-before)
		}
	}
}
