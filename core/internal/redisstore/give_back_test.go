package redisstore

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// A charge is given back into the window that was charged, and to no later one.
func TestGiveBackKnowsItsWindow(t *testing.T) {
	client := redistest.Start(t).Client(t)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		spec  *exact.Spec
		later time.Duration // from the charge of 3 to that of 4, and to its being given back
		want  int           // remaining of 10 then
	}{
		{spec(exact.FixedWindow, 10, 10, time.Minute), 10 * time.Second, 6},
		{spec(exact.FixedWindow, 10, 10, time.Minute), time.Minute, 6}, // the 3 went with their window
		{spec(exact.SlidingWindow, 10, 10, time.Minute), 10 * time.Second, 6},
		{spec(exact.SlidingWindow, 10, 10, time.Minute), time.Minute, 6}, // taken from the window before
		{spec(exact.SlidingWindow, 10, 10, time.Minute), 2 * time.Minute, 6},
		{spec(exact.SlidingLog, 10, 10, time.Minute), 10 * time.Second, 6},
		{spec(exact.SlidingLog, 10, 10, time.Minute), time.Minute, 6},
		{spec(exact.Leaky, 10, 6, time.Minute), 10 * time.Second, 6},
		{spec(exact.GCRA, 10, 6, time.Minute), 10 * time.Second, 6},
		{named("tokens", exact.TokenBucket), 100 * time.Millisecond, 6},
		{named("queue", exact.Shaping), 100 * time.Millisecond, 6},
	} {
		t.Run(test.spec.String()+" after "+test.later.String(), func(t *testing.T) {
			now := start
			store := newStore(client, func(c *Config) {
				c.Prefix, c.Clock = redistest.Prefix(t), func() int64 { return now.UnixMicro() } //nolint:gocritic // now changes
			})
			charge := func(units int) *call.Call {
				t.Helper()
				c, err := decide(t.Context(), store, call.Check{Key: "key", Spec: test.spec, Units: units})
				if err != nil || !c.Passed() {
					t.Fatalf("%+v, %v", c.Checks, err)
				}
				return c
			}
			charged := callOf(call.Check{Key: "key", Spec: test.spec, Units: 3})
			maySettle(charged)
			if _, err := store.Decide(t.Context(), []*call.Call{charged}); err != nil {
				t.Fatal(err)
			}
			now = start.Add(test.later)
			charge(4)
			store.giveBack(t.Context(), charged.Groups[0])

			left := charge(0).Checks[0]
			if got := left.Spec.Remaining(left.Usage); got != test.want {
				t.Errorf("%d remain, want %d", got, test.want)
			}
		})
	}
}

// A caller who leaves is given back all that their call is charged, by one settlement, however often the
// call is asked and whatever it costs each time.
func TestCallersWhoLeaveAreGivenBackInOneSettlement(t *testing.T) {
	server := redistest.Start(t)
	client, held := server.Client(t), &gate{opened: make(chan struct{})}
	client.AddHook(held)
	other := spec(exact.SlidingLog, 1000, 1000, time.Hour)
	var at atomic.Int64 // the clock, by which hardly anything drains, and no window ends
	at.Store(time.Date(2026, 1, 1, 0, 5, 0, 0, time.UTC).UnixMicro())
	clock := func(c *Config) { c.Clock = func() int64 { return at.Add(1) } }
	for a := range exact.All() {
		if a.Bans() || a.Shares() || a.Prepaid() { // its cost always fits, and what has begun a ban is not given back; a share needs its cap, and a balance a top-up
			continue
		}
		limit := spec(a, 1000, 1000, 10*time.Minute)
		several := func(costs ...int) (calls []*call.Call) {
			for _, cost := range costs {
				calls = append(calls, callOf(call.Check{Key: "key", Spec: limit, Units: cost, Holder: call.NewHolder()}, call.Check{Key: "other", Spec: other, Units: 2}))
			}
			return calls
		}
		often := callOf(call.Check{Key: "key", Spec: limit, Units: 3, Holder: call.NewHolder()}, call.Check{Key: "other", Spec: other, Units: 1})
		often.Times = 1000 // of which 333 fit, or 331
		for name, calls := range map[string][]*call.Call{
			"often": {often}, "in order": several(1, 1, 1), "at different costs": several(1, 2, 990, 3, 4), "denied": several(1001, 1),
		} {
			t.Run(limit.String()+" "+name, func(t *testing.T) {
				store := newStore(client, clock, func(c *Config) { c.Prefix, c.HeedsDeadline = redistest.Prefix(t), false })
				held.opened = make(chan struct{})
				close(held.opened)
				if _, err := decide(t.Context(), store, call.Check{Key: "key", Spec: limit, Units: 5, Holder: call.NewHolder()}, call.Check{Key: "other", Spec: other, Units: 5}); err != nil {
					t.Fatal(err)
				}
				before := server.Calls(t, "evalsha") + server.Calls(t, "eval")
				held.opened = make(chan struct{})
				ctx, leave := context.WithCancel(t.Context())
				left := make(chan error)
				go func() {
					_, err := store.Decide(ctx, calls)
					left <- err
				}()
				awaitLoad(t, store.only.checks, 1)
				leave()
				if err := <-left; call.FailureOf(err) != call.GivenUp {
					t.Errorf("%v, want that the call was given up", err)
				}
				close(held.opened)
				if err := store.Close(); err != nil { // waits for what is given back
					t.Fatal(err)
				}
				if asked := server.Calls(t, "evalsha") + server.Calls(t, "eval") - before; asked > 4 { // each script may have to be loaded
					t.Errorf("%d calls of a script, want one for the call and one for what is given back", asked)
				}
				after := newStore(client, clock, func(c *Config) { c.Prefix = store.Prefix })
				now, err := decide(t.Context(), after, call.Check{Key: "key", Spec: limit}, call.Check{Key: "other", Spec: other})
				if err != nil {
					t.Fatal(err)
				}
				for i := range now.Checks {
					if got := now.Checks[i].Spec.Remaining(now.Checks[i].Usage); got != 995 {
						t.Errorf("check %d: %d of 1000 remain, want 995", i, got)
					}
				}
			})
		}
	}
}
