//go:build !race

// The memory that is measured is not that of the race detector: make test runs it without.

package serving

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
)

// The memory does not grow with requests, however many keys and limits of their own they bring.
func TestMemoryStaysFlatUnderAttack(t *testing.T) {
	r := attacked(t, func(*Settings) {})
	connections := make([]*grpc.ClientConn, 8)
	for i := range connections {
		connections[i] = r.connect(t)
	}
	round := func(n int) {
		var all sync.WaitGroup
		for caller, connection := range connections {
			all.Go(func() {
				for i := range 20 {
					request := &pb.RateLimitRequest{Domain: "d"}
					for j := range 20 {
						own := descriptor("many", fmt.Sprint(n, caller, i, j))
						if j%2 == 0 {
							own.Limit = &common.RateLimitDescriptor_RateLimitOverride{
								RequestsPerUnit: uint32(1_000_000 + ((n*8+caller)*20+i)*20 + j), Unit: typev3.RateLimitUnit_MINUTE,
							}
						}
						request.Descriptors = append(request.Descriptors, own)
					}
					request.Descriptors = append(request.Descriptors, descriptor("none", strings.Repeat("v", 100_000)))
					if _, err := pb.NewRateLimitServiceClient(connection).ShouldRateLimit(t.Context(), request); err != nil {
						t.Errorf("%v", err)
						return
					}
				}
			})
		}
		all.Wait()
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for n := range 3 {
		round(n)
	}
	before := heap()
	for n := range 10 {
		round(3 + n)
	}
	if after := heap(); after > before+8<<20 {
		t.Errorf("after 10 more rounds of requests the heap grew from %d to %d bytes", before, after)
	} else {
		t.Logf("the heap was %d bytes and is %d", before, after)
	}
}
