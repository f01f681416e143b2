package faults_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// movedLimits are limits of a key whose slot moves: of each algorithm but for bans and places.
func movedLimits() []core.Quota {
	return []core.Quota{
		core.Leaky(100, core.PerDay(1)), core.TokenBucket(100, core.PerDay(1)), core.GCRA(100, core.PerDay(1)), core.Shaping(100, core.PerDay(1)),
		core.FixedWindow(100, 240*time.Hour), core.SlidingWindow(100, 2400*time.Hour), core.SlidingLog(100, 24*time.Hour),
		core.Calendar(100, core.Yearly("UTC", time.January)),
	}
}

// Every verb does what it says while a slot is being moved, before its keys are moved, when some have been, and when all
// have; and so when nobody ever ends that.
func TestEveryVerbWhileASlotMoves(t *testing.T) {
	t.Parallel()
	s := newClusterSite(t, redistest.StartCluster(t))
	limiter := s.limiter(t, patient, core.WithBreaker(0, 0))
	if err := limiter.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	useEveryVerb(t, limiter, "moved") // some keys are there already
	s.move(t, "moved", 0, func() { useEveryVerb(t, limiter, "moved") })
	useEveryVerb(t, limiter, "moved")
	s.openSlot(t, "never-moved")
	for range 2 {
		useEveryVerb(t, limiter, "never-moved")
	}
}

// useEveryVerb uses a key by each verb, and leaves it as it was.
func useEveryVerb(t *testing.T, l *core.Limiter, key string) {
	t.Helper()
	ctx := t.Context()
	limits := movedLimits()
	try := func(name string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	left := func(name string, limit core.Quota, want int) {
		t.Helper()
		if d, err := l.Peek(ctx, key, limit); err != nil || d.Remaining != want {
			t.Errorf("%s: %d of %s are left, want %d: %v", name, d.Remaining, limit, want, err)
		}
	}
	for i, limit := range limits {
		other := limits[(i+1)%len(limits)]
		_, err := l.AllowAll(ctx, core.Check{Key: key, Limit: limit, Cost: 3}, core.Check{Key: key, Limit: other, Cost: 2})
		try("AllowAll", err)
		left("after AllowAll", limit, 97)
		left("after AllowAll", other, 98)
		_, err = l.AllowAll(ctx, core.Check{Key: key, Limit: limit, Cost: 3}, core.Check{Key: key, Limit: other, Cost: 99})
		try("AllowAll that is denied", err)
		left("after a denial", limit, 97)
		left("after a denial", other, 98)
		d, err := l.Refund(ctx, key, limit, 2)
		try("Refund", err)
		if d.Remaining != 99 {
			t.Errorf("after Refund, %d of %s are left, want 99", d.Remaining, limit)
		}
		r, err := l.Reserve(ctx, core.Check{Key: key, Limit: limit, Cost: 9}, core.Check{Key: key, Limit: other, Cost: 4})
		try("Reserve", err)
		if err == nil {
			try("Settle", r.Settle(ctx, 5, 4))
			left("after Settle", limit, 94)
			left("after Settle", other, 94)
		}
		if d := limit.Algorithm(); d != "shaping" && d != "calendar" {
			reserveForATime(t, l, key, limit, 94)
		}
		try("Reset", l.Reset(ctx, key, limit, other))
		left("after Reset", limit, 100)
		left("after Reset", other, 100)
	}
	banAndHold(t, l, key)
}

// reserveForATime reserves and settles under a limit of which so much is left.
func reserveForATime(t *testing.T, l *core.Limiter, key string, limit core.Quota, left int) {
	t.Helper()
	for _, cost := range []int{0, 7, 10} {
		r, err := l.Reserve(t.Context(), core.Check{Key: key, Limit: limit, Cost: 7, ReserveFor: time.Hour})
		if err != nil {
			t.Errorf("Reserve with ReserveFor: %v", err)
			return
		}
		if err := r.Settle(t.Context(), cost); err != nil {
			t.Errorf("Settle of what is reserved for a time: %v", err)
			return
		}
		left -= cost
		if d, err := l.Peek(t.Context(), key, limit); err != nil || d.Remaining != left {
			t.Errorf("%d of %s are left after a reservation was settled at %d, want %d: %v", d.Remaining, limit, cost, left, err)
		}
	}
}

// banAndHold bans a key and lifts the ban, and takes a place and gives it back.
func banAndHold(t *testing.T, l *core.Limiter, key string) {
	t.Helper()
	ctx := t.Context()
	ban := core.Ban{Strikes: core.SlidingLog(2, time.Hour), First: time.Hour}
	banned := func(want bool) {
		t.Helper()
		if left, err := l.Banned(ctx, key, ban); err != nil || (left > 0) != want {
			t.Errorf("banned for %v, want %t: %v", left, want, err)
		}
	}
	_, err := l.Strike(ctx, key, ban, 1)
	_, again := l.Strike(ctx, key, ban, 1)
	if err := errors.Join(err, again); err != nil {
		t.Errorf("Strike: %v", err)
	}
	banned(true)
	if err := l.Lift(ctx, key, ban); err != nil {
		t.Errorf("Lift: %v", err)
	}
	banned(false)
	places := core.Concurrent(1, time.Minute)
	for range 2 {
		permit, err := l.TryAcquire(ctx, key, places)
		if err != nil {
			t.Errorf("TryAcquire: %v", err)
			return
		}
		permit.Release()
		await(t, "the place is free", func() error {
			d, err := l.Peek(ctx, key, places)
			if err == nil && d.Remaining == 0 {
				err = errors.New("it is not")
			}
			return err
		})
	}
}

// openSlot begins to move the slot of a hash tag to the next node, and leaves it at that.
func (s *clusterSite) openSlot(t *testing.T, tag string) (slot int64) {
	t.Helper()
	var nodes []string
	for _, node := range s.Nodes() {
		nodes = append(nodes, node.Client(t).ClusterMyID(t.Context()).Val())
	}
	first := s.Nodes()[0].Client(t)
	slot = first.ClusterKeySlot(t.Context(), tag).Val()
	ranges, err := first.ClusterSlots(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range ranges {
		if int64(r.Start) <= slot && slot <= int64(r.End) {
			from := slices.Index(s.Addrs(), r.Nodes[0].Addr)
			to := (from + 1) % len(nodes)
			source, target := s.Nodes()[from].Client(t), s.Nodes()[to].Client(t)
			err := errors.Join(
				target.Do(t.Context(), "CLUSTER", "SETSLOT", slot, "IMPORTING", nodes[from]).Err(),
				source.Do(t.Context(), "CLUSTER", "SETSLOT", slot, "MIGRATING", nodes[to]).Err(),
			)
			if err != nil {
				t.Fatal(err)
			}
			return slot
		}
	}
	t.Fatalf("nobody has slot %d", slot)
	return 0
}

// Denied calls over several servers leave nothing charged, also when the slot of one of their keys is being moved.
func TestDeniedCallsLeaveNothingWhileASlotMoves(t *testing.T) {
	t.Parallel()
	s := newClusterSite(t, redistest.StartCluster(t))
	limiter := s.limiter(t, patient, core.WithBreaker(0, 0))
	ctx := t.Context()
	limit, one := core.Leaky(100, core.PerDay(1)), core.GCRA(1, core.PerDay(1))
	s.openSlot(t, "moving")
	for i := range 20 {
		full := fmt.Sprint("full-", i)
		if _, err := limiter.Allow(ctx, full, one); err != nil {
			t.Fatal(err)
		}
		decisions, err := limiter.AllowAll(ctx, core.Check{Key: "moving", Limit: limit}, core.Check{Key: full, Limit: one})
		if err != nil || decisions[1].Allowed {
			t.Fatalf("%+v, %v, want a denial", decisions, err)
		}
		if d, err := limiter.Peek(ctx, "moving", limit); err != nil || d.Remaining != 100 {
			t.Fatalf("%d are left after %d denials, want 100: %v", d.Remaining, i+1, err)
		}
	}
}

// Callers of a key whose slot is being moved do not hold up those of other keys on the node. It logs how many calls of each
// were answered while as many asked; nothing depends on that but that nobody stands still.
func TestOtherKeysGoOnWhileASlotMoves(t *testing.T) {
	t.Parallel()
	s := newClusterSite(t, redistest.StartCluster(t))
	limiter := s.limiter(t, patient, core.WithBreaker(0, 0))
	slot := s.openSlot(t, "moving")
	first := s.Nodes()[0].Client(t)
	var others []string // in other slots of the same node
	for i := 0; len(others) < 2; i++ {
		name := fmt.Sprint("neighbour-", i)
		if other := first.ClusterKeySlot(t.Context(), name).Val(); other != slot && other/5461 == slot/5461 {
			others = append(others, name)
		}
	}
	neighbour, steady := others[0], others[1]
	count := func(beside string) int64 {
		ctx, stop := context.WithCancel(t.Context())
		var answered, failed atomic.Int64
		var group sync.WaitGroup
		ask := func(checks []core.Check, count *atomic.Int64) {
			for ctx.Err() == nil {
				if _, err := limiter.AllowAll(t.Context(), checks...); err != nil {
					failed.Add(1)
				} else {
					count.Add(1)
				}
			}
		}
		var busy atomic.Int64
		for i := range 8 {
			if beside != "" {
				group.Go(func() {
					ask([]core.Check{
						{Key: beside, Limit: core.Leaky(1_000_000, core.PerSecond(1_000_000))},
						{Key: beside, Limit: core.GCRA(1_000_000+i, core.PerSecond(1_000_000))},
					}, &busy)
				})
			}
			group.Go(func() {
				ask([]core.Check{{Key: neighbour, Limit: core.Leaky(1_000_000, core.PerSecond(1_000_000))}}, &answered)
			})
		}
		await(t, "calls are answered", func() error {
			if answered.Load() < 2000 || beside != "" && busy.Load() < 100 {
				return fmt.Errorf("%d and %d are", answered.Load(), busy.Load())
			}
			return nil
		})
		before, began := answered.Load(), time.Now()
		await(t, "calls are answered", func() error {
			if answered.Load() < before+4000 {
				return fmt.Errorf("%d are", answered.Load())
			}
			return nil
		})
		rate := float64(answered.Load()-before) / time.Since(began).Seconds()
		stop()
		group.Wait()
		if failed.Load() > 0 {
			t.Errorf("%d calls failed", failed.Load())
		}
		return int64(rate)
	}
	t.Logf("calls a second of another key: %d alone, %d beside calls of a key that stays, %d beside those of a key that is being moved",
		count(""), count(steady), count("moving"))
}
