package storetest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// waiting has the laws of waiters. They take their time, on the clock of this process.
var waiting = []law{
	{"work goes on: nobody waits for long beside places that are free", concurrently, workGoesOn},
	{"nobody starves: those who want the same are served in the order in which they came", concurrently, nobodyStarves},
	{"nobody starves: a call for places of two limits is served among callers of each", concurrently, servesBothLimits},
}

// longestPoll is how long after they were given back in another process places are noticed at the latest, with as much again
// for a machine that does something else.
const longestPoll = 10 * time.Second

// workGoesOn has waiters of two processes that want different things: each of them is served when its units are free,
// also while the others still wait.
func workGoesOn(t *testing.T, s *stand) {
	key, ten, one := s.key(), core.Concurrent(10, time.Minute).Named("plan"), core.Concurrent(1, time.Minute).Named("plan")
	processes := []*core.Limiter{core.New(s.store), core.New(s.store)}
	defer closeAll(t, processes)
	held := s.must(t, core.Check{Key: key, Limit: ten, Cost: 1})
	ctx, cancel := context.WithTimeout(tContext(t), 6*longestPoll)
	defer cancel()
	var group sync.WaitGroup
	for i, c := range []core.Check{{Key: key, Limit: one}, {Key: key, Limit: ten, Headroom: 9}, {Key: key, Limit: one}} {
		group.Go(func() {
			r, err := processes[i%2].WaitAll(ctx, []core.Check{c})
			if err != nil {
				t.Errorf("%s: %v", callString([]core.Check{c}), err)
				return
			}
			r.Permit(ctx).Release()
		})
	}
	for i := range 20 { // while these wait
		began := time.Now()
		p, err := processes[i%2].Acquire(ctx, key, ten)
		if took := time.Since(began); err != nil || took > longestPoll {
			t.Fatalf("beside 9 of 10 free places: %v after %v", err, took)
		}
		p.Release()
		time.Sleep(time.Millisecond)
	}
	s.giveBack(t, held...)
	group.Wait()
	s.expectFree(t, "in the end", key, ten, 10)
}

// closeAll closes limiters, and with them the store, which is not needed any more.
func closeAll(t *testing.T, all []*core.Limiter) {
	t.Helper()
	for _, l := range all {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// nobodyStarves has waiters who want the same come one after the other: each is served, in that order in each process.
func nobodyStarves(t *testing.T, s *stand) {
	const each = 8
	key, limit := s.key(), core.Concurrent(1, time.Minute)
	held := s.must(t, core.Check{Key: key, Limit: limit})
	ctx, cancel := context.WithTimeout(tContext(t), 6*longestPoll)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	served := make(map[*core.Limiter][]int)
	processes := []*core.Limiter{core.New(s.store), core.New(s.store)}
	defer closeAll(t, processes)
	for _, process := range processes {
		for i := range each {
			began := make(chan struct{})
			group.Go(func() {
				close(began)
				p, err := process.Acquire(ctx, key, limit)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				served[process] = append(served[process], i)
				mu.Unlock()
				p.Release()
			})
			<-began
			time.Sleep(20 * time.Millisecond) // so that it has come before the next one
		}
	}
	s.giveBack(t, held...)
	group.Wait()
	for _, order := range served {
		passed := 0
		for i := range order {
			if i > 0 && order[i] < order[i-1] {
				passed++
			}
		}
		if len(order) != each || passed > 1 {
			t.Errorf("served in the order %v", order)
		}
	}
	s.expectFree(t, "in the end", key, limit, 1)
}

// servesBothLimits has callers of each of two limits, so that hardly ever both are free, and calls for a place of both.
func servesBothLimits(t *testing.T, s *stand) {
	key := s.key()
	few, many := core.Concurrent(1, time.Minute).Named("few"), core.Concurrent(2, time.Minute).Named("many")
	process := core.New(s.store)
	defer closeAll(t, []*core.Limiter{process})
	ctx, cancel := context.WithTimeout(tContext(t), 6*longestPoll)
	defer cancel()
	busy, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	for i := range 8 {
		limit, work := []core.Places{few, many}[i%2], time.Duration(20+5*i)*time.Millisecond
		group.Go(func() {
			for busy.Err() == nil {
				p, err := process.Acquire(ctx, key, limit)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(work)
				s.wait(work)
				p.Release()
			}
		})
	}
	for _, largerFirst := range []bool{false, true} {
		time.Sleep(100 * time.Millisecond) // until all are at work
		checks := []core.Check{{Key: key, Limit: few}, {Key: key, Limit: many}}
		if largerFirst {
			slices.Reverse(checks)
		}
		r, err := process.WaitAll(ctx, checks)
		if err != nil {
			t.Errorf("for both, with the larger limit first: %v: %v", largerFirst, err)
			continue
		}
		r.Permit(ctx).Release()
	}
	stop()
	group.Wait()
	s.expectFree(t, "in the end", key, few, 1)
	s.expectFree(t, "in the end", key, many, 2)
}
