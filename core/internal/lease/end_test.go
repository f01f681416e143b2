package lease_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/lease"
)

// The grants of one key end, and no others: not those of keys that stand in the same list of the table, nor those of the key's other
// limits.
func TestOtherKeysKeepTheirGrants(t *testing.T) {
	s := &store{}
	inBubble(t, s, 0.1, func(t *testing.T, set *lease.Set) {
		const keys = 50_000 // three in each list
		other := specOf(exact.GCRA, 1000, 1000, time.Second)
		for i := range keys {
			set.Admitted(lease.Wanted{Key: strconv.Itoa(i), Spec: thousand, Units: 8})
		}
		set.Admitted(lease.Wanted{Key: "7", Spec: other, Units: 8})
		synctest.Wait()
		for i, left := range []int{keys, keys - 1, keys - 2} {
			set.End(strconv.Itoa(7+i), thousand)
			if n := set.Keys(); n != left {
				t.Fatalf("%d keys have grants after the end of %d, want %d", n, i+1, left)
			}
		}
		if spend(set, "7", thousand, 1) || !spend(set, "7", other, 1) || !spend(set, "10", thousand, 1) {
			t.Error("want the grants of one key and limit ended")
		}
	})
}

// SpendNow spends what the current grant has, of this key and this limit, and notes nothing where it cannot.
func TestSpendingAtOnceChangesNothingElse(t *testing.T) {
	s := &store{}
	inBubble(t, s, 0.1, func(t *testing.T, set *lease.Set) {
		other := specOf(exact.GCRA, 1000, 1000, time.Second)
		if _, ok := set.SpendNow("key", thousand, 1); ok {
			t.Error("spent of a key that is not granted")
		}
		heat(set, "key", thousand)
		for range 50 {
			if _, ok := set.SpendNow("key", thousand, 9); ok {
				t.Fatal("spent 9 of a grant of 8")
			}
			if _, ok := set.SpendNow("key", other, 1); ok {
				t.Fatal("spent of another limit")
			}
		}
		synctest.Wait()
		if len(s.wants) != 1 {
			t.Errorf("asked for %v: want nothing asked for where nothing can be spent at once", s.wants)
		}
		for range 8 {
			if _, ok := set.SpendNow("key", thousand, 1); !ok {
				t.Error("not spent")
			}
		}
		synctest.Wait()
		if len(s.wants) != 2 {
			t.Errorf("asked for %v: want the next grant asked for when half of it is spent", s.wants)
		}
	})
}
