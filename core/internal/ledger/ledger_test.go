package ledger_test

import (
	"slices"
	"testing"

	"github.com/weir-go/ratelimit/core/internal/ledger"
)

// due is a charge of a check, and what is settled of it.
type due struct {
	check, units, cost int
	receipt            string
}

func open(l *ledger.Ledger[string], check, units, cost int) (list []ledger.Charge[string], got []due) {
	list = l.Open(nil, check, units, cost)
	for _, c := range list {
		got = append(got, due{c.Check, c.Units, c.Cost, c.Receipt})
	}
	return list, got
}

// The oldest units are used first, and the newest given back first.
func TestCostsAreSharedAmongCharges(t *testing.T) {
	var l ledger.Ledger[string]
	l.Grow(0, 3, "a")
	l.Grow(1, 9, "b")
	l.Grow(0, 2, "c")
	if got := l.Reserved(0, 5); got != 10 {
		t.Errorf("%d units are reserved, want 10", got)
	}
	for cost, want := range map[int][]due{
		0:  {{0, 2, 0, "c"}, {0, 3, 0, "a"}, {0, 5, 0, ""}},
		4:  {{0, 2, 0, "c"}, {0, 3, 0, "a"}, {0, 5, 4, ""}},
		6:  {{0, 2, 0, "c"}, {0, 3, 1, "a"}, {0, 5, 5, ""}},
		12: {{0, 2, 4, "c"}, {0, 3, 3, "a"}, {0, 5, 5, ""}},
	} {
		if _, got := open(&l, 0, 5, cost); !slices.Equal(got, want) {
			t.Errorf("a cost of %d is %v, want %v", cost, got, want)
		}
	}
	if _, got := open(&l, 2, 1, 1); !slices.Equal(got, []due{{2, 1, 1, ""}}) {
		t.Errorf("a check that has not grown has %v", got)
	}
}

// What is settled is not settled again, and the rest has the same shares as before.
func TestChargesAreSettledOnce(t *testing.T) {
	var l ledger.Ledger[string]
	l.Grow(0, 3, "a")
	list, _ := open(&l, 0, 5, 6)
	l.SettledBut(list, []int{1})
	if l.Settled || l.IsDone(0) {
		t.Error("the first charge counts as settled")
	}
	list, got := open(&l, 0, 5, 6)
	if !slices.Equal(got, []due{{0, 5, 5, ""}}) {
		t.Errorf("open is %v", got)
	}
	l.SettledBut(list, nil)
	if _, got := open(&l, 0, 5, 6); len(got) > 0 || !l.IsDone(0) || l.IsDone(1) {
		t.Errorf("open is %v", got)
	}
}

// What may be settled is not settled again, unless that is safe.
func TestOnlySafeChargesAreSettledTwice(t *testing.T) {
	for safe, open := range map[int]bool{0: true, 2: false} {
		var l ledger.Ledger[string]
		list := l.Open(l.Open(nil, 0, 1, 0), 1, 1, 0)
		l.PerhapsSettled(list, func(check int) bool { return check == safe })
		if l.Settled == open || l.IsDone(0) == open || !l.IsDone(1) {
			t.Errorf("settled %v, of the checks %v and %v", l.Settled, l.IsDone(0), l.IsDone(1))
		}
	}
}

// A ledger that is split has each charge in one of the two, and what was added in the first.
func TestSplitLedgersShareTheCharges(t *testing.T) {
	var l ledger.Ledger[string]
	l.Grow(1, 3, "a")
	own := l.Split(2, func(check int) bool { return check == 0 })
	for check, inFirst := range []bool{false, true} {
		if l.IsDone(check) == inFirst || own.IsDone(check) != inFirst {
			t.Errorf("check %d is in %v and %v", check, !l.IsDone(check), !own.IsDone(check))
		}
	}
	if l.Reserved(1, 1) != 4 || own.Reserved(1, 1) != 1 {
		t.Error("what was added is not in the first one alone")
	}
	settled := ledger.Ledger[string]{Settled: true}
	if own := settled.Split(1, func(int) bool { return true }); !own.Settled {
		t.Error("what is settled is open after the split")
	}
}
