package core_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/storetest"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// Units and shares are rounded, and reservations overlap, and yet all stores answer alike: in memory, in Redis, and in a table.
func TestAllStoresAnswerAlike(t *testing.T) {
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
		constructors := []func(int, core.Rate) core.Quota{core.Leaky, core.TokenBucket}
		shared := rapid.Bool().Draw(t, "shared")
		if !shared {
			constructors = append(constructors, core.GCRA)
		}
		constructor := rapid.SampledFrom(constructors).Draw(t, "algorithm")
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
			check := core.Check{Key: strconv.Itoa(key), Limit: l, Cost: rapid.IntRange(1, max(1, l.Capacity()/3)).Draw(t, "cost")}
			checks := core.FairShare(check, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant"), rapid.IntRange(1, 3).Draw(t, "weight"))
			if !shared || rapid.IntRange(0, 5).Draw(t, "without a tenant") == 0 {
				checks = checks[:1]
			}
			switch rapid.IntRange(0, 5).Draw(t, "verb") {
			case 0, 1:
				if shared && len(caps) > 1 && len(open) > 0 {
					continue
				}
				var own [3]*core.Reservation
				ask(checks, &own)
				open = append(open, own)
			case 2, 3:
				if len(open) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				costs := make([]int, len(open[i][0].Decisions()))
				for j := range costs {
					costs[j] = rapid.IntRange(0, l.Capacity()).Draw(t, "real cost")
				}
				for _, one := range open[i] {
					if err := one.Settle(t.Context(), costs...); err != nil {
						t.Fatal(err)
					}
				}
				open = slices.Delete(open, i, i+1)
			default:
				ask(checks, nil)
			}
			// Redis runs no two scripts in a microsecond. Notes that are begun anew rely on it, as those of other numbers are.
			clock.Add(rapid.Int64Range(int64(len(caps)-1), 3*l.Rate().Period.Microseconds()/int64(l.Rate().Events)+2).Draw(t, "later"))
		}
	})
}

// A key of a share, or of its cap, that holds nonsense is replaced.
func TestDamagedSharesAreReplaced(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	for name, damage := range map[string]struct{ ofCap, ofShare string }{
		"a cap of another type":   {ofCap: "SET % nonsense"},
		"a cap's nonsense":        {ofCap: "HSET % level nonsense"},
		"a cap's level":           {ofCap: "HSET % level -1"},
		"a product of nonsense":   {ofCap: "HSET % shares nonsense"},
		"a product too large":     {ofCap: "HSET % shares 9007199254740991,0,1,1"},
		"a share of another type": {ofShare: "HSET % level 1"},
		"a share's nonsense":      {ofShare: "SET % nonsense"},
		"a share of five numbers": {ofShare: "SET % 1,2,3,4,5"},
	} {
		for _, reserves := range []bool{false, true} {
			prefix := redistest.Prefix(t)
			limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(time.Minute)))
			checks := core.FairShare(core.Check{Key: "gpu", Limit: core.Leaky(10, core.PerHour(1)), Cost: 2}, "acme", 1)
			ask := func() []core.Decision {
				if reserves {
					r, err := limiter.Reserve(t.Context(), checks...)
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					return r.Decisions()
				}
				d, err := limiter.AllowAll(t.Context(), checks...)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				return d
			}
			ask()
			keys := client.Keys(t.Context(), prefix+"*").Val()
			if len(keys) != 2 {
				t.Fatalf("%s: keys %q", name, keys)
			}
			for _, key := range keys {
				command := damage.ofCap
				if strings.Contains(key, "fair-share") {
					command = damage.ofShare
				}
				if command == "" {
					continue
				}
				words := []any{}
				for word := range strings.FieldsSeq(strings.ReplaceAll(command, "%", key)) {
					words = append(words, strings.ReplaceAll(word, ",", " "))
				}
				if strings.HasPrefix(command, "SET") != strings.Contains(key, "fair-share") || strings.Contains(name, "type") {
					client.Del(t.Context(), key)
				}
				if err := client.Do(t.Context(), words...).Err(); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			for range 2 {
				if d := ask(); !d[0].Allowed || !d[1].Allowed {
					t.Errorf("%s: %+v", name, d)
				}
			}
			if d := ask(); d[1].Allowed && d[1].Remaining > 6 {
				t.Errorf("%s: the share is not counted: %+v", name, d)
			}
			for _, key := range client.Keys(t.Context(), prefix+"*").Val() {
				if left := client.PTTL(t.Context(), key).Val(); left <= 0 {
					t.Errorf("%s: %s lives %v", name, key, left)
				}
			}
			if err := limiter.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// The checks of a cap and of a tenant's share reserve more together, or not at all.
func TestShareGrowsWithItsCap(t *testing.T) {
	for name, newStore := range map[string]storetest.Factory{"memory": newMemory, "redis": newRedis(t)} {
		t.Run(name, func(t *testing.T) {
			l, window := core.New(newStore(t, time.Now)), core.FixedWindow(100, time.Hour)
			of := core.Check{Key: "gpu", Limit: core.TokenBucket(100, core.PerHour(1)), Cost: 3}
			r, err := l.Reserve(t.Context(), append([]core.Check{{Key: "gpu", Limit: window}}, core.FairShare(of, "tenant", 1)...)...)
			if err != nil || !r.Allowed() {
				t.Fatal(err)
			}
			for _, costs := range [][]int{{2, 3, 5}, {2, 5, 3}} {
				if _, err := r.Grow(t.Context(), costs...); !errors.Is(err, core.ErrInvalid) {
					t.Errorf("Grow(%v): %v", costs, err)
				}
			}
			if d, err := l.Peek(t.Context(), "gpu", window); err != nil || d.Remaining != 99 {
				t.Errorf("the window has %d left: %v", d.Remaining, err)
			}
			if d, err := r.Grow(t.Context(), 1, 50, 50); err != nil || !d[2].Allowed || d[1].Remaining != 50 || d[2].Remaining != 0 {
				t.Errorf("grown to the share: %+v, %v", d, err)
			}
			if d, err := r.Grow(t.Context(), 1, 51, 51); err != nil || !d[1].Allowed || d[2].Allowed {
				t.Errorf("grown beyond the share: %+v, %v", d, err)
			}
		})
	}
}
