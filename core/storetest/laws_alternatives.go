package storetest

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// choosing is the laws of alternatives.
var choosing = []law{
	{"the first alternative that fits is charged, and no other", nil, firstIsCharged},
	{"alternatives are charged with the rest of their call, or not at all", nil, chargedWithTheRest},
	{"a call with alternatives passes at RetryAfter and not one microsecond before", nil, honestAmongAlternatives},
	{"alternatives that are asked at once are charged as often as they fit", nil, alternativesAtOnce},
	{"what was reserved of an alternative is settled, and of no other", nil, alternativeIsSettled},
	{"an alternative without a limit, or one that looks, lets the call pass", nil, alternativeWithoutLimit},
	{"shadow alternatives are one call of their own", nil, shadowAlternatives},
	{"alternatives that make no sense are errors", nil, alternativesWithoutSense},
	{"who keeps within a guarantee is never denied, whatever others borrow", slices.Concat(meters, []string{"sliding-log"}), guaranteeAndBorrow},
	{"who keeps within guaranteed places is never denied, whatever others borrow", concurrently, guaranteedPlaces},
	{"places are taken of the first alternative that has some", concurrently, alternativePlaces},
}

// passes reports whether a call passed.
func passes(decisions []core.Decision) bool {
	return !slices.ContainsFunc(decisions, core.Decision.Denies)
}

// retryAfter returns how long a call waits that was denied.
func retryAfter(decisions []core.Decision) (longest time.Duration) {
	for _, d := range decisions {
		if !d.Waived {
			longest = max(longest, d.RetryAfter)
		}
	}
	return longest
}

func firstIsCharged(t *testing.T, s *stand) {
	l := of(s.algorithm, 2, time.Hour)
	a, b, c := s.key(), s.key(), s.key()
	checks := core.FirstOf(core.Check{Key: a, Limit: l}, core.Check{Key: b, Limit: l, Cost: 2}, core.Check{Key: c, Limit: l})
	for i, want := range []struct {
		charged int // -1: none
		left    [3]int
	}{
		{0, [3]int{1, 2, 2}},
		{0, [3]int{0, 2, 2}},
		{1, [3]int{0, 0, 2}},
		{2, [3]int{0, 0, 1}},
		{2, [3]int{0, 0, 0}},
		{-1, [3]int{0, 0, 0}},
	} {
		decisions := s.allowAll(t, checks...)
		if passes(decisions) != (want.charged >= 0) {
			t.Errorf("call %d: %+v", i, decisions)
		}
		for place, key := range []string{a, b, c} {
			d, left := decisions[place], s.peek(t, key, l).Remaining
			if left != want.left[place] || d.Remaining != left {
				t.Errorf("call %d leaves %d of alternative %d, and says %d: want %d", i, left, place, d.Remaining, want.left[place])
			}
			if counts := d.Allowed && !d.Waived; counts != (place == want.charged) {
				t.Errorf("call %d, alternative %d: %+v", i, place, answerOf(d))
			}
		}
	}
	if all := core.FirstOf(); len(all) != 0 {
		t.Errorf("FirstOf() is %v", all)
	}
	if one := s.allowAll(t, core.FirstOf(core.Check{Key: a, Limit: l})...); one[0].Waived || one[0].Allowed {
		t.Errorf("a single one: %+v", one)
	}
}

func chargedWithTheRest(t *testing.T, s *stand) {
	l, narrow := of(s.algorithm, 5, time.Hour), of(s.algorithm, 1, time.Hour)
	a, b, rest := s.key(), s.key(), s.key()
	for _, place := range []int{0, 2} { // before the rest, and behind it
		checks := core.FirstOf(core.Check{Key: a, Limit: narrow}, core.Check{Key: b, Limit: l, Cost: 2})
		checks = slices.Insert(checks, place, core.Check{Key: rest, Limit: l, Cost: 3})
		if place == 0 {
			s.allow(t, a, narrow, 1)
			checks[1].Or = false
		}
		first := s.allowAll(t, checks...)
		if want := place == 0; passes(first) != want {
			t.Fatalf("%s: %+v", callString(checks), first)
		}
	}
	if left := s.peek(t, b, l).Remaining; left != 3 {
		t.Errorf("%d of the second alternative are left, want 3: the second call was denied by the rest", left)
	}
	if left := s.peek(t, rest, l).Remaining; left != 2 {
		t.Errorf("%d are left of the rest, want 2", left)
	}
}

// drawAlternatives draws a call of one to three groups of alternatives, each with a key of its own.
func (s *stand) drawAlternatives(t *rapid.T) (checks []core.Check) {
	for range rapid.IntRange(1, 3).Draw(t, "groups") {
		var either []core.Check
		for range rapid.IntRange(1, 3).Draw(t, "alternatives") {
			l := rapid.Custom(func(t *rapid.T) core.Quota { return drawLimit(t, s.algorithm) }).
				Filter(func(l core.Quota) bool { return numbersOf(l).tick == 1 }).Draw(t, "of a microsecond")
			c := drawLeaving(t, s.key(), l)
			c.Headroom = min(c.Headroom, l.Capacity()-c.Cost)
			either = append(either, c)
		}
		checks = append(checks, core.FirstOf(either...)...)
	}
	return checks
}

func honestAmongAlternatives(t *testing.T, s *stand) {
	rapid.Check(t, func(t *rapid.T) {
		s.clock.now.Store(start.UnixMicro() + rapid.Int64Range(0, 2_000_000).Draw(t, "start"))
		checks := s.drawAlternatives(t)
		for _, c := range checks { // so that some alternatives are used up, in no order
			if rapid.Bool().Draw(t, "used") {
				s.allow(t, c.Key, c.Limit, drawCost(t, c.Limit, "cost before"))
			}
		}
		for range 8 {
			decisions := s.allowAll(t, checks...)
			if passes(decisions) {
				continue
			}
			wait := retryAfter(decisions)
			if wait == core.Never || wait <= 0 {
				t.Fatalf("%s: %+v", callString(checks), decisions)
			}
			s.wait(wait - time.Microsecond)
			if early := s.allowAll(t, checks...); passes(early) || retryAfter(early) != time.Microsecond {
				t.Fatalf("%s, a microsecond before its RetryAfter of %v: %+v", callString(checks), wait, early)
			}
			s.wait(time.Microsecond)
			if late := s.allowAll(t, checks...); !passes(late) {
				t.Fatalf("%s, at its RetryAfter of %v: %+v", callString(checks), wait, late)
			}
			return
		}
	})
}

func alternativesAtOnce(t *testing.T, s *stand) {
	const callers, calls = 8, 5
	plan, credits := of(s.algorithm, 7, time.Hour), of(s.algorithm, 12, time.Hour)
	a, b, all := s.key(), s.key(), s.key()
	checks := append(core.FirstOf(core.Check{Key: a, Limit: plan}, core.Check{Key: b, Limit: credits}),
		core.Check{Key: all, Limit: of(s.algorithm, callers*calls, time.Hour)})
	var charged [2]atomic.Int64
	var callersDone sync.WaitGroup
	for range callers {
		callersDone.Go(func() {
			for range calls {
				decisions, err := s.limiter.AllowAll(t.Context(), checks...)
				if err != nil {
					t.Error(err)
					return
				}
				for i := range charged {
					if passes(decisions) && !decisions[i].Waived {
						charged[i].Add(1)
					}
				}
			}
		})
	}
	callersDone.Wait()
	if charged[0].Load() != 7 || charged[1].Load() > 12 {
		t.Errorf("%d and %d are charged, want 7 and 12", charged[0].Load(), charged[1].Load())
	}
	for i, left := range []int{s.peek(t, a, plan).Remaining, s.peek(t, b, credits).Remaining} {
		if want := []int{7, 12}[i] - int(charged[i].Load()); left != want {
			t.Errorf("%d are left of alternative %d, want %d", left, i, want)
		}
	}
	if left, want := s.peek(t, all, checks[2].Limit).Remaining, callers*calls-int(charged[0].Load()+charged[1].Load()); left != want {
		t.Errorf("%d are left of the rest, want %d", left, want)
	}
}

func alternativeIsSettled(t *testing.T, s *stand) {
	l := of(s.algorithm, 10, time.Hour)
	a, b, c := s.key(), s.key(), s.key()
	s.allow(t, a, l, 8)
	r := s.reserve(t, core.FirstOf(core.Check{Key: a, Limit: l, Cost: 4}, core.Check{Key: b, Limit: l, Cost: 4}, core.Check{Key: c, Limit: l, Cost: 4})...)
	if !r.Allowed() {
		t.Fatalf("denied: %+v", r.Decisions())
	}
	s.wait(time.Microsecond)
	if err := r.Settle(t.Context(), 9, 1, 9); err != nil {
		t.Fatal(err)
	}
	left := []int{s.peek(t, a, l).Remaining, s.peek(t, b, l).Remaining, s.peek(t, c, l).Remaining}
	want := []int{2, 9, 10}
	if !slices.Equal(left, want) {
		t.Errorf("%v are left, want %v", left, want)
	}
}

func alternativeWithoutLimit(t *testing.T, s *stand) {
	l, one := of(s.algorithm, 3, time.Hour), of(s.algorithm, 1, time.Hour)
	for name, free := range map[string]func(key string) core.Check{
		"unlimited": func(key string) core.Check { return core.Check{Key: key, Limit: core.Unlimited} },
		"a look":    func(key string) core.Check { return core.Check{Key: key, Limit: l, Mode: core.Look} },
	} {
		a, b, rest := s.key(), s.key(), s.key()
		checks := append(core.FirstOf(core.Check{Key: a, Limit: one}, free(s.key()), core.Check{Key: b, Limit: l}), core.Check{Key: rest, Limit: l})
		for i, want := range []int{0, 1, 1, 1} {
			d := s.allowAll(t, checks...)
			counts := slices.IndexFunc(d[:3], func(d core.Decision) bool { return !d.Waived })
			if passes(d) != (i < 3) || counts != want {
				t.Errorf("%s, call %d: %+v", name, i, d)
			}
		}
		if left := [2]int{s.peek(t, b, l).Remaining, s.peek(t, rest, l).Remaining}; left != [2]int{3, 0} {
			t.Errorf("%s: %v are left, want 3 of what stands behind it, and nothing of the rest", name, left)
		}
		first := core.FirstOf(free(s.key()), core.Check{Key: b, Limit: l})
		if d := s.allowAll(t, first...); !passes(d) || d[0].Waived || !d[1].Waived || s.peek(t, b, l).Remaining != 3 {
			t.Errorf("%s before another one: %+v", name, d)
		}
	}
}

func shadowAlternatives(t *testing.T, s *stand) {
	l, one := of(s.algorithm, 3, time.Hour), of(s.algorithm, 1, time.Hour)
	a, b, rest := s.key(), s.key(), s.key()
	checks := append([]core.Check{{Key: rest, Limit: l}},
		core.FirstOf(core.Check{Key: a, Limit: one, Shadow: true}, core.Check{Key: b, Limit: l, Shadow: true})...)
	for i, left := range [][3]int{{2, 0, 3}, {1, 0, 2}, {0, 0, 1}, {0, 0, 0}, {0, 0, 0}} {
		d := s.allowAll(t, checks...)
		if d[0].Remaining != left[0] || d[1].Remaining != left[1] || d[2].Remaining != left[2] || passes(d[1:]) != (i < 4) {
			t.Errorf("call %d: %+v, want %v left", i, d, left)
		}
	}
	if left := [2]int{s.peek(t, a, one).Remaining, s.peek(t, b, l).Remaining}; left != [2]int{1, 3} {
		t.Errorf("%v are left where no shadow counts", left)
	}
}

func alternativesWithoutSense(t *testing.T, s *stand) {
	l, key, other := of(s.algorithm, 5, time.Hour), s.key(), s.key()
	plain, second := core.Check{Key: key, Limit: l}, core.Check{Key: other, Limit: l, Or: true}
	for name, checks := range map[string][]core.Check{
		"nothing before it":         {second},
		"a shadow, and none before": {plain, {Key: other, Limit: l, Or: true, Shadow: true}},
		"a shadow before it":        {{Key: key, Limit: l, Shadow: true}, second},
		"one state twice":           core.FirstOf(plain, plain),
		"one state beside them":     {plain, {Key: s.key(), Limit: l}, {Key: key, Limit: l, Or: true}},
	} {
		if _, err := s.limiter.AllowAll(t.Context(), checks...); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if left := s.peek(t, key, l).Remaining; left != 5 {
		t.Errorf("%d are left after nothing but errors", left)
	}
}

func alternativePlaces(t *testing.T, s *stand) {
	provisioned, onDemand := concurrent(1, time.Minute), concurrent(2, time.Minute)
	a, b := s.key(), s.key()
	checks := core.FirstOf(core.Check{Key: a, Limit: provisioned, Cost: 1}, core.Check{Key: b, Limit: onDemand, Cost: 1})
	first := s.must(t, checks...)
	s.must(t, checks...)
	third := s.must(t, checks...)
	s.expectFree(t, "3 taken", a, provisioned, 0)
	s.expectFree(t, "3 taken", b, onDemand, 0)
	if d, all := s.acquire(t, checks...); passes(d) || len(all) > 0 {
		t.Errorf("a fourth of 3 places: %+v", d)
	}
	if len(first) != 1 || first[0].check.Key != a || len(third) != 1 || third[0].check.Key != b {
		t.Fatalf("%v and %v were taken", first, third)
	}
	s.giveBack(t, first...)
	s.expectFree(t, "the first given back", b, onDemand, 0)
	if again := s.must(t, checks...); again[0].check.Key != a {
		t.Errorf("%q was taken, want %q, which is free", again[0].check.Key, a)
	}
}
