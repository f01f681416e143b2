package grant

import "testing"

// grantOf returns a grant of so many units.
func grantOf(units int) *Grant {
	g := &Grant{asked: Asked{Units: units}}
	g.left.Store(int64(units))
	return g
}

// Units that cannot be taken stay where they are.
func TestUnitsThatCannotBeTakenStay(t *testing.T) {
	g := grantOf(8)
	for range 3 {
		if left := g.take(9); left >= 0 {
			t.Fatalf("9 of 8 were taken, and %d are left", left)
		}
	}
	if left := g.take(8); left != 0 {
		t.Errorf("%d are left of 8 after 8", left)
	}
	if spent := g.spent(); spent != 8 {
		t.Errorf("%d of 8 are spent", spent)
	}
}

// A grant that has ended has nothing to spend and nothing to return, whatever is put back into it afterwards.
func TestEndedGrantsAreNotSpent(t *testing.T) {
	g := grantOf(8)
	left := g.take(3)
	s := Spent{g, left, 3}
	if unspent := g.end(); unspent != 5 {
		t.Errorf("%d of 8 are unspent after 3", unspent)
	}
	s.Undo()
	for range 100 {
		if left := g.take(1); left >= 0 {
			t.Fatalf("spent of a grant that has ended: %d are left", left)
		}
	}
	if unspent := g.end(); unspent != 0 {
		t.Errorf("%d are unspent of a grant that has ended", unspent)
	}
}

// A grant that ends while somebody takes too much of it returns nothing, and not less than that.
func TestGrantsEndOverdrawn(t *testing.T) {
	g := grantOf(2)
	g.left.Add(-5) // and is about to put them back
	if unspent := g.end(); unspent != 0 {
		t.Errorf("%d are unspent of an overdrawn grant", unspent)
	}
}

// What is put back may be spent again.
func TestUnitsThatAreUndoneAreSpentAgain(t *testing.T) {
	g := grantOf(2)
	Spent{g, g.take(2), 2}.Undo()
	if left := g.take(2); left != 0 {
		t.Errorf("%d are left: want 2 taken again", left)
	}
}
