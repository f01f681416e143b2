package core

import (
	"testing"
	"testing/synctest"
	"time"
)

// In memory a settlement is done when SettleBeside returns: it takes less time than a goroutine would.
func TestMemorySettlesBeforeTheCallerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := false
		l, limit := New(NewMemory(WithClock(func() time.Time {
			if held {
				time.Sleep(time.Second) // a SettleBeside that does not wait returns meanwhile
			}
			return time.Now()
		}))), FixedWindow(10, time.Hour)
		defer l.Close()
		r := reservedBy(t, l, limit, 1)[0]
		held = true
		told := false
		err := r.SettleBeside(func(err error) {
			if told = true; err != nil {
				t.Error(err)
			}
		}, 0)
		if err != nil || !told {
			t.Errorf("it is not done when SettleBeside returns, %v", err)
		}
		synctest.Wait()
		held = false
		if n := used(t, l, limit); n != 0 {
			t.Errorf("%d are used, want none", n)
		}
	})
}
