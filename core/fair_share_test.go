package core_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/storetest"
)

// A share is rounded, and yet all stores answer alike: in memory, in Redis, and in a table.
func TestAllStoresRoundSharesAlike(t *testing.T) {
	redis := newRedis(t)
	stores := []storetest.Factory{newMemory, redis, func(_ *testing.T, now func() time.Time) core.Store { return core.NewTableStore(newTable(now)) }}
	var clock atomic.Int64
	limiters := make([]*core.Limiter, len(stores))
	for i, newStore := range stores {
		limiters[i] = core.New(newStore(t, func() time.Time { return time.UnixMicro(clock.Load()) }))
	}
	key := 0
	clock.Store(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).UnixMicro())
	rapid.Check(t, func(t *rapid.T) {
		key++
		draw := func(constructor func(int, core.Rate) core.Quota) core.Quota {
			return constructor(rapid.IntRange(1, 100).Draw(t, "capacity"),
				core.Per(rapid.IntRange(1, 1000).Draw(t, "events"), time.Duration(rapid.IntRange(1, 5_000_000).Draw(t, "period"))*time.Microsecond))
		}
		constructor := rapid.SampledFrom([]func(int, core.Rate) core.Quota{core.Leaky, core.TokenBucket}).Draw(t, "algorithm")
		caps := []core.Quota{draw(constructor)}
		if rapid.Bool().Draw(t, "named") {
			caps = []core.Quota{caps[0].Named("plan"), draw(constructor).Named("plan")}
		}
		ask := func(checks []core.Check, reserved *[3]*core.Reservation) []core.Decision {
			var all [3][]core.Decision
			for i, l := range limiters {
				var err error
				if reserved == nil {
					all[i], err = l.AllowAll(t.Context(), checks...)
				} else if reserved[i], err = l.Reserve(t.Context(), checks...); err == nil {
					all[i] = reserved[i].Decisions()
				}
				if err != nil {
					t.Fatalf("store %d: %v", i, err)
				}
				if !slices.Equal(all[i], all[0]) {
					t.Fatalf("store %d: %+v, want %+v", i, all[i], all[0])
				}
			}
			return all[0]
		}
		var open [][3]*core.Reservation
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			l := caps[rapid.IntRange(0, len(caps)-1).Draw(t, "cap")]
			check := core.Check{Key: fmt.Sprint(key), Limit: l, Cost: rapid.IntRange(1, max(1, l.Capacity()/3)).Draw(t, "cost")}
			checks := core.FairShare(check, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant"), rapid.IntRange(1, 3).Draw(t, "weight"))
			if rapid.IntRange(0, 5).Draw(t, "without a tenant") == 0 {
				checks = checks[:1]
			}
			switch rapid.IntRange(0, 5).Draw(t, "verb") {
			case 0:
				if len(open) > 0 {
					continue
				}
				var own [3]*core.Reservation
				ask(checks, &own)
				open = append(open, own)
			case 1:
				if len(open) == 0 {
					continue
				}
				costs := make([]int, len(open[0][0].Decisions()))
				for i := range costs {
					costs[i] = rapid.IntRange(0, l.Capacity()).Draw(t, "real cost")
				}
				for _, one := range open[0] {
					if err := one.Settle(t.Context(), costs...); err != nil {
						t.Fatal(err)
					}
				}
				open = open[1:]
			default:
				ask(checks, nil)
			}
			clock.Add(rapid.Int64Range(0, 3*l.Rate().Period.Microseconds()/int64(l.Rate().Events)+2).Draw(t, "later"))
		}
	})
}
