//go:build !race

// The simulation asks one request after the other: make test runs it without the race detector, which takes seven times as long.

package fleet

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
)

// The fleet.
const (
	servers  = 20
	capacity = 1_000_000 // of the bucket, which refills by as much a second
	units    = 10        // that one call of the simulation stands for, or it would take minutes
	workers  = 4         // of a server
	length   = 2 * time.Second
	oneWay   = 500 * time.Microsecond // to the store
)

var limit = core.TokenBucket(capacity, core.PerSecond(capacity))

// outcome is what came of a simulation.
type outcome struct {
	over   float64 // as it was declared
	demand int     // requests a second

	asked    float64 // requests
	admitted float64 // as a part of what an ideal limiter admits
	excess   float64 // the most above the bucket in any time, as a part of its capacity
	decided  float64 // by the store in a second: checks, leases, and what is given back
	late     float64 // the most that one server has told of, as a part of the capacity
	returned float64 // as a part of what was granted
}

// request is what one call stands for.
type request struct {
	at       time.Time
	admitted bool
}

// link is the store as servers reach it. It counts what the store decides.
type link struct {
	core.Store

	decided *atomic.Int64
}

func (l link) Decide(ctx context.Context, calls []core.Call) (int, error) {
	if calls[0].Receipts != nil { // a lease
		l.decided.Add(1)
	} else {
		l.decided.Add(units)
	}
	time.Sleep(oneWay)
	defer time.Sleep(oneWay)
	return l.Store.Decide(ctx, calls)
}

func (l link) Settle(ctx context.Context, settlements []core.Settlement) error {
	l.decided.Add(int64(len(settlements)))
	time.Sleep(oneWay)
	defer time.Sleep(oneWay)
	return l.Store.Settle(ctx, settlements)
}

func (l link) Close() error { return nil }

// simulate has all servers ask for one key. If they ask for more than refills, the burst is used up before, so that what refills is
// all that there is.
func simulate(t *testing.T, over float64, demand int) (o outcome) {
	t.Helper()
	bubbletest.Run(t, func(t *testing.T) {
		store, decided := core.NewMemory(), new(atomic.Int64)
		defer store.Close()
		used := 0.0
		if demand >= capacity {
			used = capacity
			if _, err := core.New(store).AllowN(t.Context(), "key", limit, capacity); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		var requests []request
		var granted, returned, late int
		trace := core.WithTrace(core.Trace{Leased: func(l core.Leased) {
			mu.Lock()
			defer mu.Unlock()
			granted, returned, late = granted+l.Granted, returned+l.Returned, max(late, l.Late)
		}})
		pause := time.Duration(float64(time.Second) * servers * workers * units / float64(demand))
		end := time.Now().Add(length)
		var working sync.WaitGroup
		var limiters []*core.Limiter
		for server := range servers {
			l := core.New(core.Lease(link{store, decided}, core.Tolerance{Over: over}, trace))
			limiters = append(limiters, l)
			for worker := range workers {
				random := rand.New(rand.NewPCG(uint64(server), uint64(worker)))
				working.Go(func() {
					for at := time.Now(); at.Before(end); at = at.Add(pause) {
						time.Sleep(time.Until(at.Add(time.Duration(random.Int64N(int64(pause))))))
						asked := time.Now()
						d, err := l.AllowN(t.Context(), "key", limit, units)
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						requests = append(requests, request{asked, d.Allowed})
						mu.Unlock()
					}
				})
			}
		}
		working.Wait()
		for _, l := range limiters {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		o = outcome{
			over: over, demand: demand, asked: float64(len(requests) * units), decided: float64(decided.Load()) / length.Seconds(),
			late: float64(late) / capacity, returned: float64(returned) / float64(max(1, granted)),
		}
		o.admitted, o.excess = against(requests, end.Add(-length), used)
	})
	return o
}

// against compares what was admitted with an ideal limiter, which decides at the instant at which it is asked. admitted is the part
// that passed of what it admits, and excess how much more than the bucket has passed in any time. used is what was used at the start.
func against(requests []request, start time.Time, used float64) (admitted, excess float64) {
	slices.SortStableFunc(requests, func(a, b request) int { return cmp.Compare(a.at.Sub(start), b.at.Sub(start)) })
	ideal, level := used, used // how full each bucket is of what was used
	passed, idealPassed := 0.0, 0.0
	last := start
	for _, r := range requests {
		drained := capacity * r.at.Sub(last).Seconds()
		last = r.at
		ideal, level = max(0, ideal-drained), max(0, level-drained)
		if ideal+units <= capacity {
			ideal += units
			idealPassed += units
		}
		if r.admitted {
			level += units
			passed += units
		}
		excess = max(excess, level-capacity)
	}
	return passed / idealPassed, excess / capacity
}
