package offenders_test

import (
	"fmt"
	"testing"

	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/telemetry/offenders"
)

// BenchmarkObserve is a denial that is counted: of a key that has a counter, and of
// keys that never come again and take one each.
func BenchmarkObserve(b *testing.B) {
	events := make([]guard.Event, 100_000)
	for i := range events {
		events[i] = denial(fmt.Sprint("ip:", i))
	}
	for name, keys := range map[string]int{"known": 100, "new": len(events)} {
		b.Run(name, func(b *testing.B) {
			tracker := offenders.New(offenders.Options{})
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				tracker.Observe(events[i%keys])
			}
		})
	}
}
