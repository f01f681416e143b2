//go:build !race

// One goroutine fills the memory, which is measured: make test runs these tests without the race detector, which takes several times as long.

package core_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
)

// heap returns how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// What has recovered is forgotten though nobody asks about it again, nor about a key that has its shard: calls about
// any key see to that, and the memory is free again.
func TestMemoryForgetsWhatNobodyAsksAboutAgain(t *testing.T) {
	const keys = 20_000
	for name, leave := range map[string]func(*core.Limiter, string) error{
		"charged": func(l *core.Limiter, key string) error {
			_, err := l.Allow(t.Context(), key, core.Leaky(10, core.PerSecond(1)))
			return err
		},
		"settled": func(l *core.Limiter, key string) error {
			r, err := l.Reserve(t.Context(), core.Check{Key: key, Limit: core.Leaky(10, core.PerSecond(1)), Cost: 5})
			if err != nil {
				return err
			}
			return r.Settle(t.Context(), 2)
		},
		"reserved for a time": func(l *core.Limiter, key string) error {
			_, err := l.Reserve(t.Context(), core.Check{Key: key, Limit: core.Leaky(10, core.PerSecond(1)), Cost: 5, ReserveFor: time.Minute})
			return err
		},
		"reset": func(l *core.Limiter, key string) error {
			limit := core.FixedWindow(10, time.Minute)
			if _, err := l.Allow(t.Context(), key, limit); err != nil {
				return err
			}
			return l.Reset(t.Context(), key, limit)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				store := core.NewMemory()
				limiter := core.New(store)
				allow := ask(t, limiter)
				allow("one", core.Leaky(10, core.PerSecond(1)), 1)
				before := heap()
				for i := range keys {
					if err := leave(limiter, fmt.Sprint("key-", i)); err != nil {
						t.Fatal(err)
					}
				}
				full := heap() - before
				time.Sleep(48 * time.Hour)
				for range keys {
					allow("one", core.Leaky(10, core.PerSecond(1)), 1)
				}
				left := heap() - before
				t.Logf("%d of %d kB are left", left>>10, full>>10)
				if n := keysIn(store); n > keys/100 || left > full/20 {
					t.Errorf("%d of %d keys and %d of %d kB are left after two days, want about none", n, keys, left>>10, full>>10)
				}
				runtime.KeepAlive(store)
			})
		})
	}
}

// The keys that are in use stay, whatever is swept around them.
func TestMemorySweepsNothingThatIsInUse(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		store := core.NewMemory()
		allow := ask(t, core.New(store))
		slow, fast := core.Leaky(10, core.PerHour(1)), core.Leaky(10, core.PerSecond(1))
		for i := range 20_000 {
			if i%100 == 0 {
				allow(fmt.Sprint("slow-", i), slow, 7)
			}
			allow(fmt.Sprint("fast-", i), fast, 7)
		}
		time.Sleep(time.Minute)
		for range 20_000 {
			allow("one", fast, 0)
		}
		if n := keysIn(store); n < 200 || n > 300 {
			t.Errorf("%d keys are left, want the 200 that have not recovered, and few others", n)
		}
		for i := range 200 {
			if d := allow(fmt.Sprint("slow-", 100*i), slow, 0); d.Remaining != 3 {
				t.Fatalf("a key in use has %d left, want 3", d.Remaining)
			}
		}
	})
}
