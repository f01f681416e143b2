package core_test

import (
	"context"
	"errors"
	"flag"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
	"github.com/weir-go/ratelimit/core/storetest"
)

func TestMemoryKeepsTheLaws(t *testing.T) { storetest.Run(t, newMemory) }

// An example takes a hundred times as long as in memory.
func TestRedisKeepsTheLaws(t *testing.T) { fewer(t, 2, newRedis(t)) }

// fewer checks the laws of a store on a part of the random examples. It is for stores that
// decide as another does which is checked on all of them, and differ in what is around that. A test that
// uses it does not run in parallel with others, since rapid knows one number of examples for all.
func fewer(t *testing.T, part int, newStore storetest.Factory) {
	t.Helper()
	examples := flag.Lookup("rapid.checks").Value
	all := examples.String()
	number, err := strconv.Atoi(all)
	if err != nil {
		t.Fatal(err)
	}
	_ = flag.Set("rapid.checks", strconv.Itoa(max(1, number/part)))
	t.Cleanup(func() { _ = flag.Set("rapid.checks", all) }) // when the laws have been checked, which run in parallel
	storetest.Run(t, newStore)
}

// The laws hold for calls that share batches with those of others.
func TestRedisKeepsTheLawsInCompany(t *testing.T) {
	asked, batches := &atomic.Int64{}, &atomic.Int64{}
	trace := core.WithTrace(core.Trace{Batch: func(core.Batch) { batches.Add(1) }})
	fewer(t, 30, inCompany(newRedis(t, core.WithInFlight(1), trace), asked))
	if batches.Load() > asked.Load()*3/4 {
		t.Errorf("%d calls took %d batches: few calls have shared one", asked.Load(), batches.Load())
	}
}

// The laws hold for answers that are repeated from memory. TestDenialCacheKeepsTheLawsInACluster asks the same over Redis.
func TestDenialCacheKeepsTheLaws(t *testing.T) {
	var repeated atomic.Int64
	t.Run("memory", func(t *testing.T) {
		fewer(t, 2, func(t *testing.T, now func() time.Time) core.Store {
			trace := core.WithTrace(core.Trace{Repeated: func() { repeated.Add(1) }})
			return denialcache.New(newMemory(t, now), 1000, core.WithClock(now), trace)
		})
	})
	if repeated.Load() < 1000 {
		t.Errorf("%d answers were repeated in all, which proves little", repeated.Load())
	}
}

// company is a store that makes two other calls with each call.
type company struct {
	core.Store

	asked *atomic.Int64 // calls, with those of others
	turns atomic.Int64
}

func inCompany(newStore storetest.Factory, asked *atomic.Int64) storetest.Factory {
	return func(t *testing.T, now func() time.Time) core.Store {
		return &company{Store: newStore(t, now), asked: asked}
	}
}

func (c *company) Decide(ctx context.Context, calls []core.Call) (answered int, err error) {
	err = c.among(func() (err error) {
		answered, err = c.Store.Decide(ctx, calls)
		return err
	})
	return answered, err
}

// companions are what others ask, two at a time in turn.
var companions = []core.Check{
	{Key: "other", Limit: core.Leaky(3, core.PerSecond(1)), Cost: 1},
	{Key: "other", Limit: core.SlidingLog(3, time.Second), Cost: 2},
	{Key: "other", Limit: core.FixedWindow(3, time.Second), Cost: 4},
	{Key: "other", Limit: core.GCRA(3, core.PerSecond(2)).Named("other"), Cost: 1},
	{Key: "other", Limit: core.SlidingWindow(3, time.Second), Cost: 1},
}

func (c *company) among(ask func() error) error {
	turn := c.turns.Add(1)
	others := []core.Check{companions[turn%5], companions[(turn+1+turn/5%4)%5]}
	var group sync.WaitGroup
	failures := make([]error, len(others)+1)
	for i := range others {
		group.Go(func() {
			_, failures[i] = c.Store.Decide(context.Background(), []core.Call{{Checks: others[i : i+1], Decisions: make([]core.Decision, 1)}})
		})
	}
	failures[len(others)] = ask()
	group.Wait()
	c.asked.Add(int64(1 + len(others)))
	return errors.Join(failures...)
}

// Law 12: the pure Go arithmetic is the reference for the Lua, and the model is the
// reference for both.
func TestMemoryRedisAndTheModelAgree(t *testing.T) {
	t.Parallel()
	storetest.Agree(t, newMemory, newRedis(t), inCompany(newRedis(t, core.WithInFlight(1)), new(atomic.Int64)))
}

// A store of this package says of each call how often it was granted, be it asked once or several times.
func TestGrantedIsToldOfEachCall(t *testing.T) {
	limit, other := core.Leaky(5, core.PerHour(1)), core.GCRA(3, core.PerHour(1))
	check := core.Check{Key: "key", Limit: limit}
	now := func() time.Time { return time.UnixMicro(1_800_000_000_000_000) }
	for name, newStore := range map[string]storetest.Factory{
		"memory": newMemory, "redis": newRedis(t),
		"table": func(_ *testing.T, now func() time.Time) core.Store { return core.NewTableStore(newTable(now)) },
		"denial cache": func(t *testing.T, now func() time.Time) core.Store {
			return denialcache.New(newMemory(t, now), 10, core.WithClock(now))
		},
	} {
		store := newStore(t, now)
		for i, test := range []struct {
			times  int
			checks []core.Check
			want   []int // one of them
		}{
			{0, []core.Check{check}, []int{1}},
			{1, []core.Check{check, {Key: "other", Limit: other, Mode: core.Condition}}, []int{1}},
			{2, []core.Check{check, check}, []int{1}}, // they add up
			{2, []core.Check{check}, []int{1}},
			{2, []core.Check{check}, []int{0}},
			{1, []core.Check{check}, []int{0}},
			{0, []core.Check{check, {Key: "other", Limit: other}}, []int{0}},
			{9, []core.Check{{Key: "other", Limit: other}}, []int{3, 1}},
		} {
			calls := []core.Call{{Checks: test.checks, Decisions: make([]core.Decision, len(test.checks)), Times: test.times}}
			if answered, err := store.Decide(t.Context(), calls); err != nil || answered != 1 {
				t.Fatalf("%s, call %d: %d, %v", name, i, answered, err)
			}
			if !slices.Contains(test.want, calls[0].Granted) {
				t.Errorf("%s, call %d: %d of %d are granted, want %v: %+v", name, i, calls[0].Granted, test.times, test.want, calls[0].Decisions)
			}
		}
	}
}
