package ratelimit_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// BenchmarkShapingPace measures how even the stream is that a shaping limit releases:
// bursts of a hundred requests at 200 a second, each of which is to reach the handler
// 5 ms after the one before.
func BenchmarkShapingPace(b *testing.B) {
	const burst, gap = 100, 5 * time.Millisecond
	var errors []time.Duration
	for b.Loop() {
		var mu sync.Mutex
		served := make([]time.Time, 0, burst)
		h := ratelimit.Shaping(memory(), burst, core.PerSecond(int(time.Second/gap)))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			served = append(served, time.Now())
		}))
		var group sync.WaitGroup
		for range burst {
			group.Go(func() { h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)) })
		}
		group.Wait()
		for i := 1; i < len(served); i++ {
			errors = append(errors, (served[i].Sub(served[i-1]) - gap).Abs())
		}
	}
	slices.Sort(errors)
	b.ReportMetric(float64(errors[len(errors)/2].Microseconds()), "µs-off-p50")
	b.ReportMetric(float64(errors[len(errors)*99/100].Microseconds()), "µs-off-p99")
}
