package core

import (
	"slices"
	"testing"
)

// due is a charge of a check, and what is settled of it.
type due struct {
	check, units, cost int
	receipt            int64 // its instant
}

func openOf(l *ledger, check, units, cost int) (list []openCharge, got []due) {
	list = l.open(nil, check, units, cost)
	for _, c := range list {
		got = append(got, due{c.check, c.units, c.cost, c.receipt.At})
	}
	return list, got
}

// The oldest units are used first, and the newest given back first.
func TestCostsAreSharedAmongCharges(t *testing.T) {
	var l ledger
	l.grow(0, 3, Receipt{At: 1})
	l.grow(1, 9, Receipt{At: 2})
	l.grow(0, 2, Receipt{At: 3})
	if got := l.reserved(0, 5); got != 10 {
		t.Errorf("%d units are reserved, want 10", got)
	}
	for cost, want := range map[int][]due{
		0:  {{0, 2, 0, 3}, {0, 3, 0, 1}, {0, 5, 0, 0}},
		4:  {{0, 2, 0, 3}, {0, 3, 0, 1}, {0, 5, 4, 0}},
		6:  {{0, 2, 0, 3}, {0, 3, 1, 1}, {0, 5, 5, 0}},
		12: {{0, 2, 4, 3}, {0, 3, 3, 1}, {0, 5, 5, 0}},
	} {
		if _, got := openOf(&l, 0, 5, cost); !slices.Equal(got, want) {
			t.Errorf("a cost of %d is %v, want %v", cost, got, want)
		}
	}
	if _, got := openOf(&l, 2, 1, 1); !slices.Equal(got, []due{{2, 1, 1, 0}}) {
		t.Errorf("a check that has not grown has %v", got)
	}
}

// What is settled is not settled again, and the rest has the same shares as before.
func TestChargesAreSettledOnce(t *testing.T) {
	var l ledger
	l.grow(0, 3, Receipt{At: 1})
	list, _ := openOf(&l, 0, 5, 6)
	l.settledBut(list, []int{1})
	if l.settled || l.isDone(0) {
		t.Error("the first charge counts as settled")
	}
	list, got := openOf(&l, 0, 5, 6)
	if !slices.Equal(got, []due{{0, 5, 5, 0}}) {
		t.Errorf("open is %v", got)
	}
	l.settledBut(list, nil)
	if _, got := openOf(&l, 0, 5, 6); len(got) > 0 || !l.isDone(0) || l.isDone(1) {
		t.Errorf("open is %v", got)
	}
}

// What may be settled is not settled again, unless that is safe.
func TestOnlySafeChargesAreSettledTwice(t *testing.T) {
	for safe, open := range map[int]bool{0: true, 2: false} {
		var l ledger
		list := l.open(l.open(nil, 0, 1, 0), 1, 1, 0)
		l.perhapsSettled(list, func(check int) bool { return check == safe })
		if l.settled == open || l.isDone(0) == open || !l.isDone(1) {
			t.Errorf("settled %v, of the checks %v and %v", l.settled, l.isDone(0), l.isDone(1))
		}
	}
}

// A ledger that is split has each charge in one of the two, and what was added in the first.
func TestSplitLedgersShareTheCharges(t *testing.T) {
	var l ledger
	l.grow(1, 3, Receipt{At: 1})
	own := l.split(2, func(check int) bool { return check == 0 })
	for check, inFirst := range []bool{false, true} {
		if l.isDone(check) == inFirst || own.isDone(check) != inFirst {
			t.Errorf("check %d is in %v and %v", check, !l.isDone(check), !own.isDone(check))
		}
	}
	if l.reserved(1, 1) != 4 || own.reserved(1, 1) != 1 {
		t.Error("what was added is not in the first one alone")
	}
	settled := ledger{settled: true}
	if own := settled.split(1, func(int) bool { return true }); !own.settled {
		t.Error("what is settled is open after the split")
	}
}
