package storetest

import (
	"context"
	"errors"
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

func resetMakesNew(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		s.use(t, key, l)
		other := l.Named("other")
		s.allow(t, key, l, 1)
		kept := s.allow(t, key, other, 1)
		shadow := core.Check{Key: key, Limit: l, Cost: l.Capacity(), Shadow: true}
		s.allowAll(t, shadow)
		for range 2 { // the second finds nothing, which is no error
			if err := s.limiter.Reset(t.Context(), key, l); err != nil {
				t.Fatalf("Reset(%q, %s): %v", key, l, err)
			}
		}
		if d := s.allowAll(t, shadow)[0]; !d.Allowed {
			t.Fatalf("the shadow was not reset: %+v", answerOf(d))
		}
		if d := s.allow(t, key, other, 0); d.Remaining != kept.Remaining {
			t.Fatalf("another limit was reset too: %+v", answerOf(d))
		}
		if d := s.peek(t, key, l); d != (core.Decision{Allowed: true, Limit: l, Remaining: l.Capacity()}) {
			t.Fatalf("after a reset: %+v", answerOf(d))
		}
	})
}

// evenPace checks the departures from the queue: each no sooner than one turn after the one before, and no later than it
// has to be.
func evenPace(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		n := numbersOf(l)
		s.clock.now.Store(start.UnixMicro() + rapid.Int64Range(0, 2_000_000).Draw(t, "start"))
		free := new(big.Rat) // when the queue is empty, in ticks
		for range rapid.IntRange(1, 15).Draw(t, "requests") {
			cost, now := drawCost(t, l, "cost"), s.clock.now.Load()
			arrived := new(big.Rat).SetInt64(n.floor(now))
			d := s.allow(t, key, l, cost)
			if d.Allowed {
				turn := arrived
				if free.Cmp(turn) > 0 {
					turn = free
				}
				wait := roundedUp(new(big.Rat).Sub(turn, arrived)).Int64() * n.tick
				if d.Delay.Microseconds() != wait {
					t.Fatalf("%d under %s: a Delay of %v, want %v", cost, l, d.Delay, time.Duration(wait)*time.Microsecond)
				}
				service := new(big.Rat).SetInt64(int64(cost))
				free = new(big.Rat).Add(turn, service.Quo(service, n.pace))
			} else if d.Delay != 0 {
				t.Fatalf("denied, with a Delay of %v", d.Delay)
			}
			if wait := drawWait(t, d); wait.Microseconds() < latest-now {
				s.wait(wait)
			}
		}
	})
}

func nobodyQueues(t *testing.T, s *stand) {
	l, key := of(s.algorithm, 3, time.Second), s.key()
	for range 20 {
		if d := s.allow(t, key, l, 1); d.Delay != 0 {
			t.Errorf("a Delay of %v", d.Delay)
		}
		s.wait(130 * time.Millisecond)
	}
}

func goneCaller(t *testing.T, s *stand) {
	l, key := of(s.algorithm, 3, time.Hour), s.key()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.limiter.Allow(ctx, key, l); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call: %v, want context.Canceled", err)
	}
	if err := s.limiter.Reset(ctx, key, l); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled reset: %v, want context.Canceled", err)
	}
	if d := s.allow(t, key, l, 0); d.Remaining != 3 {
		t.Errorf("%d remaining of 3 after nothing but cancelled calls", d.Remaining)
	}
}

// atMostGrantsWhatFits asks one key at most for some units until it is granted none, and its twin for
// one after the other.
func atMostGrantsWhatFits(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t, s.algorithm)
		one, other := s.twins(t, l)
		n := rapid.OneOf(rapid.IntRange(1, 5), rapid.IntRange(1, l.Capacity()+1), rapid.Just(math.MaxInt)).Draw(t, "at most")
		most := 40 // units that are counted one by one
		if rapid.IntRange(0, 31).Draw(t, "many") == 0 {
			most = 1000
		}
		if room := s.peek(t, one, l).Remaining; room > most {
			n = max(n, most/20)
			s.allow(t, other, l, room-most)
			s.allow(t, one, l, room-most)
		}
		granted := 0
		for {
			some, d, err := s.limiter.AllowAtMost(tContext(t), one, l, n)
			if err != nil || some > n || (some > 0) != d.Allowed {
				t.Fatalf("AllowAtMost(%s, %d): %d, %+v, %v", l, n, some, answerOf(d), err)
			}
			if granted += some; some == 0 {
				break
			}
		}
		single := 0
		for s.allow(t, other, l, 1).Allowed {
			single++
		}
		if granted != single {
			t.Fatalf("%s: %d were granted, and one by one %d", l, granted, single)
		}
		s.expectTwins(t, l, one, other)
	})
}
