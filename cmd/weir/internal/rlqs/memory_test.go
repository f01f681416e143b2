//go:build !race

// The memory that is measured is not that of the race detector: make test runs it without.

package rlqs_test

import (
	"fmt"
	"runtime"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"

	"github.com/weir-go/ratelimit/cmd/weir/internal/rlqs"
)

// A stream may name a million buckets. It has 20,000 of them, and the memory for more is not taken.
func TestBucketsAreBounded(t *testing.T) {
	s := start(t, rlqs.Options{})
	own := s.stream(t)
	var abandoned, assigned int
	var before, after runtime.MemStats
	for round := range 100 {
		usages := make([]*pb.RateLimitQuotaUsageReports_BucketQuotaUsage, 1000)
		for i := range usages {
			usages[i] = used(1, "free", fmt.Sprint(round, "-", i))
		}
		for _, answer := range own.ask(usages...) {
			if answer == "abandon" {
				abandoned++
			} else {
				assigned++
			}
		}
		if round == 20 {
			runtime.GC()
			runtime.ReadMemStats(&before)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if assigned != 20_000 || abandoned != 80_000 {
		t.Errorf("%d buckets are assigned quotas, and %d abandoned", assigned, abandoned)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8<<20 {
		t.Errorf("80,000 buckets too many have grown the heap by %d bytes", grown)
	}
}
