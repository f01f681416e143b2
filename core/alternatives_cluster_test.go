package core_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// In a cluster, alternatives are on several servers. However many ask at once, no more passes than fits, and the
// counts are exact when all are answered.
func TestAlternativesOverSeveralServers(t *testing.T) {
	client := redistest.SharedCluster(t).Client(t)
	limiter := core.New(core.NewRedis(client, core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient)))
	if err := limiter.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	for algorithm, limit := range hourly {
		t.Run(algorithm, func(t *testing.T) {
			left := map[string]int{"first": 20, "second": 30, "third": 10, "all": 55}
			check := func(key string) core.Check {
				return core.Check{Key: algorithm + key, Limit: limit(map[string]int{"first": 20, "second": 30, "third": 10, "all": 55}[key])}
			}
			checks := append(core.FirstOf(check("first"), check("second"), check("third")), check("all"))
			var charged [3]atomic.Int64
			ask := func() (passed bool) {
				decisions, err := limiter.AllowAll(t.Context(), checks...)
				if err != nil {
					t.Error(err)
					return false
				}
				for i := range charged {
					if decisions[i].Allowed && !decisions[i].Waived && decisions[3].Allowed {
						charged[i].Add(1)
						passed = true
					}
				}
				return passed
			}
			var group sync.WaitGroup
			for range 8 {
				group.Go(func() {
					for range 10 {
						ask()
					}
				})
			}
			group.Wait()
			for ask() { // what a call has found taken in the crowd may have been given back since
			}
			total := 0
			for i, key := range []string{"first", "second", "third"} {
				left[key] -= int(charged[i].Load())
				total += int(charged[i].Load())
			}
			left["all"] -= total
			if total != 55 {
				t.Errorf("%d of all are charged, want 55", total)
			}
			for key, want := range left {
				c := check(key)
				if d, err := limiter.Peek(t.Context(), c.Key, c.Limit); err != nil || d.Remaining != want {
					t.Errorf("%s: %+v, %v, want %d left", key, d, err, want)
				}
			}
		})
	}
}

// Nobody waits for a second round trip while the first alternative has room, and nothing is given back.
func TestFirstAlternativeTakesOneRoundTrip(t *testing.T) {
	var asked atomic.Int64
	store := core.NewRedis(redistest.SharedCluster(t).Client(t), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient),
		core.WithTrace(core.Trace{Batch: func(b core.Batch) { asked.Add(int64(b.Calls)) }}))
	limiter := core.New(store)
	if err := limiter.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := hourly["leaky"]
	checks := core.FirstOf(core.Check{Key: "a", Limit: l(2)}, core.Check{Key: "b", Limit: l(1)}, core.Check{Key: "c", Limit: l(9)})
	for i, want := range []struct{ charged, calls int }{{0, 3}, {0, 3}, {1, 4}, {2, 4}} {
		asked.Store(0)
		d, err := limiter.AllowAll(t.Context(), checks...)
		if err != nil || !d[want.charged].Allowed || d[want.charged].Waived {
			t.Errorf("call %d: %+v, %v, want alternative %d", i, d, err, want.charged)
		}
		// A batch is told of beside the answers to its calls.
		for end := time.Now().Add(10 * time.Second); int(asked.Load()) < want.calls && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if got := int(asked.Load()); got != want.calls {
			t.Errorf("call %d: %d script runs, want %d", i, got, want.calls)
		}
	}
}

// A check is told what the alternatives before it have left, if they are about its state: shadow checks that
// are on several servers take a turn of their own.
func TestShadowsAreAskedAfterAlternativesOnSeveralServers(t *testing.T) {
	limiter := core.New(core.NewRedis(redistest.SharedCluster(t).Client(t), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient)))
	a := core.Check{Key: "a", Limit: hourly["fixed window"](10), Cost: 2, Shadow: true}
	b := core.Check{Key: "b", Limit: hourly["fixed window"](10), Cost: 3, Shadow: true}
	look := core.Check{Key: "a", Limit: a.Limit, Mode: core.Look, Shadow: true}
	rest := core.Check{Key: "a", Limit: a.Limit, Cost: 7, Mode: core.Condition, Shadow: true}
	checks := append(core.FirstOf(a, b), look)
	checks = append(checks, core.FirstOf(rest, core.Check{Key: "c", Limit: a.Limit, Shadow: true})...)
	for round := range 2 {
		decisions, err := limiter.AllowAll(t.Context(), checks...)
		if err != nil {
			t.Fatal(err)
		}
		left := 8 - 2*round
		if decisions[2].Remaining != left || decisions[3].Remaining != left || decisions[3].Allowed != (round == 0) {
			t.Errorf("call %d is told %+v and %+v, want %d left", round, decisions[2], decisions[3], left)
		}
	}
}
