package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// prepaying is the laws of balances.
var prepaying = []law{
	{"a balance is the exact model of one", []string{"any"}, balanceIsExact},
	{"a balance admits as much as it was topped up by, at any interleaving", []string{"any"}, balanceIsSpentOnce},
	{"a balance and other limits of a call are charged together", []string{"any"}, balanceWithOthers},
	{"a balance pays when the plan of a client is used up", []string{"any"}, planThenCredits},
	{"a balance knows its latest 128 top-ups", []string{"any"}, knownTopUps},
	{"a balance is kept for years, and an empty one for 30 days", []string{"any"}, keptBalance},
	{"a reset takes all units, and charges of before get nothing back", []string{"any"}, resetBalance},
	{"balances are told apart by key and name, and shadows have none", []string{"any"}, balancesApart},
	{"top-ups without sense are errors that change nothing", []string{"any"}, topUpsWithoutSense},
}

// credits is the balance of the laws.
var credits = core.Balance().Named("credits")

func (s *stand) topUp(t rapid.TB, key string, n int, id string) (left int, repeated bool) {
	t.Helper()
	d, repeated, err := s.limiter.TopUp(tContext(t), key, credits, n, id)
	if err != nil {
		t.Fatalf("TopUp(%q, %d, %q): %v", key, n, id, err)
	}
	return d.Remaining, repeated
}

func (s *stand) expectLeft(t rapid.TB, key string, want int) {
	t.Helper()
	if d := s.peek(t, key, credits); d.Remaining != want || d.Allowed != (want > 0) || d.NextAfter != 0 || d.ResetAfter != 0 {
		t.Fatalf("the balance is %+v, want %d left", answerOf(d), want)
	}
}

// prepaid is the exact model of a balance.
type prepaid struct {
	left, spent int
	ids         []string
	resets      int
}

func (p *prepaid) topUp(n int, id string) (repeated bool) {
	if slices.Contains(p.ids, id) {
		return true
	}
	p.left += n
	p.ids = append(p.ids, id)
	p.ids = p.ids[max(0, len(p.ids)-128):]
	return false
}

// correct charges units, or gives some back if they are below 0, as far as there are any.
func (p *prepaid) correct(n int) {
	n = max(min(n, p.left), -p.spent)
	p.left, p.spent = p.left-n, p.spent+n
}

func balanceIsExact(t *testing.T, s *stand) {
	type open struct {
		*core.Reservation

		cost, resets int
	}
	rapid.Check(t, func(t *rapid.T) {
		key, model, reserved := s.key(), &prepaid{}, []open(nil)
		number := func(name string) int { return rapid.IntRange(1, 40).Draw(t, name) }
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			s.wait(time.Duration(rapid.SampledFrom([]int64{1, 1, 1000, 3_600_000_000}).Draw(t, "wait")) * time.Microsecond)
			n := number("units")
			switch step := rapid.SampledFrom([]string{"top up", "top up", "allow", "allow", "reserve", "settle", "settle", "charge", "refund", "reset"}).Draw(t, "step"); step {
			case "top up":
				id := fmt.Sprint("payment-", number("id"))
				want := model.topUp(n, id)
				if left, repeated := s.topUp(t, key, n, id); left != model.left || repeated != want {
					t.Fatalf("after %d by %s %d are left, repeated %t: want %d, %t", n, id, left, repeated, model.left, want)
				}
			case "allow":
				d, fits := s.allow(t, key, credits, n), n <= model.left
				if fits {
					model.correct(n)
				}
				if d.Allowed != fits || d.Remaining != model.left || !fits && d.RetryAfter != core.Never || fits && d.RetryAfter != 0 {
					t.Fatalf("%d of %d: %+v", n, model.left, answerOf(d))
				}
			case "reserve":
				r, err := s.limiter.Reserve(tContext(t), core.Check{Key: key, Limit: credits, Cost: n})
				if err != nil {
					t.Fatal(err)
				}
				if r.Allowed() != (n <= model.left) {
					t.Fatalf("%d of %d are reserved: %t", n, model.left, r.Allowed())
				}
				if r.Allowed() {
					model.correct(n)
					reserved = append(reserved, open{r, n, model.resets})
				}
			case "settle":
				if len(reserved) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(reserved)-1).Draw(t, "reservation")
				one := reserved[i]
				reserved = slices.Delete(reserved, i, i+1)
				cost := rapid.IntRange(0, 2*one.cost).Draw(t, "real cost")
				if err := one.Settle(tContext(t), cost); err != nil {
					t.Fatal(err)
				}
				if cost > one.cost || one.resets == model.resets {
					model.correct(cost - one.cost)
				}
			case "charge":
				model.correct(n)
				if d, err := s.limiter.Charge(tContext(t), key, credits, n); err != nil || d.Remaining != model.left {
					t.Fatalf("a charge of %d leaves %d, %v: want %d", n, d.Remaining, err, model.left)
				}
			case "refund":
				model.correct(-n)
				if d, err := s.limiter.Refund(tContext(t), key, credits, n); err != nil || d.Remaining != model.left {
					t.Fatalf("a refund of %d leaves %d, %v: want %d", n, d.Remaining, err, model.left)
				}
			case "reset":
				if rapid.IntRange(0, 3).Draw(t, "seldom") > 0 {
					continue
				}
				if err := s.limiter.Reset(tContext(t), key, credits); err != nil {
					t.Fatal(err)
				}
				model.left, model.spent = 0, 0
				model.resets++
			}
			s.expectLeft(t, key, model.left)
		}
	})
}

func balanceIsSpentOnce(t *testing.T, s *stand) {
	key := s.key()
	const goroutines, topUps, units = 8, 20, 7
	var spent, added atomic.Int64
	var wait sync.WaitGroup
	for g := range goroutines {
		wait.Go(func() {
			for i := range topUps {
				id := fmt.Sprint(i, "-", g/2) // two goroutines are told of each payment
				if _, repeated, err := s.limiter.TopUp(tContext(t), key, credits, units, id); err != nil {
					t.Error(err)
				} else if !repeated {
					added.Add(units)
				}
				for cost := 1; cost <= 3; cost++ {
					d, err := s.limiter.AllowN(tContext(t), key, credits, cost)
					if err != nil {
						t.Error(err)
					} else if d.Allowed {
						spent.Add(int64(cost))
					}
				}
			}
		})
	}
	wait.Wait()
	if want := int64(goroutines / 2 * topUps * units); added.Load() != want {
		t.Errorf("top-ups have added %d, want %d", added.Load(), want)
	}
	if d := s.peek(t, key, credits); int64(d.Remaining) != added.Load()-spent.Load() {
		t.Errorf("of %d that were paid for %d were spent, and %d are left", added.Load(), spent.Load(), d.Remaining)
	}
}

func balanceWithOthers(t *testing.T, s *stand) {
	for _, algorithm := range everyAlgorithm {
		key, l := s.key(), of(algorithm, 3, time.Hour)
		s.topUp(t, key, 10, "a")
		both := []core.Check{{Key: key, Limit: credits, Cost: 4}, {Key: key, Limit: l, Cost: 1}}
		for i, want := range []bool{true, true, false} { // the balance denies the third
			if d := s.allowAll(t, both...); allowed(d) != want || d[1].Remaining != 3-min(i+1, 2) || d[0].Remaining != 10-4*min(i+1, 2) {
				t.Errorf("%s: call %d: %+v and %+v", algorithm, i, answerOf(d[0]), answerOf(d[1]))
			}
		}
		both[0].Cost, both[1].Cost = 1, 2 // the other limit denies
		if d := s.allowAll(t, both...); allowed(d) || !d[0].Allowed {
			t.Errorf("%s: %+v and %+v", algorithm, answerOf(d[0]), answerOf(d[1]))
		}
		s.expectLeft(t, key, 2)
		if d := s.allowAll(t, core.Check{Key: key, Limit: credits, Headroom: 2}); d[0].Allowed || d[0].RetryAfter != core.Never {
			t.Errorf("a headroom of all that is left: %+v", answerOf(d[0]))
		}
		if d := s.allowAll(t, core.Check{Key: key, Limit: credits}, core.Check{Key: key, Limit: credits}, core.Check{Key: key, Limit: credits}); allowed(d) {
			t.Errorf("three of two pass")
		}
		s.expectLeft(t, key, 2)
		if n, _, err := s.limiter.AllowAtMost(tContext(t), key, credits, 5); err != nil || n != 2 {
			t.Errorf("of five %d pass, %v: want two", n, err)
		}
		s.expectLeft(t, key, 0)
	}
}

func planThenCredits(t *testing.T, s *stand) {
	for _, algorithm := range everyAlgorithm {
		key, plan := s.key(), of(algorithm, 2, time.Hour)
		s.topUp(t, key, 2, "a")
		either := core.FirstOf(core.Check{Key: key, Limit: plan}, core.Check{Key: key, Limit: credits})
		for i, want := range []int{2, 2, 1, 0, 0} {
			d := s.allowAll(t, either...)
			if _, denied := core.Denied(d); denied != (i == 4) || i < 2 != !d[0].Waived && d[0].Allowed && i < 4 {
				t.Errorf("%s: call %d: %+v and %+v", algorithm, i, answerOf(d[0]), answerOf(d[1]))
			}
			s.expectLeft(t, key, want)
		}
		s.topUp(t, key, 3, "b")
		r, err := s.limiter.Reserve(tContext(t), either...)
		if err != nil || !r.Allowed() {
			t.Fatalf("%s: %v, %v", algorithm, r, err)
		}
		s.expectLeft(t, key, 2)
		s.wait(time.Microsecond)
		if err := r.Settle(tContext(t), 0, 0); err != nil {
			t.Fatal(err)
		}
		s.expectLeft(t, key, 3)
	}
}

func knownTopUps(t *testing.T, s *stand) {
	key := s.key()
	ids := []string{"a", "aa", "1", "10", "a:b", "%d", `"'\{}[]$.*+?^-`, strings.Repeat("~", 128)}
	for len(ids) < 128 {
		ids = append(ids, fmt.Sprint("payment-", len(ids)))
	}
	for i, id := range ids {
		if left, repeated := s.topUp(t, key, 1, id); repeated || left != i+1 {
			t.Fatalf("%q: repeated %t, %d left, want %d", id, repeated, left, i+1)
		}
	}
	s.allow(t, key, credits, 128) // an empty balance knows them, too
	for _, id := range ids {
		if left, repeated := s.topUp(t, key, 1, id); !repeated || left != 0 {
			t.Fatalf("%q is not known: %d left", id, left)
		}
	}
	s.topUp(t, key, 1, "another")
	if left, repeated := s.topUp(t, key, 1, ids[1]); !repeated || left != 1 {
		t.Errorf("the 128th id is not known: %d left", left)
	}
	if _, repeated := s.topUp(t, key, 1, ids[0]); repeated {
		t.Error("more than 128 are known")
	}
}

func keptBalance(t *testing.T, s *stand) {
	const day = 24 * time.Hour
	key, other := s.key(), s.key()
	s.topUp(t, key, 5, "a")
	s.topUp(t, other, 5, "a")
	s.allow(t, other, credits, 5)
	s.wait(29 * day)
	if _, repeated := s.topUp(t, other, 5, "a"); !repeated {
		t.Error("an empty balance has forgotten a top-up of 29 days ago")
	}
	s.wait(10 * 365 * day)
	s.expectLeft(t, key, 5)
	if _, repeated := s.topUp(t, key, 5, "a"); !repeated {
		t.Error("a balance has forgotten its top-up")
	}
	s.expectLeft(t, other, 0)
}

func resetBalance(t *testing.T, s *stand) {
	key := s.key()
	s.topUp(t, key, 10, "a")
	r, err := s.limiter.Reserve(tContext(t), core.Check{Key: key, Limit: credits, Cost: 5})
	if err != nil {
		t.Fatal(err)
	}
	s.wait(time.Second)
	if err := s.limiter.Reset(tContext(t), key, credits); err != nil {
		t.Fatal(err)
	}
	s.expectLeft(t, key, 0)
	s.wait(time.Second)
	if left, repeated := s.topUp(t, key, 10, "a"); left != 0 || !repeated {
		t.Errorf("a reset has forgotten a top-up: %d left", left)
	}
	s.topUp(t, key, 8, "b")
	if _, err := s.limiter.Refund(tContext(t), key, credits, 3); err != nil {
		t.Fatal(err)
	}
	s.expectLeft(t, key, 8) // nothing was spent since
	s.allow(t, key, credits, 8)
	if err := r.Settle(tContext(t), 1); err != nil {
		t.Fatal(err)
	}
	s.expectLeft(t, key, 0)
}

func balancesApart(t *testing.T, s *stand) {
	key := s.key()
	s.topUp(t, key, 5, "a")
	for _, c := range []core.Check{
		{Key: s.key(), Limit: credits},
		{Key: key, Limit: core.Balance()},
		{Key: key, Limit: core.Balance().Named("other")},
		{Key: key, Limit: credits, Shadow: true},
	} {
		if d := s.peekAt(t, 0, c)[0]; d.Remaining != 0 || d.Allowed {
			t.Errorf("%s: %+v", callString([]core.Check{c}), answerOf(d))
		}
	}
	if d, _, err := s.limiter.TopUp(tContext(t), key, core.Balance(), 3, "a"); err != nil || d.Remaining != 3 {
		t.Errorf("the balance without a name has %d, %v", d.Remaining, err)
	}
	s.expectLeft(t, key, 5)
}

func topUpsWithoutSense(t *testing.T, s *stand) {
	key := s.key()
	s.topUp(t, key, 5, "a")
	top := func(key string, l core.Quota, n int, id string) error {
		_, _, err := s.limiter.TopUp(tContext(t), key, l, n, id)
		return err
	}
	for name, err := range map[string]error{
		"no units":       top(key, credits, 0, "b"),
		"negative":       top(key, credits, -1, "b"),
		"too many":       top(key, credits, 1_000_000_000_000_000, "b"),
		"no id":          top(key, credits, 1, ""),
		"a space":        top(key, credits, 1, "b c"),
		"an end of line": top(key, credits, 1, "b\n"),
		"no ASCII":       top(key, credits, 1, "ä"),
		"a long id":      top(key, credits, 1, strings.Repeat("b", 129)),
		"no key":         top("", credits, 1, "b"),
		"no balance":     top(key, core.Leaky(10, core.PerSecond(1)), 1, "b"),
		"no limit":       top(key, core.Quota{}, 1, "b"),
		"unlimited":      top(key, core.Unlimited, 1, "b"),
	} {
		if !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %v, want an error", name, err)
		}
	}
	if _, err := s.limiter.Reserve(tContext(t), core.Check{Key: key, Limit: credits, ReserveFor: time.Second}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a reservation for a time: %v, want an error", err)
	}
	s.expectLeft(t, key, 5)
}
