package exact

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core/internal/calendar"
)

// drawSpec draws a valid spec that counts in microseconds.
func drawSpec(t *rapid.T) *Spec {
	s := rapid.Custom(func(t *rapid.T) *Spec {
		p := Params{
			Algorithm: Algorithm(rapid.IntRange(1, Count).Draw(t, "algorithm")),
			Capacity:  rapid.IntRange(1, 20).Draw(t, "capacity"),
			Events:    rapid.IntRange(1, 20).Draw(t, "events"),
			Period:    time.Duration(rapid.IntRange(1, 2000).Draw(t, "period")) * time.Microsecond,
		}
		if p.Algorithm.Windowed() {
			p.Events = p.Capacity
		}
		if table[p.Algorithm].owes {
			p.Debt = max(0, rapid.IntRange(-10, 20).Draw(t, "debt"))
		}
		if p.Algorithm.Dated() {
			step := time.Second + time.Duration(rapid.IntRange(0, 2000).Draw(t, "step"))*time.Microsecond
			p = CalendarParams(p.Capacity, calendar.Period{Unit: calendar.Step, Step: step})
		}
		return NewSpec(p, nil)
	}).Filter(func(s *Spec) bool { return s.Problem() == nil && s.Tick == 1 && !s.Prepaid }).Draw(t, "spec") // no wait helps a balance
	t.Logf("%v", s)
	return s
}

// drawTrace calls step with what is observed of a state at random instants. What step does not charge
// itself is charged after it, if it fits.
func drawTrace(t *rapid.T, s *Spec, step func(st *State, u Usage, now int64, cost int) (charged bool)) {
	var st State
	now := int64(1_800_000_000_000_000) + rapid.Int64Range(0, 5000).Draw(t, "start")
	for range rapid.IntRange(1, 30).Draw(t, "steps") {
		now += rapid.Int64Range(0, s.Period.Microseconds()*2/int64(s.Events)+1).Draw(t, "later")
		cost := rapid.IntRange(1, s.Capacity).Draw(t, "cost")
		u, repair := s.Observe(&st, now, cost)
		if repair {
			t.Fatalf("%+v has to be repaired", st)
		}
		if charged := step(&st, u, now, cost); !charged && s.Fits(u, cost) {
			s.Store(&st, u, now, cost, Holder{})
		}
	}
}

func TestWhatRemainsFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		drawTrace(t, s, func(_ *State, u Usage, _ int64, cost int) bool {
			remaining := s.Remaining(u)
			if remaining < 0 || remaining > s.Capacity {
				t.Fatalf("%d of %d remain", remaining, s.Capacity)
			}
			if fits := s.Fits(u, cost); fits != (cost <= remaining) {
				t.Fatalf("%d fit: %t, and %d remain", cost, fits, remaining)
			}
			return false
		})
	})
}

func TestWaitsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		drawTrace(t, s, func(st *State, u Usage, now int64, cost int) bool {
			at := func(wait int64) Usage {
				later, _ := s.Observe(st, now+wait, cost)
				return later
			}
			remaining, next, reset := s.Left(u)
			if !s.Fits(u, cost) {
				if wait, _ := s.Wait(u, cost); !s.Fits(at(wait), cost) || s.Fits(at(wait-1), cost) {
					t.Fatalf("%d do not fit after exactly %d µs: %+v", cost, wait, u)
				}
			}
			if (next == 0) != s.Unused(u) ||
				next > 0 && (s.Remaining(at(next)) <= remaining || s.Remaining(at(next-1)) > remaining) {
				t.Fatalf("%d remain, and not more after exactly %d µs: %+v", remaining, next, u)
			}
			if reset != s.Reset(u) || (reset == 0) != s.Unused(u) || reset > 0 && (!s.Unused(at(reset)) || s.Unused(at(reset-1))) {
				t.Fatalf("it is not unused after exactly %d µs: %+v", reset, u)
			}
			return false
		})
	})
}

func TestLargerCostsWaitLonger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		drawTrace(t, s, func(st *State, u Usage, now int64, cost int) bool {
			larger := rapid.IntRange(cost, s.Capacity).Draw(t, "larger")
			longer, known := s.Longer(cost, larger)
			if s.Fits(u, cost) || !known {
				return false
			}
			other, _ := s.Observe(st, now, larger)
			of, _ := s.Wait(u, cost)
			got, _ := s.Wait(other, larger)
			if got -= of; got != longer {
				t.Fatalf("%d wait %d µs longer than %d, want %d", larger, got, cost, longer)
			}
			return false
		})
	})
}

func TestWhatIsStoredIsObserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		drawTrace(t, s, func(st *State, u Usage, now int64, cost int) bool {
			if !s.Fits(u, cost) {
				return false
			}
			charged := s.Charged(u, cost)
			s.Store(st, u, now, cost, Holder{})
			seen, _ := s.Observe(st, now, 0)
			remaining, next, reset := s.Left(seen)
			if wanted, then, end := s.Left(charged); remaining != wanted || next != then || reset != end {
				t.Fatalf("%+v is observed, want %+v", seen, charged)
			}
			return true
		})
	})
}

// A charge that is refunded at once was never there.
func TestRefundsRestore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		pasts, key := NewPasts(10, 0), Key{Subject: "key", Identity: s}
		drawTrace(t, s, func(st *State, u Usage, now int64, cost int) bool {
			if !s.Fits(u, cost) {
				return false
			}
			s.Store(st, u, now, cost, Holder{})
			charge := Charge{At: now, Used: u.Used + s.Weigh(cost), Order: pasts.Order()}
			if s.Algorithm.Noted() {
				charge.Order = pasts.Number()
				st.Note(s, u.Used, now, charge.Order)
			}
			after, changed := pasts.Settle(key, s, *st, &Correction{Events: -cost, At: charge}, now)
			if !changed {
				t.Fatalf("%d are not refunded of %+v", cost, charge)
			}
			seen, _ := s.Observe(&after, now, cost)
			if s.Remaining(seen) != s.Remaining(u) || !s.Unused(u) && s.Reset(seen) != s.Reset(u) {
				t.Fatalf("%+v is used after the refund, want %+v", seen, u)
			}
			if again, changed := pasts.Settle(key, s, after, &Correction{Events: -cost, At: charge}, now); changed && s.Unused(u) {
				t.Fatalf("%+v is left after a second refund", again)
			}
			*st = after
			return true
		})
	})
}
