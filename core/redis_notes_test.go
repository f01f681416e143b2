package core_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// reserveSome reserves units of a key so many times.
func reserveSome(tb testing.TB, l *core.Limiter, key string, limit core.Quota, times, cost int) (all []*core.Reservation) {
	tb.Helper()
	for range times {
		r, err := l.Reserve(tb.Context(), core.Check{Key: key, Limit: limit, Cost: cost})
		if err != nil || !r.Allowed() {
			tb.Fatal(r, err)
		}
		all = append(all, r)
	}
	return all
}

// A thousand open reservations of a key take at most 24 bytes each, and those that were settled next to nothing.
func TestOpenReservationsTakeLittleMemory(t *testing.T) {
	client, prefix := redistest.Shared(t).Client(t), redistest.Prefix(t)
	limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient)))
	limit := core.TokenBucket(100_000_000, core.PerMinute(60))
	memory := func() int64 {
		return client.MemoryUsage(t.Context(), client.Keys(t.Context(), prefix+"*").Val()[0], 0).Val()
	}
	first := reserveSome(t, limiter, "key", limit, 1, 1000)
	before := memory()
	open := reserveSome(t, limiter, "key", limit, 1000, 1000)
	each := float64(memory()-before) / 1000
	t.Logf("%.1f bytes for each open reservation", each)
	if each > 24 {
		t.Errorf("%.1f bytes for each open reservation", each)
	}
	for _, r := range append(first, open...) {
		if err := r.Settle(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
	}
	left := float64(memory()-before) / 1000
	t.Logf("%.1f bytes for each that was settled", left)
	if left > 4 {
		t.Errorf("%.1f bytes are left of each reservation that was settled", left)
	}
}

// microseconds returns how long a server has spent with scripts.
func microseconds(tb testing.TB, client *redis.Client) (spent int) {
	tb.Helper()
	for line := range strings.Lines(client.Info(tb.Context(), "commandstats").Val()) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:"); ok {
			_, rest, _ = strings.Cut(rest, "usec=")
			rest, _, _ = strings.Cut(rest, ",")
			spent, _ = strconv.Atoi(rest)
		}
	}
	return spent
}

// BenchmarkSettle tells what a settlement of one of many open reservations costs Redis, in rounds that take turns with
// rounds of checks.
func BenchmarkSettle(b *testing.B) {
	for _, rate := range []int{1, 100_000} {
		b.Run(strconv.Itoa(rate)+" drain in a second", func(b *testing.B) {
			client := redistest.Start(b).Client(b)
			limiter := core.New(core.NewRedis(client, core.WithBudget(time.Minute)))
			limit := core.Leaky(1_000_000_000, core.PerSecond(rate))
			open := reserveSome(b, limiter, "key", limit, 500, 1000)
			const round = 100
			random := rand.New(rand.NewPCG(1, 2))
			check, settle, reserve := 1<<30, 1<<30, 1<<30
			spend := func(least *int, do func(i int)) {
				before := microseconds(b, client)
				for i := range round {
					do(i)
				}
				*least = min(*least, microseconds(b, client)-before)
			}
			for b.Loop() {
				spend(&check, func(int) {
					if _, err := limiter.Allow(b.Context(), "plain", limit); err != nil {
						b.Fatal(err)
					}
				})
				spend(&settle, func(int) {
					i := random.IntN(len(open))
					if err := open[i].Settle(b.Context(), 10); err != nil {
						b.Fatal(err)
					}
					open = slices.Delete(open, i, i+1)
				})
				spend(&reserve, func(int) { open = append(open, reserveSome(b, limiter, "key", limit, 1, 1000)...) })
			}
			b.ReportMetric(float64(check)/round, "µs/check")
			b.ReportMetric(float64(settle)/round, "µs/settlement")
			b.ReportMetric(float64(reserve)/round, "µs/reservation")
			b.ReportMetric(float64(settle)/float64(check), "settlement/check")
		})
	}
}

// A plain check of GCRA, whose state is a string without notes, keeps those that there are. While its slot is being moved a
// string stays one: a reservation is not noted then, and gets back what cannot have drained since.
func TestNotesOfAString(t *testing.T) {
	cluster := redistest.StartCluster(t)
	limiter := core.New(core.NewRedis(cluster.Client(t), core.WithBudget(patient)))
	limit := core.GCRA(100, core.PerHour(1))
	left := func(key string, want int) {
		t.Helper()
		if d, err := limiter.Peek(t.Context(), key, limit); err != nil || d.Remaining != want {
			t.Errorf("%d are left, want %d: %v", d.Remaining, want, err)
		}
	}
	allow := func(key string) {
		t.Helper()
		if d, err := limiter.Allow(t.Context(), key, limit); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	reserve := func(key string) *core.Reservation {
		t.Helper()
		r, err := limiter.Reserve(t.Context(), core.Check{Key: key, Limit: limit, Cost: 10})
		if err != nil || !r.Allowed() {
			t.Fatal(r, err)
		}
		return r
	}
	settle := func(r *core.Reservation) {
		t.Helper()
		if err := r.Settle(t.Context(), 4); err != nil {
			t.Fatal(err)
		}
	}

	allow("key")
	one, other := reserve("key"), reserve("key")
	allow("key")
	settle(one)
	allow("key")
	settle(other)
	left("key", 100-3-8)

	allow("moved")
	kept := reserve("kept")
	migrating(t, cluster, "moved")
	moved := reserve("moved")
	left("moved", 100-1-10)
	settle(moved)
	left("moved", 100-1-4)
	allow("moved")
	left("moved", 100-2-4)
	settle(kept)
	left("kept", 100-4)
}

// What is left of a reservation that was settled keeps the level up for those that were charged after it, in whatever text
// their slots are: so it counts when what has drained is taken from the newest.
func TestWhatIsLeftCountsForThoseAbove(t *testing.T) {
	var now time.Time
	clock := core.WithClock(func() time.Time { return now })
	redisStore := core.NewRedis(redistest.Shared(t).Client(t), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient), clock)
	for name, store := range map[string]core.Store{"memory": core.NewMemory(clock), "redis": redisStore} {
		for _, open := range []int{2, 120} {
			now = time.UnixMicro(1_800_000_000_000_000)
			limiter, limit, key := core.New(store), core.Leaky(10_000, core.PerSecond(1)), strconv.Itoa(open)
			all := reserveSome(t, limiter, key, limit, open, 10)
			for _, r := range all[:open-1] {
				if err := r.Settle(t.Context(), 8); err != nil {
					t.Fatal(err)
				}
			}
			now = now.Add(time.Duration(8*(open-1)+10-6) * time.Second) // until 6 are left
			if err := all[open-1].Cancel(t.Context()); err != nil {
				t.Fatal(err)
			}
			if d, err := limiter.Peek(t.Context(), key, limit); err != nil || d.Remaining != limit.Capacity() {
				t.Errorf("%s: %d of %d are left, of which nothing is used: %v", name, d.Remaining, limit.Capacity(), err)
			}
		}
	}
}
