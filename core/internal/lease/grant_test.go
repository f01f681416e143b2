package lease

import (
	"context"
	"testing"
)

// grantOf returns a grant of so many units, and a function that returns how many have been given back to the store of
// what came back too late.
func grantOf(units int) (g *Grant, late func() int) {
	total := 0
	set := NewSet(Config{Return: func(_ context.Context, list []Unspent) error {
		for i := range list {
			total += list[i].Units - list[i].Spent
		}
		return nil
	}})
	g = &Grant{asked: Asked{Units: units}, of: &entry{set: set}}
	g.left.Store(int64(units))
	return g, func() int {
		set.working.Wait()
		return total
	}
}

// Units that cannot be taken stay where they are.
func TestUnitsThatCannotBeTakenStay(t *testing.T) {
	g, _ := grantOf(8)
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

// A grant that has ended has nothing to spend. What is put back into it afterwards is given back to the store.
func TestEndedGrantsAreNotSpent(t *testing.T) {
	g, late := grantOf(8)
	left := g.take(3)
	s := Spent{grant: g, left: left, units: 3}
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
	if n := late(); n != 3 {
		t.Errorf("%d units were given back that were put back too late, want 3", n)
	}
}

// A grant that ends while somebody takes too much of it gives back what it had once they have put that back.
func TestGrantsEndOverdrawn(t *testing.T) {
	g, late := grantOf(2)
	g.left.Add(-5) // and is about to put them back
	g.left.Add(-4) // and so is somebody else
	if unspent := g.end(); unspent != 0 {
		t.Errorf("%d are unspent of an overdrawn grant", unspent)
	}
	g.put(5)
	g.put(4)
	if n := late(); n != 2 {
		t.Errorf("%d units were given back, want the 2 that nobody has spent", n)
	}
}

// What was left of a grant and spent together with units of the next one is given back to the store.
func TestUnitsOfTwoGrantsAreUndone(t *testing.T) {
	former, late := grantOf(8)
	former.end()
	g, _ := grantOf(8)
	s := Spent{grant: g, left: g.take(3), units: 3, former: former, rest: 2}
	s.Undo()
	if left := g.left.Load(); left != 8 {
		t.Errorf("%d of 8 are left of the next grant", left)
	}
	if n := late(); n != 2 {
		t.Errorf("%d units were given back of the grant that had ended, want 2", n)
	}
}

// What is put back may be spent again.
func TestUnitsThatAreUndoneAreSpentAgain(t *testing.T) {
	g, _ := grantOf(2)
	Spent{grant: g, left: g.take(2), units: 2}.Undo()
	if left := g.take(2); left != 0 {
		t.Errorf("%d are left: want 2 taken again", left)
	}
}
