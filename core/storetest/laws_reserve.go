package storetest

import (
	"cmp"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/unexported"
)

// unshaped are the algorithms with charges that can be reserved for a time: those without queues and calendars.
var unshaped = except("shaping", "calendar")

// reserving are the laws of reservations for a time.
var reserving = []law{
	{"what nobody settles is back after exactly its time", unshaped, backAfterItsTime},
	{"a call gives back a part of what has ended, those behind it the rest", unshaped, endedComesBackInParts},
	{"what is settled in time stays settled", unshaped, settledInTime},
	{"what is settled too late is charged in full", unshaped, settledTooLate},
	{"what has grown is back after its own time", unshaped, grownIsBack},
	{"a denied reservation gives nothing back later", unshaped, deniedReservesNothing},
	{"a reset makes the key new, and nothing comes back to it", unshaped, nothingBackToAResetKey},
	{"times without sense are errors that change nothing", append(slices.Clone(unshaped), "shaping"), timesWithoutSense},
}

// hourly is a limit of which next to nothing comes back within a minute.
func hourly(algorithm string) core.Quota { return of(algorithm, 10, 1000*time.Hour) }

func backAfterItsTime(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := hourly(s.algorithm), s.key()
		ttl := time.Duration(rapid.IntRange(1, 60_000).Draw(t, "milliseconds")) * time.Millisecond
		units := rapid.IntRange(1, 10).Draw(t, "reserved")
		others := rapid.IntRange(0, 10-units).Draw(t, "others")
		check := core.Check{Key: key, Limit: l, Cost: units, ReserveFor: ttl}
		s.reserve(t, check) // and its process dies
		if others > 0 {
			s.allow(t, key, l, others)
		}
		look := func() int {
			t.Helper()
			r := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 11, ReserveFor: ttl}) // it is denied, and looks
			return r.Decisions()[0].Remaining
		}
		s.wait(ttl - time.Microsecond)
		if left := look(); left != 10-units-others {
			t.Fatalf("before %v, %d are left of 10, of which %d are reserved and %d used", ttl, left, units, others)
		}
		s.wait(time.Microsecond)
		for range 2 {
			if left := look(); left != 10-others {
				t.Fatalf("after %v, %d are left of 10, of which %d are used", ttl, left, others)
			}
		}
		if d := s.peek(t, key, l); d.Remaining != 10-others {
			t.Fatalf("others find %d, want %d", d.Remaining, 10-others)
		}
	})
}

func endedComesBackInParts(t *testing.T, s *stand) {
	const open = 30 // more than seven calls give back
	l, key := of(s.algorithm, 3*open, 3*open*100*time.Hour), s.key()
	check := core.Check{Key: key, Limit: l, Cost: 2, ReserveFor: time.Minute}
	var pending *core.Reservation
	for range open {
		pending = cmp.Or(pending, s.reserve(t, check)) // the first one is the last to be given back
		s.wait(time.Microsecond)
	}
	s.wait(time.Minute)
	look := func(want int) {
		t.Helper()
		if d := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 3*open + 1, ReserveFor: time.Minute}).Decisions()[0]; d.Remaining != want {
			t.Fatalf("%d are left, want %d", d.Remaining, want)
		}
	}
	if d := s.peek(t, key, l); d.Remaining != open {
		t.Fatalf("%d are left before a call gives anything back, want %d", d.Remaining, open)
	}
	look(open + 2*mostEnded)
	look(open + 4*mostEnded)
	settleAs(t, pending, 1) // which gives back as much besides, and its own that has come in time
	if d := s.peek(t, key, l); d.Remaining != open+6*mostEnded+1 {
		t.Fatalf("%d are left after a settlement, want %d", d.Remaining, open+6*mostEnded+1)
	}
	for left := open + 6*mostEnded + 1; left < 3*open-1; {
		left = min(3*open-1, left+2*mostEnded)
		look(left)
	}
	look(3*open - 1)
}

// settleUnasked settles a reservation without asking for the numbers of the limit.
func settleUnasked(t rapid.TB, r *core.Reservation, cost int) {
	t.Helper()
	done := make(chan error, 1)
	err := unexported.SettleBeside(r, func(err error) { done <- err }, cost)
	if err == nil {
		err = <-done
	}
	if err != nil {
		t.Fatalf("SettleBeside(%d): %v", cost, err)
	}
}

func settledInTime(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := hourly(s.algorithm), s.key()
		r := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 5, ReserveFor: time.Minute})
		s.wait(time.Duration(rapid.IntRange(0, 59).Draw(t, "seconds")) * time.Second)
		cost := rapid.IntRange(0, 10).Draw(t, "real cost")
		if rapid.Bool().Draw(t, "told what is left") {
			settleAs(t, r, cost)
		} else {
			settleUnasked(t, r, cost)
		}
		for range 2 {
			if d := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 11, ReserveFor: time.Minute}).Decisions()[0]; d.Remaining != 10-cost {
				t.Fatalf("settled at %d, %d of 10 are left", cost, d.Remaining)
			}
			s.wait(2 * time.Minute)
		}
	})
}

func settledTooLate(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := hourly(s.algorithm), s.key()
		r := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 5, ReserveFor: time.Minute})
		s.wait(time.Minute)
		if rapid.Bool().Draw(t, "others have looked") {
			if !s.reserve(t, core.Check{Key: key, Limit: l, Cost: 8, ReserveFor: time.Minute}).Allowed() {
				t.Fatal("8 of 10 are denied when 5 are back")
			}
			s.wait(time.Minute)
		}
		cost := rapid.IntRange(0, 12).Draw(t, "real cost")
		settleAs(t, r, cost)
		if d := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 11, ReserveFor: time.Minute}).Decisions()[0]; d.Remaining != max(0, 10-cost) {
			t.Fatalf("settled at %d when all was back: %d of 10 are left", cost, d.Remaining)
		}
		if err := r.Settle(t.Context(), 0); !errors.Is(err, core.ErrSettled) {
			t.Fatalf("settled again: %v", err)
		}
	})
}

func grownIsBack(t *testing.T, s *stand) {
	l, key := hourly(s.algorithm), s.key()
	check := core.Check{Key: key, Limit: l, Cost: 3, ReserveFor: time.Minute}
	left := func(want int) {
		t.Helper()
		if d := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 11, ReserveFor: time.Minute}).Decisions()[0]; d.Remaining != want {
			t.Errorf("%d are left of 10, want %d", d.Remaining, want)
		}
	}
	r := s.reserve(t, check)
	s.wait(30 * time.Second)
	growTo(t, r, 7)
	left(3)
	s.wait(30 * time.Second)
	left(6) // the estimate
	s.wait(30 * time.Second)
	left(10)
	settleAs(t, r, 5)
	left(5)

	r = s.reserve(t, core.Check{Key: key, Limit: l, Cost: 1, ReserveFor: time.Minute})
	growTo(t, r, 4)
	settleAs(t, r, 2)
	s.wait(2 * time.Minute)
	left(3)
}

func deniedReservesNothing(t *testing.T, s *stand) {
	l, full, key, other := hourly(s.algorithm), of("fixed-window", 1, 1000*time.Hour), s.key(), s.key()
	s.allow(t, other, full, 1)
	s.allow(t, key, l, 4)
	for range 3 {
		r := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 2, ReserveFor: time.Second}, core.Check{Key: other, Limit: full})
		if r.Allowed() {
			t.Fatal("passes a full limit")
		}
		settleAs(t, r, 5, 5)
		s.wait(2 * time.Second)
	}
	if d := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 11, ReserveFor: time.Second}).Decisions()[0]; d.Remaining != 6 {
		t.Errorf("%d are left of 10, want 6", d.Remaining)
	}
}

func nothingBackToAResetKey(t *testing.T, s *stand) {
	l, key := hourly(s.algorithm), s.key()
	r := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 5, ReserveFor: time.Minute})
	s.wait(time.Millisecond)
	if err := s.limiter.Reset(t.Context(), key, l); err != nil {
		t.Fatal(err)
	}
	s.wait(time.Millisecond)
	s.allow(t, key, l, 8)
	s.wait(time.Minute)
	if d := s.reserve(t, core.Check{Key: key, Limit: l, Cost: 11, ReserveFor: time.Minute}).Decisions()[0]; d.Remaining != 2 {
		t.Errorf("%d are left of 10, of which 8 were used after the reset", d.Remaining)
	}
	settleAs(t, r, 1)
	if d := s.peek(t, key, l); d.Remaining != 1 {
		t.Errorf("%d are left of 10, of which 8 were used after the reset and 1 by what came late", d.Remaining)
	}
}

func timesWithoutSense(t *testing.T, s *stand) {
	l, key := of(s.algorithm, 5, time.Hour), s.key()
	check := core.Check{Key: key, Limit: l, ReserveFor: time.Minute}
	expectInvalid := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := s.limiter.AllowAll(t.Context(), check)
	expectInvalid("a verb that nobody settles", err)
	for _, ttl := range []time.Duration{-time.Second, time.Microsecond, 25 * time.Hour} {
		wrong := check
		wrong.ReserveFor = ttl
		_, err := s.limiter.Reserve(t.Context(), wrong)
		expectInvalid(ttl.String(), err)
	}
	other := check
	other.ReserveFor = time.Second
	_, err = s.limiter.Reserve(t.Context(), check, other)
	expectInvalid("two times for one state", err)
	held := check
	held.Limit = core.Concurrent(1, time.Minute)
	_, err = s.limiter.Reserve(t.Context(), held)
	expectInvalid("places", err)
	if s.algorithm == "shaping" {
		_, err = s.limiter.Reserve(t.Context(), check)
		expectInvalid("turns", err)
	} else if twice := s.reserve(t, check, check); !twice.Allowed() || twice.Cancel(t.Context()) != nil {
		t.Error("one state twice is denied")
	}
	if d, err := s.limiter.PeekAll(t.Context(), core.Check{Key: key, Limit: l, Cost: 5}); err != nil || d[0].Remaining != 5 {
		t.Errorf("%+v, %v", d, err)
	}
}
