package core_test

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// What is given back is bounded by how low the level has come since the charge, which others may have
// lowered by what they have given back, whatever the clock has done.
func TestGivesBackWhatIsLeft(t *testing.T) {
	start := time.UnixMicro(1_800_000_000_000_000)
	var now time.Time
	clock := core.WithClock(func() time.Time { return now })
	redisStore := core.NewRedis(redistest.Shared(t).Client(t), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient), clock)
	for name, store := range map[string]core.Store{"memory": core.NewMemory(clock), "redis": redisStore} {
		limiter, limit := core.New(store), core.Leaky(10, core.PerSecond(1))
		at := func(after time.Duration) { now = start.Add(after) }
		reserve := func(key string, cost int) *core.Reservation {
			r, err := limiter.Reserve(t.Context(), core.Check{Key: key, Limit: limit, Cost: cost})
			if err != nil || !r.Allowed() {
				t.Fatal(r, err)
			}
			return r
		}
		cancel := func(r *core.Reservation) {
			if err := r.Cancel(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		want := func(key string, remaining int) {
			if d, err := limiter.Peek(t.Context(), key, limit); err != nil || d.Remaining != remaining {
				t.Errorf("%s, %s: %d are left, want %d: %v", name, key, d.Remaining, remaining, err)
			}
		}

		at(0)
		early, late := reserve("overlap", 3), reserve("overlap", 5)
		at(time.Second)
		cancel(early) // of which all is left, since the level has been at 7
		at(4 * time.Second)
		want("overlap", 9)
		reserve("overlap", 5)
		cancel(late) // since it was charged, the level has been at 1
		want("overlap", 5)

		// A large charge keeps the meter from running empty, and is given back after an earlier one that
		// would have drained without it. The last charge stays.
		limit = core.Leaky(1000, core.PerSecond(1))
		at(0)
		before, first, second := reserve("kept up", 400), reserve("kept up", 1), reserve("kept up", 1)
		at(time.Microsecond)
		cancel(before)
		most := reserve("kept up", 500)
		at(2 * time.Microsecond)
		cancel(second)
		at(time.Minute)
		reserve("kept up", 1)
		at(time.Minute + time.Microsecond)
		cancel(first)
		at(time.Minute + 2*time.Microsecond)
		cancel(most)
		want("kept up", 999)

		// Two charges of one unit have one unit left between them, since the level has been at 1. What came after that does not
		// count, nor what has been given back of it.
		at(0)
		before, first, second = reserve("shared", 400), reserve("shared", 1), reserve("shared", 1)
		at(time.Second)
		cancel(before)
		reserve("shared", 500)
		at(time.Second + time.Microsecond)
		after := reserve("shared", 1)
		at(time.Second + 2*time.Microsecond)
		cancel(after)
		at(time.Second + 3*time.Microsecond)
		cancel(first)
		at(time.Second + 4*time.Microsecond)
		cancel(second)
		want("shared", 500)
		limit = core.Leaky(10, core.PerSecond(1))

		at(0)
		r := reserve("step", 5)
		at(-time.Minute)
		cancel(r)
		want("step", 10)
	}
}

// A window that opens a window after a reset counts all that comes, though what the store remembers of the reset is
// forgotten at the very end of it.
func TestWindowThatOpensAWindowAfterAReset(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	limiter := core.New(core.NewRedis(redistest.Shared(t).Client(t), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient),
		core.WithClock(func() time.Time { return now })))
	t.Cleanup(func() { _ = limiter.Close() })
	limit := core.FixedWindow(10, time.Minute)
	remain := func(want int) { // beside another limit, so that no script of fixed windows alone decides
		t.Helper()
		d, err := limiter.AllowAll(t.Context(), core.Check{Key: "key", Limit: limit}, core.Check{Key: "key", Limit: core.Leaky(100, core.PerHour(1))})
		if err != nil || d[0].Remaining != want {
			t.Errorf("%v, %v, want %d to remain", d, err, want)
		}
	}
	remain(9)
	if err := limiter.Reset(t.Context(), "key", limit); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	remain(9)
	remain(8)
	remain(7)
}
