package lease_test

import (
	"testing"

	"github.com/weir-go/ratelimit/core/internal/lease"
)

// A call is spent as a whole, or nothing of it: what only the store can answer is asked of it.
func TestCallsAreSpentAsAWhole(t *testing.T) {
	s := &store{}
	inBubble(t, s, 0.1, func(t *testing.T, set *lease.Set) {
		heat(set, "key", thousand)
		heat(set, "other", thousand)
		told := 0
		tell := func(int, lease.Spent) { told++ }
		one, other := lease.Wanted{Key: "key", Spec: thousand, Units: 1}, lease.Wanted{Key: "other", Spec: thousand, Units: 1}
		if !set.SpendAll([]lease.Wanted{one, other}, tell) || told != 2 {
			t.Errorf("two checks are not spent: told of %d", told)
		}
		if other.StoreOnly = true; set.SpendAll([]lease.Wanted{one, other}, tell) || told != 2 {
			t.Error("a check is spent that only the store can answer")
		}
		if set.SpendAll([]lease.Wanted{one, {Key: "cold", Spec: thousand, Units: 1}}, tell) {
			t.Error("a call is spent of which a key has no grant")
		}
	})
	spent := 0
	for _, e := range s.ended {
		spent += e.Spent
	}
	if spent != 2 {
		t.Errorf("%d units are spent, want the 2 of the call that passed", spent)
	}
}
