package core_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// onlyKey returns the only key under a prefix.
func onlyKey(t *testing.T, client *redis.Client, prefix string) string {
	t.Helper()
	keys := keysOf(t, client, prefix+":*")
	if len(keys) != 1 {
		t.Fatalf("there are the keys %q, want one", keys)
	}
	return keys[0]
}

// The state can be read with the ordinary client, as NewRedis documents it.
func TestStateIsReadable(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	ctx := t.Context()
	now := time.Date(2026, time.November, 21, 12, 0, 5, 0, time.UTC)
	at := strconv.FormatInt(now.UnixMicro(), 10)
	later := strconv.FormatInt(now.Add(3*time.Second).UnixMicro(), 10)
	window := strconv.FormatInt(now.Truncate(time.Hour).UnixMicro(), 10)
	ends := strconv.FormatInt(now.Truncate(time.Hour).Add(time.Hour).UnixMicro(), 10)
	for _, test := range []struct {
		limit core.Quota
		kind  string
		want  map[string]string
		list  []string
		text  string
	}{
		{limit: core.Leaky(10, core.PerSecond(1)), kind: "hash", want: map[string]string{"level": "3000000", "last_leak": at}},
		{limit: core.TokenBucket(10, core.PerSecond(1)), kind: "hash", want: map[string]string{"tokens": "7000000", "last_refill": at}},
		{limit: core.Shaping(10, core.PerSecond(1)), kind: "hash", want: map[string]string{"next_free": later}},
		{limit: core.GCRA(10, core.PerSecond(1)), kind: "string", text: later},
		{limit: core.FixedWindow(10, time.Hour), kind: "hash", want: map[string]string{"count": "3", "start": at}},
		{limit: core.SlidingWindow(10, time.Hour), kind: "hash", want: map[string]string{"current": "3", "previous": "0", "start": window}},
		{limit: core.Calendar(10, core.Every(time.Hour)), kind: "hash", want: map[string]string{"count": "3", "start": window, "end": ends}},
		{limit: core.SlidingLog(10, time.Hour), kind: "list", list: []string{at, at, at}},
	} {
		t.Run(test.limit.Algorithm(), func(t *testing.T) {
			prefix := redistest.Prefix(t)
			limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient),
				core.WithClock(func() time.Time { return now })))
			if _, err := limiter.AllowN(ctx, "ip:203.0.113.9", test.limit, 3); err != nil {
				t.Fatal(err)
			}
			key := onlyKey(t, client, prefix)
			if want := prefix + ":{ip:203.0.113.9}:" + test.limit.Name(); key != want {
				t.Errorf("the key is %q, want %q", key, want)
			}
			if kind := client.Type(ctx, key).Val(); kind != test.kind {
				t.Fatalf("the key is a %s, want a %s", kind, test.kind)
			}
			switch test.kind {
			case "hash":
				if got := client.HGetAll(ctx, key).Val(); !maps.Equal(got, test.want) {
					t.Errorf("got %v, want %v", got, test.want)
				}
			case "list":
				if got := client.LRange(ctx, key, 0, -1).Val(); !slices.Equal(got, test.list) {
					t.Errorf("got %v, want %v", got, test.list)
				}
			case "string":
				if got := client.Get(ctx, key).Val(); got != test.text {
					t.Errorf("got %q, want %q", got, test.text)
				}
			}
		})
	}
}

// A log's instants are written in portions.
func TestLargeLog(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	prefix := redistest.Prefix(t)
	limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient)))
	l := core.SlidingLog(5000, time.Hour)
	for _, want := range []int{2500, 0} {
		if d, err := limiter.AllowN(t.Context(), "key", l, 2500); err != nil || d.Remaining != want {
			t.Errorf("%+v, %v, want %d remaining", d, err, want)
		}
	}
	if n := client.LLen(t.Context(), onlyKey(t, client, prefix)).Val(); n != 5000 {
		t.Errorf("the log has %d instants, want 5000", n)
	}
}

// Every key has a time to live that covers its recovery, and little more.
func TestEveryKeyDies(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	ctx := t.Context()
	limits := []core.Quota{
		core.Leaky(10, core.PerSecond(1)), core.TokenBucket(10, core.PerSecond(1)),
		core.Shaping(10, core.PerSecond(1)), core.GCRA(10, core.PerSecond(1)),
		core.Leaky(1, core.Per(3, 2*time.Millisecond)), core.TokenBucket(10, core.PerSecond(1_000_000)),
		core.GCRA(1_000_000_000, core.PerSecond(700_000)), core.Shaping(1000, core.Per(999_999, year)),
		// Counted in milliseconds:
		core.Leaky(1_000_000, core.Per(999_999, year)), core.GCRA(1_000_000, core.Per(999_999, year)),
		core.Shaping(1_000_000, core.Per(999_999, year)), core.TokenBucket(1_000_000, core.Per(999_999, year)),
		core.FixedWindow(10, time.Microsecond), core.FixedWindow(10, 250*time.Millisecond), core.FixedWindow(10, year),
		core.SlidingWindow(10, 250*time.Millisecond), core.SlidingWindow(10, time.Hour), core.SlidingWindow(100_000, year),
		core.SlidingLog(10, 250*time.Millisecond), core.SlidingLog(10, time.Hour),
	}
	for _, limit := range limits {
		for _, l := range []core.Quota{limit, limit.Named("named")} {
			t.Run(l.String(), func(t *testing.T) {
				prefix := redistest.Prefix(t)
				limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient)))
				for _, cost := range []int{1, 1, 3, l.Capacity() / 2, 1} {
					d, err := limiter.AllowN(ctx, "key", l, min(cost, l.Capacity()))
					if err != nil {
						t.Fatal(err)
					}
					if d.Allowed && d.ResetAfter > 10*time.Second { // else it may be gone already
						ttlCovers(t, client, onlyKey(t, client, prefix), d.ResetAfter)
					}
				}
			})
		}
	}
}

// ttlCovers checks law 10 for a key that has just been written. The time to live
// has run for a moment since, which 10 seconds are enough for.
func ttlCovers(t *testing.T, client *redis.Client, key string, recovery time.Duration) {
	t.Helper()
	ttl := client.PTTL(t.Context(), key).Val()
	if ttl < recovery-10*time.Second || ttl > 2*recovery+2*time.Second {
		t.Errorf("%s lives for %v, want between its recovery of %v and twice that and 2s", key, ttl, recovery)
	}
}

// The lower bound exactly, where the clock cannot have moved between the charge
// and its time to live.
func TestTimeToLiveIsNotShort(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	ctx := t.Context()
	for name, limit := range hourly {
		t.Run(name, func(t *testing.T) {
			prefix := redistest.Prefix(t)
			limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient)))
			before := client.Time(ctx).Val()
			d, err := limiter.AllowN(ctx, "key", limit(5), 3)
			if err != nil {
				t.Fatal(err)
			}
			lives := client.PTTL(ctx, onlyKey(t, client, prefix)).Val()
			if covers := client.Time(ctx).Val().Sub(before) + lives; covers < d.ResetAfter {
				t.Errorf("the key lives for at most %v, and recovers in %v", covers, d.ResetAfter)
			}
		})
	}
}

// A key that has lost its time to live gets it back as soon as its recovery reaches
// into another second.
func TestLostTimeToLiveIsRestored(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	ctx := t.Context()
	for name, limit := range hourly {
		t.Run(name, func(t *testing.T) {
			prefix, clock := redistest.Prefix(t), time.Now()
			limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient),
				core.WithClock(func() time.Time { return clock })))
			if _, err := limiter.Allow(ctx, "key", limit(5)); err != nil {
				t.Fatal(err)
			}
			client.Persist(ctx, onlyKey(t, client, prefix))
			clock = clock.Add(24 * time.Hour)
			d, err := limiter.Allow(ctx, "key", limit(5))
			if err != nil {
				t.Fatal(err)
			}
			// With a clock of its own, a store keeps keys for an hour longer.
			if ttl := client.PTTL(ctx, onlyKey(t, client, prefix)).Val(); ttl < d.ResetAfter {
				t.Errorf("the key lives for %v, and recovers in %v", ttl, d.ResetAfter)
			}
		})
	}
}

// A time to live is renewed when the recovery reaches into another second, and left
// alone as long as it does not.
func TestTimeToLiveIsRenewedWithTheRecovery(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	ctx := t.Context()
	const marker = 1000 * time.Hour
	for _, test := range []struct {
		limit   core.Quota
		later   time.Duration
		renewed bool
	}{
		{core.Leaky(5000, core.PerSecond(1000)), 100 * time.Microsecond, false},
		{core.Leaky(5000, core.PerSecond(1000)), 3 * time.Second, true},
		{core.TokenBucket(5000, core.PerSecond(1000)), 100 * time.Microsecond, false},
		{core.TokenBucket(5000, core.PerSecond(1000)), 3 * time.Second, true},
		{core.GCRA(5000, core.PerSecond(1000)), 100 * time.Microsecond, false},
		{core.GCRA(5000, core.PerSecond(1000)), 3 * time.Second, true},
		{core.Shaping(5000, core.PerSecond(1000)), 100 * time.Microsecond, false},
		{core.Shaping(5000, core.PerSecond(1000)), 3 * time.Second, true},
		{core.FixedWindow(50, 4*time.Second), 3 * time.Second, false},
		{core.FixedWindow(50, 4*time.Second), 4 * time.Second, true},
		{core.SlidingWindow(50, 4*time.Second), 3 * time.Second, false},
		{core.SlidingWindow(50, 4*time.Second), 4 * time.Second, true},
		{core.SlidingLog(50, 4*time.Second), 100 * time.Microsecond, false},
		{core.SlidingLog(50, 4*time.Second), 3 * time.Second, true},
	} {
		t.Run(test.limit.String()+" "+test.later.String(), func(t *testing.T) {
			// At this moment no time to live is renewed in passing.
			now := time.UnixMicro(time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC).UnixMicro() + 7)
			prefix := redistest.Prefix(t)
			limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient),
				core.WithClock(func() time.Time { return now })))
			for i := range 2 {
				if i > 0 {
					now = now.Add(test.later.Truncate(16 * time.Microsecond))
					client.PExpire(ctx, onlyKey(t, client, prefix), marker)
				}
				if d, err := limiter.Allow(ctx, "key", test.limit); err != nil || !d.Allowed {
					t.Fatalf("%+v, %v", d, err)
				}
			}
			if got := client.PTTL(ctx, onlyKey(t, client, prefix)).Val() < marker-time.Hour; got != test.renewed {
				t.Errorf("renewed %t, want %t", got, test.renewed)
			}
		})
	}
}

// A key that has been robbed of its time to live gets it back before long, also where
// the recovery does not move.
func TestTimeToLiveIsRenewedInPassing(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	prefix := redistest.Prefix(t)
	limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient)))
	limit := core.FixedWindow(1_000_000, year)
	for i := range 1000 { // each has one chance in sixteen
		if _, err := limiter.Allow(t.Context(), "key", limit); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			client.Persist(t.Context(), onlyKey(t, client, prefix))
		} else if client.PTTL(t.Context(), onlyKey(t, client, prefix)).Val() > 0 {
			return
		}
	}
	t.Error("the key has no time to live after 1000 charges")
}

// A key that has been robbed of its time to live gets it back from denials, too, which change nothing
// else. It is counted once.
func TestDenialsRestoreTimeToLive(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	ctx := t.Context()
	for name, limit := range hourly {
		for _, l := range []core.Quota{limit(5), limit(5).Named("plan")} {
			t.Run(name+" "+l.Name(), func(t *testing.T) {
				prefix, now := redistest.Prefix(t), time.Now()
				store := core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient), core.WithLogger(discard),
					core.WithClock(func() time.Time { now = now.Add(time.Microsecond); return now }))
				limiter := core.New(store)
				if d, err := limiter.AllowN(ctx, "key", l, 5); err != nil || !d.Allowed {
					t.Fatalf("%+v, %v", d, err)
				}
				key := onlyKey(t, client, prefix)
				client.Persist(ctx, key)
				before := client.Dump(ctx, key).Val()
				for range 500 { // one in sixteen looks
					if d, err := limiter.Allow(ctx, "key", l); err != nil || d.Allowed {
						t.Fatalf("%+v, %v, want a denial", d, err)
					}
				}
				d, err := limiter.Peek(ctx, "key", l)
				if err != nil {
					t.Fatal(err)
				}
				// With a clock of its own, a store keeps keys for an hour longer.
				if ttl := client.PTTL(ctx, key).Val(); ttl < d.ResetAfter || ttl > 2*d.ResetAfter+time.Hour+time.Minute {
					t.Errorf("the key lives for %v after 500 denials, and recovers in %v", ttl, d.ResetAfter)
				}
				if repairedBy(store) != 1 {
					t.Errorf("%d keys counted as repaired, want 1", repairedBy(store))
				}
				if client.Dump(ctx, key).Val() != before {
					t.Error("the denials have changed the state")
				}
			})
		}
	}
}

// A log that was left by a shorter window lives for as long as it counts in a longer one, whether
// that denies or admits, and whatever is settled of what the shorter one has charged.
func TestLogOfALongerWindowLivesOn(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	short, long := core.SlidingLog(3, 60*time.Millisecond).Named("plan"), core.SlidingLog(3, 24*time.Hour).Named("plan")
	for _, test := range []struct {
		name     string
		used     int // of the shorter one
		admitted bool
		settled  bool
	}{
		{name: "a denial", used: 3},
		{name: "a charge", used: 1, admitted: true},
		{name: "a charge, and a settlement of what was charged before", used: 1, admitted: true, settled: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			prefix, now := redistest.Prefix(t), time.Unix(1_000_000, 0)
			limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient),
				core.WithClock(func() time.Time { return now })))
			r, err := limiter.Reserve(t.Context(), core.Check{Key: "key", Limit: short, Cost: test.used})
			if err != nil {
				t.Fatal(err)
			}
			now = now.Add(time.Microsecond)
			if d, err := limiter.Allow(t.Context(), "key", long); err != nil || d.Allowed != test.admitted {
				t.Fatalf("%+v, %v, want allowed %t", d, err, test.admitted)
			}
			if test.settled {
				if err := r.Cancel(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if ttl := client.PTTL(t.Context(), onlyKey(t, client, prefix)).Val(); ttl < 23*time.Hour {
				t.Errorf("the key lives for %v, and what it holds counts for a day", ttl)
			}
		})
	}
}

// A repair is written on a denial, and its time to live follows what is left of the
// recovery as after any other write.
func TestTimeToLiveOfARepairIsNotLong(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	ctx := t.Context()
	prefix := redistest.Prefix(t)
	limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient), core.WithLogger(discard)))
	l := core.SlidingLog(1, time.Hour).Named("plan")
	nearlyGone := strconv.FormatInt(client.Time(ctx).Val().Add(-50*time.Minute).UnixMicro(), 10)
	client.RPush(ctx, redisKey(prefix, "key", l), nearlyGone, nearlyGone) // of a larger plan
	d, err := limiter.Allow(ctx, "key", l)
	if err != nil || d.Allowed || d.ResetAfter > 10*time.Minute {
		t.Fatalf("%+v, %v", d, err)
	}
	if n := client.LLen(ctx, redisKey(prefix, "key", l)).Val(); n != 1 {
		t.Fatalf("the log has %d instants after its repair, want 1", n)
	}
	ttlCovers(t, client, redisKey(prefix, "key", l), d.ResetAfter)
}

// A key can be reset on a server that has no memory left.
func TestResetWithoutMemory(t *testing.T) {
	client := redistest.Start(t).Client(t)
	limiter, limit := core.New(core.NewRedis(client, core.WithBudget(patient))), core.Leaky(3, core.PerHour(1))
	if _, err := limiter.AllowN(t.Context(), "key", limit, 3); err != nil {
		t.Fatal(err)
	}
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := limiter.Reset(t.Context(), "key", limit); err != nil {
		t.Fatal(err)
	}
	if d, err := limiter.Peek(t.Context(), "key", limit); err != nil || d.Remaining != 3 {
		t.Errorf("%d of 3 remain after a Reset, %v", d.Remaining, err)
	}
}
