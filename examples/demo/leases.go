package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// A run of leases is three servers that ask for one key.
const (
	leaseServers = 3
	leasePause   = time.Second / 300 // between two requests of a server
	leaseLength  = 2 * time.Second
)

// hot is the limit of that key: less than the servers ask for, so that some of it is denied. With a tenth over, its leases last a tenth of
// a second.
var hot = core.TokenBucket(500, core.PerSecond(500)).Named("hot")

// leaseRuns has hot keys decided, one run after the other.
type leaseRuns struct {
	sync.Mutex

	counters core.Store
}

// leaseRun is the result of one.
type leaseRun struct {
	Leased     bool    `json:"leased"`
	Asked      int     `json:"asked"`
	Admitted   int     `json:"admitted"`
	FromLeases int     `json:"fromLeases"`
	Returned   int     `json:"returned"` // units that were leased and not spent
	Calls      int64   `json:"calls"`    // of the store
	Median     float64 `json:"median"`   // microseconds that a decision took
}

func (p *page) postLeases(w http.ResponseWriter, r *http.Request) {
	var posted struct {
		Leased bool `json:"leased"`
	}
	v := p.visitorOf(r)
	if v == nil {
		fail(w, errStranger)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, mostPosted)
	if err := read(r, &posted); err != nil {
		fail(w, err)
		return
	}
	if !p.leases.TryLock() {
		fail(w, errBusy)
		return
	}
	defer p.leases.Unlock()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(p.open, cancel)() //nolint:contextcheck // the end of the page ends the run, too
	run, err := p.leases.run(ctx, v.key+":hot", posted.Leased)
	if err != nil {
		fail(w, errors.Join(errStore, err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(run)
}

// run has three servers ask for a key as long as it takes, each with a limiter of its own.
func (l *leaseRuns) run(ctx context.Context, key string, leased bool) (*leaseRun, error) {
	run := &leaseRun{Leased: leased}
	store := &countedStore{Store: l.counters}
	if err := store.Reset(ctx, key, []core.Limit{hot}); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var took []time.Duration
	var failed error
	var tolerance core.Tolerance
	if leased {
		tolerance.Over = 0.1
	}
	trace := core.WithTrace(core.Trace{Leased: func(e core.Leased) {
		mu.Lock()
		defer mu.Unlock()
		run.Returned += e.Returned
	}})
	end := time.Now().Add(leaseLength)
	var asking sync.WaitGroup
	for range leaseServers {
		asking.Go(func() {
			limiter := core.New(core.Lease(store, tolerance, trace))
			defer limiter.Close() // which gives the rest back
			for at := time.Now(); at.Before(end) && ctx.Err() == nil; at = at.Add(leasePause) {
				time.Sleep(time.Until(at))
				start := time.Now()
				d, err := limiter.Allow(ctx, key, hot)
				elapsed := time.Since(start)
				mu.Lock()
				run.Asked++
				took = append(took, elapsed)
				failed = errors.Join(failed, err)
				if err == nil && d.Allowed {
					run.Admitted++
				}
				if d.Leased {
					run.FromLeases++
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	asking.Wait()
	mu.Lock()
	defer mu.Unlock()
	if failed != nil {
		return nil, failed
	}
	slices.Sort(took)
	if len(took) > 0 {
		run.Median = float64(took[len(took)/2]) / float64(time.Microsecond)
	}
	run.Calls = store.calls.Load()
	return run, nil
}

// countedStore counts the calls of a store, and leaves it open.
type countedStore struct {
	core.Store

	calls atomic.Int64
}

// Decide implements [core.Store].
func (s *countedStore) Decide(ctx context.Context, calls []core.Call) (answered int, err error) {
	s.calls.Add(1)
	return s.Store.Decide(ctx, calls)
}

// Settle implements [core.Store].
func (s *countedStore) Settle(ctx context.Context, settlements []core.Settlement) error {
	s.calls.Add(1)
	return s.Store.Settle(ctx, settlements)
}

// Close implements [core.Store].
func (s *countedStore) Close() error { return nil }
