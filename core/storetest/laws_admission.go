package storetest

import (
	"math/big"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// passed is a request that was admitted.
type passed struct {
	at   int64
	cost int
}

// definition reports whether a request may join earlier ones that have passed, by the algorithm's own definition and
// nothing but the list of them.
func definition(l core.Limit, history []passed, now int64, cost int) bool {
	n := numbersOf(l)
	switch l.Algorithm() {
	case "fixed-window":
		opened, count := int64(-1), 0
		for _, p := range history {
			if opened < 0 || p.at >= opened+n.window {
				opened, count = p.at, 0
			}
			count += p.cost
		}
		if opened < 0 || now >= opened+n.window {
			count = 0
		}
		return count+cost <= l.Capacity()
	case "calendar":
		start, _ := n.calendar(now)
		for _, p := range history {
			if p.at >= start {
				cost += p.cost
			}
		}
		return cost <= l.Capacity()
	case "sliding-window":
		ticks := n.floor(now)
		this := ticks / n.window
		used := new(big.Rat)
		for _, p := range history {
			weight := big.NewRat(0, 1)
			switch this - n.floor(p.at)/n.window {
			case 0:
				weight = big.NewRat(1, 1)
			case 1:
				weight = big.NewRat(n.window-ticks%n.window, n.window)
			}
			used.Add(used, weight.Mul(weight, new(big.Rat).SetInt64(int64(p.cost))))
		}
		return used.Add(used, new(big.Rat).SetInt64(int64(cost))).Cmp(n.capacity) <= 0
	case "sliding-log":
		for _, p := range history {
			if p.at > now-n.window {
				cost += p.cost
			}
		}
		return cost <= l.Capacity()
	}
	// A bucket: from any moment on, no more than the capacity and the units drained since.
	sum := int64(cost)
	if sum > int64(l.Capacity()) {
		return false
	}
	for _, before := range slices.Backward(history) {
		sum += int64(before.cost)
		allowed := new(big.Rat).SetInt64(n.floor(now) - n.floor(before.at))
		allowed.Mul(allowed, n.pace).Add(allowed, n.capacity)
		if new(big.Rat).SetInt64(sum).Cmp(allowed) > 0 {
			return false
		}
	}
	return true
}

func exactlyTheDefinition(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		s.clock.now.Store(start.UnixMicro() + rapid.Int64Range(0, 2_000_000).Draw(t, "start"))
		var history []passed
		for range rapid.IntRange(1, 25).Draw(t, "requests") {
			cost, now := drawCost(t, l, "cost"), s.clock.now.Load()
			want := definition(l, history, now, cost)
			d := s.allow(t, key, l, cost)
			if d.Allowed != want {
				t.Fatalf("%d under %s at %v, after %v: allowed %t, want %t", cost, l, now, history, d.Allowed, want)
			}
			if d.Allowed {
				history = append(history, passed{now, cost})
			}
			if wait := drawWait(t, d); wait.Microseconds() < latest-now {
				s.wait(wait)
			}
		}
	})
}

func neverMoreAtOneInstant(t *testing.T, s *stand) {
	most := []int{1, 2, 3, 7, 40}
	if examples() < 10 {
		most = []int{1, 7}
	}
	for _, n := range most {
		for _, period := range []time.Duration{time.Millisecond, 250 * time.Millisecond, time.Second, 365 * 24 * time.Hour} {
			if n == 40 && period != time.Second {
				continue // so many ask but once
			}
			l, key := of(s.algorithm, n, period), s.key()
			admitted := 0
			for range n + 5 {
				if s.allow(t, key, l, 1).Allowed {
					admitted++
				}
			}
			if admitted != n {
				t.Errorf("%s admitted %d of %d at once, want %d", l, admitted, n+5, n)
			}
		}
	}
}

func concurrentCallers(t *testing.T, s *stand) {
	const callers, each, budget = 64, 5, 100
	l, key := of(s.algorithm, budget, time.Hour), s.key()
	var admitted, failed atomic.Int64
	var wait sync.WaitGroup
	for range callers {
		wait.Go(func() {
			for range each {
				switch d, err := s.limiter.Allow(t.Context(), key, l); {
				case err != nil:
					failed.Add(1)
				case d.Allowed:
					admitted.Add(1)
				}
			}
		})
	}
	wait.Wait()
	if admitted.Load() != budget || failed.Load() != 0 {
		t.Errorf("%d callers were admitted %d times with %d errors, want %d and none", callers, admitted.Load(), failed.Load(), budget)
	}
}

func fractionsAreKept(t *testing.T, s *stand) {
	l, key := newLimit(s.algorithm, 2, core.PerSecond(1)), s.key()
	admitted := 0
	for range 100 {
		if s.allow(t, key, l, 1).Allowed {
			admitted++
		}
		s.wait(900 * time.Millisecond)
	}
	// Two at once and one a second for the 89.1 seconds until the last call.
	if admitted != 91 {
		t.Errorf("a call every 0.9 s was admitted %d times in 100, want 91", admitted)
	}
}

func fullRecovery(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		s.use(t, key, l)
		s.wait(s.peek(t, key, l).ResetAfter + time.Duration(rapid.Int64Range(0, 1_000_000_000).Draw(t, "longer"))*time.Microsecond)
		d := s.peek(t, key, l)
		if want := (core.Decision{Allowed: true, Limit: l, Remaining: l.Capacity()}); d != want {
			t.Fatalf("after its recovery: %+v, want %+v", answerOf(d), answerOf(want))
		}
		if d := s.allow(t, key, l, l.Capacity()); !d.Allowed || d.Remaining != 0 {
			t.Fatalf("all of it after the recovery: %+v", answerOf(d))
		}
		if d := s.allow(t, key, l, 1); d.Allowed {
			t.Fatalf("more than all of it after the recovery: %+v", answerOf(d))
		}
	})
}
