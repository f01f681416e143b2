package storetest

import (
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// concurrent returns a limit of n at once.
func concurrent(n int, lease time.Duration) core.Places { return core.Concurrent(n, lease) }

// acquire asks the store for places, and returns them if the call has passed.
func (s *stand) acquire(t rapid.TB, checks ...core.Check) (decisions []core.Decision, all []*taken) {
	t.Helper()
	calls := []core.Call{{Checks: checks, Decisions: make([]core.Decision, len(checks)), Receipts: make([]core.Receipt, len(checks))}}
	if _, err := s.store.Decide(tContext(t), calls); err != nil {
		t.Fatalf("Decide(%s): %v", callString(checks), err)
	}
	decisions = calls[0].Decisions
	passed := calls[0].Passed()
	for i, c := range checks {
		if passed && c.Mode == core.Charge && decisions[i].Allowed && !decisions[i].Waived {
			all = append(all, &taken{check: c, receipt: calls[0].Receipts[i]})
		}
	}
	return decisions, all
}

// must acquires places that are free.
func (s *stand) must(t rapid.TB, checks ...core.Check) []*taken {
	t.Helper()
	decisions, all := s.acquire(t, checks...)
	if len(all) == 0 {
		t.Fatalf("%s: denied: %+v", callString(checks), decisions)
	}
	return all
}

// expectDenied wants no place to be free for a check.
func (s *stand) expectDenied(t rapid.TB, when string, check core.Check) core.Decision {
	t.Helper()
	decisions, all := s.acquire(t, check)
	if len(all) > 0 || decisions[0].Allowed {
		t.Fatalf("%s: %s passes: %+v", when, callString([]core.Check{check}), answerOf(decisions[0]))
	}
	return decisions[0]
}

// expectFree wants a number of places to be free.
func (s *stand) expectFree(t rapid.TB, when, key string, l core.Limit, want int) {
	t.Helper()
	if d := s.peek(t, key, l); d.Remaining != want {
		t.Fatalf("%s: %d of %d are free, want %d: %+v", when, d.Remaining, l.Capacity(), want, answerOf(d))
	}
}

// renew renews places, and returns which of them were lost.
func (s *stand) renew(t rapid.TB, all ...*taken) (lost []bool) {
	t.Helper()
	return s.settleTaken(t, true, all)
}

// giveBack gives places back.
func (s *stand) giveBack(t rapid.TB, all ...*taken) {
	t.Helper()
	for i, lost := range s.settleTaken(t, false, all) {
		if lost {
			t.Fatalf("places %d, which are given back, are lost", i)
		}
	}
}

func (s *stand) settleTaken(t rapid.TB, renew bool, all []*taken) (lost []bool) {
	t.Helper()
	settlements := make([]core.Settlement, len(all))
	for i, one := range all {
		settlements[i] = core.Settlement{Check: one.check, Receipt: one.receipt, Renew: renew, Lost: !renew}
	}
	if err := s.store.Settle(tContext(t), settlements); err != nil {
		t.Fatalf("Settle: %v", err)
	}
	for i := range settlements {
		lost = append(lost, settlements[i].Lost)
	}
	return lost
}
