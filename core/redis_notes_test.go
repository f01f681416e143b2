package core_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// reserveSome reserves units of a key so many times.
func reserveSome(tb testing.TB, l *core.Limiter, key string, limit core.Limit, times, cost int) (all []*core.Reservation) {
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

// BenchmarkSettle tells what a settlement costs Redis, alone and in batches, with few and with many reservations open, in
// rounds that take turns with rounds of checks.
func BenchmarkSettle(b *testing.B) {
	for _, limit := range []core.Limit{
		core.Leaky(1_000_000_000, core.PerSecond(1)), core.Leaky(1_000_000_000, core.PerSecond(100_000)),
		core.TokenBucket(1_000_000_000, core.PerSecond(1)), core.GCRA(1_000_000_000, core.PerSecond(1)),
	} {
		for _, open := range []int{2, 500} {
			for _, together := range []int{1, 16} {
				b.Run(fmt.Sprintf("%s/%d open/%d together", limit, open, together), func(b *testing.B) { benchmarkSettle(b, limit, open, together) })
			}
		}
	}
}

func benchmarkSettle(b *testing.B, limit core.Limit, open, together int) {
	client := redistest.Start(b).Client(b)
	limiter := core.New(core.NewRedis(client, core.WithBudget(time.Minute)))
	lines, places := make([][]*core.Reservation, together), make([]int, together) // the open ones of each key, and which is settled next
	for i := range lines {
		lines[i] = reserveSome(b, limiter, strconv.Itoa(i), limit, open, 1000)
	}
	const round = 100
	random := rand.New(rand.NewPCG(1, 2))
	least := [3]float64{math.Inf(1), math.Inf(1), math.Inf(1)} // of a check, a settlement and a reservation
	for b.Loop() {
		var spent [3]int
		for range round {
			for what, do := range [...]func(line int) error{
				func(line int) error {
					_, err := limiter.Allow(b.Context(), "plain"+strconv.Itoa(line), core.Leaky(1_000_000_000, core.PerSecond(1)))
					return err
				},
				func(line int) error {
					last := len(lines[line]) - 1
					settled := lines[line][last]
					lines[line] = lines[line][:last]
					return settled.Settle(b.Context(), 10)
				},
				func(line int) error {
					lines[line] = append(lines[line], reserveSome(b, limiter, strconv.Itoa(line), limit, 1, 1000)...)
					last, place := len(lines[line])-1, places[line]%len(lines[line])
					lines[line][last], lines[line][place] = lines[line][place], lines[line][last]
					return nil
				},
			} {
				for i := range places {
					places[i] = random.IntN(open)
				}
				before := microseconds(b, client)
				var all sync.WaitGroup
				for line := range lines {
					all.Go(func() {
						if err := do(line); err != nil {
							b.Error(err)
						}
					})
				}
				all.Wait()
				spent[what] += microseconds(b, client) - before
			}
		}
		for what := range spent {
			least[what] = min(least[what], float64(spent[what])/float64(round*together))
		}
	}
	check, settle, reserve := least[0], least[1], least[2]
	b.ReportMetric(check, "µs/check")
	b.ReportMetric(settle, "µs/settlement")
	b.ReportMetric(reserve, "µs/reservation")
	b.ReportMetric(settle/check, "settlement/check")
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
