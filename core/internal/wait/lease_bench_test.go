package wait

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// What a short request pays: one lease begins and ends while others are held.
func BenchmarkBeginAndEnd(b *testing.B) {
	for _, held := range []int{0, 100, 10_000} {
		b.Run(fmt.Sprintf("held=%d", held), func(b *testing.B) {
			leases := benchmarked(b)
			for range held {
				leases.Begin(new(Place), time.Hour, time.Now())
			}
			sent := time.Now()
			b.ReportAllocs()
			for b.Loop() {
				leases.Begin(new(Place), time.Hour, sent).End()
			}
		})
	}
}

// The same under load: leases end in the order in which they began, a thousand later.
func BenchmarkBeginAndEndInOrder(b *testing.B) {
	leases := benchmarked(b)
	var ring [1000]*Lease
	for i := range ring {
		ring[i] = leases.Begin(new(Place), time.Hour, time.Now())
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i = (i + 1) % len(ring) {
		ring[i].End()
		ring[i] = leases.Begin(new(Place), time.Hour, time.Now())
	}
}

func BenchmarkBeginAndEndParallel(b *testing.B) {
	leases := benchmarked(b)
	b.ReportAllocs()
	b.RunParallel(func(b *testing.PB) {
		for b.Next() {
			leases.Begin(new(Place), time.Hour, time.Now()).End()
		}
	})
}

func benchmarked(b *testing.B) *Leases {
	b.Helper()
	leases := NewLeases(LeasesConfig{
		Renew: func(context.Context, []*Place, []Renewal) error { return nil },
		Most:  128, InFlight: 1,
	})
	b.Cleanup(leases.Close)
	return leases
}
