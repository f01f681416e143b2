package core_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
)

// distant is a store that takes half a millisecond to reach, and as long to answer.
type distant struct{ core.Store }

func (d distant) Decide(ctx context.Context, calls []core.Call) (int, error) {
	time.Sleep(500 * time.Microsecond)
	defer time.Sleep(500 * time.Microsecond)
	return d.Store.Decide(ctx, calls)
}

func (d distant) Settle(ctx context.Context, settlements []core.Settlement) error {
	time.Sleep(500 * time.Microsecond)
	defer time.Sleep(500 * time.Microsecond)
	return d.Store.Settle(ctx, settlements)
}

// Twenty servers share a limit of a million a second on one key, half a millisecond away from their store. docs/leases.md has the
// numbers. A call stands for two hundred requests, or the simulation would take minutes.
func TestLeasesOfAFleet(t *testing.T) {
	const servers, workers, units, seconds, over, limited = 20, 4, 200, 3, 0.1, 1_000_000
	limit := core.TokenBucket(limited, core.PerSecond(limited)) // leases last 100 ms
	for _, demand := range []int{500_000, 900_000, 1_200_000, 2_000_000} {
		t.Run(strconv.Itoa(demand), func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				store, b := &asks{Store: core.NewMemory()}, new(book)
				pause := time.Duration(float64(time.Second) * servers * workers * units / float64(demand))
				var asked, admitted atomic.Int64
				var working sync.WaitGroup
				var limiters []*core.Limiter
				if demand > limited { // the burst is used up
					if _, err := core.New(store.Store).AllowN(t.Context(), "key", limit, limited); err != nil {
						t.Fatal(err)
					}
				}
				end := time.Now().Add(seconds * time.Second)
				for server := range servers {
					l := core.New(core.Lease(distant{store}, core.Tolerance{Over: over}, b.trace()))
					limiters = append(limiters, l)
					for worker := range workers {
						random := rand.New(rand.NewPCG(uint64(server), uint64(worker)))
						working.Go(func() {
							for at := time.Now(); at.Before(end); at = at.Add(pause) {
								time.Sleep(time.Until(at) + time.Duration(random.Int64N(int64(pause))))
								asked.Add(units)
								if d, err := l.AllowN(t.Context(), "key", limit, units); err == nil && d.Allowed {
									admitted.Add(units)
								}
							}
						})
					}
				}
				working.Wait()
				for _, l := range limiters {
					if err := l.Close(); err != nil {
						t.Fatal(err)
					}
				}
				decided, settled := store.counts()
				calls := float64(decided+settled) / seconds
				exact := min(float64(asked.Load()), limited*seconds)
				share, sum := float64(admitted.Load())/exact, b.sum(t)
				t.Logf("asked %d/s, admitted %.4f of what an exact limiter admits, %.0f calls of the store a second, %.4f returned, at most %.4f of the capacity late in one process",
					asked.Load()/seconds, share, calls, float64(sum.Returned)/float64(sum.Granted), float64(sum.Late)/limited)
				if float64(admitted.Load()) > limited*(seconds+over) {
					t.Errorf("%d were admitted", admitted.Load())
				}
				if share < 0.98 {
					t.Errorf("%.4f of what an exact limiter admits", share)
				}
				if most := servers * (2/0.1 + 4); demand < limited && calls > most {
					t.Errorf("%.0f calls of the store a second, want at most %.0f", calls, most)
				}
			})
		})
	}
}
