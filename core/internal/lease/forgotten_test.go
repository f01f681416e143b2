//go:build !race

// So many keys are asked for one after the other: make test runs it without the race detector, which takes ten times as long.

package lease_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/core/internal/lease"
)

// Keys that nobody asks for any more are forgotten, wherever they stand in the table, and their number has a bound.
func TestKeysAreForgotten(t *testing.T) {
	s := &store{}
	inBubble(t, s, 0.1, func(t *testing.T, set *lease.Set) {
		for i := range 40_000 {
			set.Admitted(lease.Wanted{Key: strconv.Itoa(i), Spec: thousand, Units: 8})
		}
		synctest.Wait()
		if n := set.Keys(); n != 40_000 {
			t.Errorf("%d keys", n)
		}
		for i := range 40_000 {
			set.Admitted(lease.Wanted{Key: "more" + strconv.Itoa(i), Spec: thousand, Units: 8})
		}
		if n := set.Keys(); n != 1<<16 {
			t.Errorf("%d keys, want the bound", n)
		}
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if n := set.Keys(); n != 0 {
			t.Errorf("%d keys that nobody asks for", n)
		}
	})
}
