package faults_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/faultproxy"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// In these outages nothing comes from the server, or nothing whole.
var outages = map[string]func(t *testing.T, s *site){
	"frozen":               func(t *testing.T, s *site) { s.server.Pause(t) },
	"killed":               func(t *testing.T, s *site) { s.server.Stop(t) },
	"a blackhole":          func(_ *testing.T, s *site) { s.proxy.Set(faultproxy.Fault{Hold: true}) },
	"half-open":            func(_ *testing.T, s *site) { s.proxy.Set(faultproxy.Fault{LoseReplies: true}) },
	"latency":              func(_ *testing.T, s *site) { s.proxy.Set(faultproxy.Fault{Latency: time.Hour}) },
	"no bandwidth":         func(_ *testing.T, s *site) { s.proxy.Set(faultproxy.Fault{Bandwidth: 20}) },
	"connections that die": func(_ *testing.T, s *site) { s.proxy.Set(faultproxy.Fault{CutRequests: true}) },
}

// In an outage no call waits for its turn or for a connection for longer than the budget, even if it may wait for an hour. Nobody
// but the breaker's trials waits at all once it is open.
func TestNobodyWaitsInAnOutage(t *testing.T) {
	t.Parallel()
	for name, fail := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			var opened atomic.Bool
			var trials atomic.Int64
			options := []core.Option{
				core.WithQueue(65_536, time.Hour), core.WithPrefix(s.prefix), core.WithBudget(budget), core.WithLogger(discard),
				core.WithTrace(core.Trace{Breaker: func(_ string, state string) {
					switch state {
					case "open":
						opened.Store(true)
					case "half-open":
						trials.Add(1)
					case "closed":
					}
				}}),
			}
			limiter, err := core.Open("redis://"+s.proxy.Addr(), options...)
			if err != nil {
				t.Fatal(err)
			}
			defer limiter.Close()
			if err := limiter.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			fail(t, s)
			const callers, calls = 50, 100
			var asked, waited atomic.Int64
			var group sync.WaitGroup
			for range callers {
				group.Go(func() {
					for done := 0; done < calls; {
						open := opened.Load()
						_, err := limiter.Allow(context.Background(), "key", core.Leaky(10, core.PerDay(1)))
						if err == nil {
							continue // before the failure has shown
						}
						if done++; open {
							asked.Add(1)
							if core.FailureOf(err) != core.Suspended {
								waited.Add(1)
							}
						}
						time.Sleep(10 * time.Millisecond)
					}
				})
			}
			answered := make(chan struct{})
			go func() { group.Wait(); close(answered) }()
			select {
			case <-answered:
			case <-time.After(patience):
				t.Fatal("a call has not ended")
			}
			// Those that come at the moment of a trial are part of it.
			if asked.Load() == 0 || waited.Load() > trials.Load()*callers/10 {
				t.Errorf("%d of %d that came after the breaker had opened have waited, in %d trials", waited.Load(), asked.Load(), trials.Load())
			}
			if name == "frozen" {
				s.server.Resume(t)
			}
		})
	}
}

// Where calls may not wait for as long as a connection takes, this process is overloaded. That is no outage: the server is well.
func TestQueueThatIsShorterThanAConnectionTakes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	atAnyPace(t, func(budget time.Duration) error {
		proxy := faultproxy.Start(t, server.Addr())
		proxy.Set(faultproxy.Fault{Latency: budget / 3})
		limiter, err := core.Open("redis://"+proxy.Addr(), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(budget),
			core.WithQueue(1000, budget/10), core.WithLogger(discard))
		if err != nil {
			t.Fatal(err)
		}
		defer limiter.Close()
		var mu sync.Mutex
		kinds := make(map[core.Failure]int)
		everybody(400, func(int) {
			_, err := limiter.Allow(t.Context(), "key", core.Leaky(10, core.PerDay(1)))
			mu.Lock()
			defer mu.Unlock()
			kinds[core.FailureOf(err)]++
		})
		if kinds[core.Overloaded] != 400 {
			return fmt.Errorf("of 400 calls the kinds are %v, want that all are overloaded", kinds)
		}
		return nil
	})
}

// A connection to a distant server takes several round trips, and more than the budget together. Calls wait for it all the same,
// since the server is heard of.
func TestConnectionThatTakesLongerThanTheBudget(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	atAnyPace(t, func(budget time.Duration) error {
		proxy := faultproxy.Start(t, server.Addr())
		proxy.Set(faultproxy.Fault{Latency: budget * 6 / 10})
		limiter, err := core.Open("redis://"+proxy.Addr(), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(budget), core.WithLogger(discard))
		if err != nil {
			t.Fatal(err)
		}
		defer limiter.Close()
		var v verdicts
		everybody(40, func(int) { _ = v.ask(t.Context(), limiter, "key", core.Leaky(10, core.PerDay(1))) })
		if v.failed.Load() > 0 || v.allowed.Load() != 10 {
			return fmt.Errorf("%d allowed, want 10, and %d failed: %w", v.allowed.Load(), v.failed.Load(), v.err)
		}
		return nil
	})
}

var lostSettlements = regexp.MustCompile(`could not be settled.* lost=(\d+) perhaps_settled=(\d+) `)

// When the connections break under thousands of settlements in the background, no more are lost than were in flight, and the log
// says how many.
func TestSettlementsOfKilledClients(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const all, keys = 20_000, 100
	var log bytes.Buffer
	limiter, err := core.Open(server.URL(), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient), core.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	limit := core.FixedWindow(all, 24*time.Hour)
	reservations := make([]*core.Reservation, all)
	everybody(200, func(caller int) {
		for i := caller; i < all; i += 200 {
			r, err := limiter.Reserve(t.Context(), core.Check{Key: strconv.Itoa(i % keys), Limit: limit})
			if err != nil {
				t.Error(err)
				return
			}
			reservations[i] = r
		}
	})
	if t.Failed() {
		return
	}
	admin := server.Client(t)
	for i, r := range reservations {
		if err := r.SettleLater(0); err != nil {
			t.Error(err)
		}
		if i == all/2 {
			if err := admin.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	reader := core.New(core.NewRedis(server.Client(t, func(o *redis.Options) { o.PoolSize = 1 }), core.WithPrefix(redistest.Prefix(t)),
		core.WithBudget(patient), core.WithLogger(discard)))
	left := func() (used int) {
		for key := range keys {
			d, err := reader.Peek(t.Context(), strconv.Itoa(key), limit)
			if err != nil {
				t.Fatal(err)
			}
			used += limit.Capacity() - d.Remaining
		}
		return used
	}
	for deadline, before := time.Now().Add(patience), -1; ; time.Sleep(100 * time.Millisecond) {
		now := left()
		if now == 0 || now == before {
			break
		}
		if before = now; time.Now().After(deadline) {
			t.Fatal("they are still being settled")
		}
	}
	if err := limiter.Close(); err != nil { // which logs what was lost
		t.Error(err)
	}
	lost, perhaps := 0, 0
	for _, line := range lostSettlements.FindAllStringSubmatch(log.String(), -1) {
		certain, _ := strconv.Atoi(line[1])
		unknown, _ := strconv.Atoi(line[2])
		lost, perhaps = lost+certain, perhaps+unknown
	}
	if used := left(); lost > 0 || used > perhaps || perhaps > all/10 {
		t.Errorf("%d of %d stay charged, and the log says that %d are lost and %d perhaps: %s", used, all, lost, perhaps, log.String())
	}
}
