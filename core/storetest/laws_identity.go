package storetest

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

func clockStepsBack(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm), s.key()
		s.use(t, key, l)
		charged := s.allow(t, key, l, drawCost(t, l, "cost"))
		before := s.allow(t, key, l, 0)
		recovery := s.recovery(t, l)
		step := time.Duration(rapid.Int64Range(1, (10*time.Minute).Microseconds()).Draw(t, "step")) * time.Microsecond
		if rapid.Bool().Draw(t, "small") {
			step = min(step, max(time.Microsecond, (charged.ResetAfter/3).Truncate(time.Microsecond)))
		}
		s.wait(-step)
		if d := s.allow(t, key, l, 0); d.Remaining > before.Remaining {
			t.Fatalf("stepping back %v has minted: %d remained, now %d", step, before.Remaining, d.Remaining)
		}
		d := s.allow(t, key, l, l.Capacity())
		if d.RetryAfter > recovery {
			t.Fatalf("after stepping back %v: locked out for %v, a full recovery is %v", step, d.RetryAfter, recovery)
		}
		s.wait(recovery)
		if d := s.allow(t, key, l, l.Capacity()); d.RetryAfter > recovery {
			t.Fatalf("a recovery after stepping back %v: %+v", step, answerOf(d))
		}
		s.wait(recovery)
		if d := s.peek(t, key, l); !d.Allowed && d.RetryAfter > recovery {
			t.Fatalf("two recoveries after stepping back %v: %+v", step, answerOf(d))
		}
	})
}

// backIntoTheWindowBefore has the clock step back over the beginning of a window, as after a failover to a slower one.
// All that has been counted in both windows was used by then, so that none of it weighs less than before.
func backIntoTheWindowBefore(t *testing.T, s *stand) {
	for _, test := range []struct {
		window, filled, crossed, back time.Duration
	}{
		{time.Hour, 30 * time.Minute, 66 * time.Minute, 10 * time.Minute},
		{time.Minute, 30 * time.Second, 66 * time.Second, 10 * time.Second},
		{time.Minute, 30 * time.Second, 66 * time.Second, 3 * time.Minute}, // behind both windows
	} {
		for _, l := range []core.Quota{core.SlidingWindow(1000, test.window), core.SlidingWindow(1000, test.window).Named("plan")} {
			key, begin := s.key(), start.Truncate(test.window)
			s.clock.now.Store(begin.Add(test.filled).UnixMicro())
			s.allow(t, key, l, 1000)
			s.clock.now.Store(begin.Add(test.crossed).UnixMicro())
			if d := s.allow(t, key, l, 100); !d.Allowed || d.Remaining != 0 {
				t.Fatalf("%s: 100 more into the next window: %+v", l, answerOf(d))
			}
			s.wait(-test.back)
			for range 2 {
				if d := s.allow(t, key, l, 1); d.Allowed || d.Remaining != 0 || d.RetryAfter > 2*test.window {
					t.Errorf("%s: %v back: %+v, want none to remain", l, test.back, answerOf(d))
				}
			}
			s.wait(2 * test.window)
			if d := s.allow(t, key, l, 1000); !d.Allowed {
				t.Errorf("%s: two windows later: %+v", l, answerOf(d))
			}
		}
	}
}

// backOverTheBeginning has a window be used up just after its beginning, and the clock step back over that, as after a failover to a slower
// one. Nothing more passes in it, whatever is denied meanwhile.
func backOverTheBeginning(t *testing.T, s *stand) {
	begin := time.Date(2027, time.December, 1, 0, 0, 0, 0, time.UTC)
	for _, l := range []core.Quota{
		core.Calendar(10, core.Monthly("UTC")), core.Calendar(10, core.Daily("UTC")).Named("plan"),
		core.Calendar(10, core.Every(time.Hour)), core.Calendar(10, core.Daily("UTC")).WithDebt(10),
	} {
		key := s.key()
		s.clock.now.Store(begin.Add(5 * time.Second).UnixMicro())
		if d := s.allow(t, key, l, 10); !d.Allowed {
			t.Fatalf("%s: %+v", l, answerOf(d))
		}
		until := s.allow(t, key, l, 1).RetryAfter
		s.wait(-10 * time.Second)
		for step := range 3 {
			want := until + time.Duration(10-3*step)*time.Second
			if d := s.allow(t, key, l, 1); d.Allowed || d.RetryAfter != want {
				t.Errorf("%s: before its beginning: %+v, want to be denied for %v", l, answerOf(d), want)
			}
			s.wait(3 * time.Second)
		}
		if d := s.allow(t, key, l, 1); d.Allowed {
			t.Errorf("%s: in the same window again: %+v", l, answerOf(d))
		}
		s.wait(until + time.Second)
		if d := s.allow(t, key, l, 10); !d.Allowed {
			t.Errorf("%s: in the next window: %+v", l, answerOf(d))
		}
	}
}

// recovery returns how long a limit takes at most until it is as good as new.
func (s *stand) recovery(t *rapid.T, l core.Limit) time.Duration {
	if s.algorithm == "sliding-window" {
		return 2 * l.Rate().Period
	}
	if s.algorithm == "calendar" { // another window may be longer than the rest of this one
		start, end := numbersOf(l).calendar(s.clock.now.Load())
		return time.Duration(end-start)*time.Microsecond + 4*24*time.Hour
	}
	d, err := s.limiter.Charge(tContext(t), s.key(), l.(core.Quota), math.MaxInt)
	if err != nil {
		t.Fatal(err)
	}
	return d.ResetAfter
}

func keysAreApart(t *testing.T, s *stand) {
	l := of(s.algorithm, 1, time.Hour)
	base := s.key()
	for _, key := range []string{base, base + " ", base + "\x00", base + ":", base + "}", "{" + base + "}", base + "%", base + "%3A", base + "é", base + "\xff", base + "=shadow", "#" + base} {
		if d := s.allow(t, key, l, 1); !d.Allowed {
			t.Errorf("the key %q has been charged by another", key)
		}
	}
}

func otherNumbers(t *testing.T, s *stand) {
	key := s.key()
	for _, l := range []core.Limit{
		newLimit(s.algorithm, 1, core.PerHour(1)),
		newLimit(s.algorithm, 2, core.PerHour(1)),
		newLimit(s.algorithm, 1, core.PerMinute(1)),
		newLimit(s.algorithm, 11, core.PerHour(1)),
	} {
		if d := s.allow(t, key, l, l.Capacity()); !d.Allowed {
			t.Errorf("%s has been charged by another: %+v", l, answerOf(d))
		}
	}
	l := newLimit(s.algorithm, 1, core.PerHour(1))
	if d := s.allow(t, key, newLimit(s.algorithm, 1, core.Per(1, 60*time.Minute)), 1); d.Allowed {
		t.Errorf("%s is not one limit with itself", l)
	}
}

func otherNames(t *testing.T, s *stand) {
	key := s.key()
	l := of(s.algorithm, 1, time.Hour)
	limits := []core.Limit{l, l.Named("a"), l.Named("b"), l.Named("A"), l.Named(l.Name()), l.Named("a:shadow")}
	for _, algorithm := range everyAlgorithm {
		if algorithm != s.algorithm {
			limits = append(limits, of(algorithm, 1, time.Hour), of(algorithm, 1, time.Hour).Named("a"))
		}
	}
	for _, l := range limits {
		if d := s.allow(t, key, l, 1); !d.Allowed {
			t.Errorf("%s has been charged by another: %+v", l, answerOf(d))
		}
	}
}

func namedKeepsUsed(t *testing.T, s *stand) {
	key := s.key()
	plan := func(n int) core.Quota { return of(s.algorithm, n, time.Hour).Named("plan") }
	s.allow(t, key, plan(10), 7)
	if d := s.allow(t, key, plan(20), 0); d.Remaining != 13 {
		t.Errorf("7 of 10 used, and of 20 %d remain, want 13", d.Remaining)
	}
	if d := s.allow(t, key, plan(20), 13); !d.Allowed || d.Remaining != 0 {
		t.Errorf("13 more of 20: %+v", answerOf(d))
	}
	if d := s.allow(t, key, plan(20), 1); d.Allowed {
		t.Errorf("21 of 20: %+v", answerOf(d))
	}
	if d := s.allow(t, key, plan(20), 20); !s.passesAt(t, key, plan(20), 20, d.RetryAfter) {
		t.Errorf("denied at its RetryAfter of %v after the change", d.RetryAfter)
	}
}

func (s *stand) passesAt(t *testing.T, key string, l core.Quota, n int, wait time.Duration) bool {
	early := s.peekAt(t, wait-tick(l), core.Check{Key: key, Limit: l, Cost: n})[0]
	return !early.Allowed && s.peekAt(t, wait, core.Check{Key: key, Limit: l, Cost: n})[0].Allowed
}

func namedIsClamped(t *testing.T, s *stand) {
	key := s.key()
	plan := func(n int) core.Quota { return of(s.algorithm, n, time.Hour).Named("plan") }
	s.allow(t, key, plan(20), 15)
	d := s.allow(t, key, plan(10), 1) // writes the clamped state
	if d.Allowed || d.Remaining != 0 {
		t.Fatalf("15 of 20 used, and of 10: %+v", answerOf(d))
	}
	if !s.passesAt(t, key, plan(10), 1, d.RetryAfter) {
		t.Errorf("denied at its RetryAfter of %v after the change", d.RetryAfter)
	}
	if d := s.allow(t, key, plan(20), 0); d.Remaining != 10 {
		t.Errorf("back at 20, %d remain, want 10", d.Remaining)
	}
}

func previousIsClamped(t *testing.T, s *stand) {
	key := s.key()
	plan := func(n int) core.Quota { return of(s.algorithm, n, time.Hour).Named("plan") }
	s.allow(t, key, plan(10), 10)
	s.wait(66 * time.Minute) // a tenth of the next window: nine tenths of the ten count
	if d := s.allow(t, key, plan(4), 4); d.Allowed || d.Remaining != 0 {
		t.Fatalf("ten in the previous window, and of 4: %+v", answerOf(d))
	}
	if d := s.allow(t, key, plan(10), 0); d.Remaining != 6 { // 10 − 0.9·4 = 6.4
		t.Errorf("back at 10, %d remain, want 6", d.Remaining)
	}
}

// renumberedKeepsUsed changes the capacity of a limit that has been used at random. The used units stay as they were, to
// the last fraction; so the units left differ by as much as the capacities.
func renumberedKeepsUsed(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		l, key := drawLimit(t, s.algorithm).Named("plan"), s.key()
		capacity := max(1, rapid.SampledFrom([]int{1, l.Capacity() / 300, l.Capacity() / 3, l.Capacity() - 1}).Draw(t, "smaller capacity"))
		smaller := resized(s.algorithm, l, capacity).Named("plan")
		if smaller.Validate() != nil || tick(smaller) != tick(l) {
			return
		}
		s.use(t, key, l)
		before := s.peek(t, key, l)
		want := max(0, before.Remaining-(l.Capacity()-capacity))
		d := s.allow(t, key, smaller, want+1)
		if d.Allowed || d.Remaining != want {
			t.Fatalf("%d of %s remain, and then under %s: %+v, want %d", before.Remaining, l, smaller, answerOf(d), want)
		}
		// A denial has written the clamped state.
		back := s.allow(t, key, l, 0)
		if want := max(before.Remaining, l.Capacity()-capacity); back.Remaining != want {
			t.Fatalf("%d of %s remain after it was %s, want %d", back.Remaining, l, smaller, want)
		}
	})
}

// exceptSliding are the algorithms with an exact RetryAfter after their window has become longer.
var exceptSliding = except("sliding-window")

func longerTellsWhen(t *testing.T, s *stand) {
	short, long := of(s.algorithm, 3, 60*time.Millisecond).Named("plan"), of(s.algorithm, 3, 24*time.Hour).Named("plan")
	for _, cost := range []int{1, 2, 3} {
		key := s.key()
		for range 3 {
			s.allow(t, key, short, 1)
			s.wait(time.Millisecond)
		}
		d := s.allow(t, key, long, cost)
		for d.Allowed { // the drained units
			d = s.allow(t, key, long, cost)
		}
		if !s.passesAt(t, key, long, cost, d.RetryAfter) {
			t.Errorf("%d of 3, all used: %+v, want them to pass then and not a tick before", cost, answerOf(d))
		}
	}
}

func previousFills(t *testing.T, s *stand) {
	key := s.key()
	plan := func(n int) core.Quota { return core.SlidingWindow(n, 3*time.Hour).Named("plan") }
	s.clock.now.Store(start.Truncate(3 * time.Hour).UnixMicro())
	s.allow(t, key, plan(9_001), 7_099)
	s.wait(3*time.Hour + 144*time.Minute) // a fifth of them counts: 1,419.8
	for range 6 {
		if d := s.allow(t, key, plan(29), 1); d.Allowed || d.Remaining != 0 {
			t.Fatalf("1,419.8 used, and of 29: %+v", answerOf(d))
		}
	}
	for _, cost := range []int{1, 29} {
		if d := s.allow(t, key, plan(29), cost); !s.passesAt(t, key, plan(29), cost, d.RetryAfter) {
			t.Errorf("%d of 29 do not pass at their RetryAfter of %v, or pass before", cost, d.RetryAfter)
		}
	}
}

// shorterKeepsWindow gives a named calendar limit a shorter period for a while, as a wrong file of policies would. Used
// units count until their own window ends, under either period. No check moves that end, be it denied or admitted.
func shorterKeepsWindow(t *testing.T, s *stand) {
	month, day, hour := core.Monthly("UTC"), core.Daily("UTC"), core.Every(time.Hour)
	for _, test := range []struct {
		long, short core.Period
		at, ends    time.Time
	}{
		{month, hour, time.Date(2026, time.November, 10, 12, 20, 0, 0, time.UTC), time.Date(2026, time.December, 1, 0, 0, 0, 0, time.UTC)},
		{month, day, time.Date(2026, time.November, 10, 12, 20, 0, 0, time.UTC), time.Date(2026, time.December, 1, 0, 0, 0, 0, time.UTC)},
		{month, day, time.Date(2026, time.November, 1, 0, 20, 0, 0, time.UTC), time.Date(2026, time.December, 1, 0, 0, 0, 0, time.UTC)},
		{day, hour, time.Date(2026, time.November, 10, 0, 20, 0, 0, time.UTC), time.Date(2026, time.November, 11, 0, 0, 0, 0, time.UTC)},
		{core.Yearly("UTC", time.January), core.Every(time.Second), time.Date(2026, time.May, 10, 0, 20, 0, 0, time.UTC), time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC)},
		{core.Monthly("Europe/Berlin"), day, time.Date(2026, time.November, 10, 12, 20, 0, 0, time.UTC), time.Date(2026, time.November, 30, 23, 0, 0, 0, time.UTC)},
	} {
		plan := func(p core.Period) core.Quota { return core.Calendar(10, p).Named("plan") }
		key := s.key()
		full := func(p core.Period) {
			t.Helper()
			left := since(s.clock.now.Load(), test.ends.UnixMicro())
			if d := s.allow(t, key, plan(p), 1); d.Allowed || d.Remaining != 0 || d.RetryAfter != left || d.ResetAfter != left {
				t.Errorf("%s was used up, and at %s under %s: %+v, want a wait of %v", test.long, time.UnixMicro(s.clock.now.Load()).UTC(), p, answerOf(d), left)
			}
		}
		s.clock.now.Store(test.at.UnixMicro())
		s.allow(t, key, plan(test.long), 7)
		if d := s.allow(t, key, plan(test.short), 3); !d.Allowed || d.Remaining != 0 {
			t.Fatalf("7 of 10 are used by the %s, and under %s: %+v", test.long, test.short, answerOf(d))
		}
		for _, later := range []time.Duration{0, time.Minute, 5 * time.Hour, 15 * time.Hour} {
			s.wait(later)
			full(test.short)
			full(test.long)
		}
		s.clock.now.Store(test.ends.UnixMicro() - 1)
		full(test.long)
		full(test.short)
		s.wait(time.Microsecond)
		if d := s.allow(t, key, plan(test.short), 10); !d.Allowed {
			t.Errorf("%s was used up, and when it has ended: %+v", test.long, answerOf(d))
		}
	}
}

// countsUntilLaterEnd counts a day in UTC, and then looks by the clocks of a zone in which the same day ends two hours later.
func countsUntilLaterEnd(t *testing.T, s *stand) {
	key := s.key()
	s.allow(t, key, core.Calendar(10, core.Daily("UTC")).Named("plan"), 10) // at noon
	l := core.Calendar(10, core.Daily("America/Noronha")).Named("plan")
	if d := s.peek(t, key, l); d.Allowed || d.RetryAfter != 14*time.Hour {
		t.Errorf("10 in a day that ends two hours later here: %+v, want a wait of 14 h", answerOf(d))
	}
	s.wait(13 * time.Hour)
	if d := s.peek(t, key, l); d.Allowed || d.RetryAfter != time.Hour {
		t.Errorf("an hour after that day has ended in UTC: %+v", answerOf(d))
	}
	s.wait(time.Hour)
	if d := s.peek(t, key, l); d.Remaining != 10 {
		t.Errorf("when it has ended here, too: %+v", answerOf(d))
	}
}
