package core

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/internal/unexported"
)

// In memory a settlement is done when SettleBeside returns: it takes less time than a goroutine would.
func TestMemorySettlesBeforeTheCallerGoesOn(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
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
		err := unexported.SettleBeside(r, func(err error) {
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

// A client that comes back with the answer in hand finds the units that are being given back, by AllowN, too.
func TestAllowWaitsForUnitsThatAreGivenBack(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l, limit := New(NewMemory()), FixedWindow(1, time.Hour)
		defer l.Close()
		r := reservedBy(t, l, limit, 1)[0]
		s := new(settlements)
		if err := r.settlements(s, []int{0}); err != nil {
			t.Fatal(err)
		}
		ended, keys := l.besides.begin(s.list)
		go func() { // as SettleBeside does, through a slow link
			defer l.besides.end()
			time.Sleep(time.Second)
			if err := r.settle(t.Context(), s, []int{0}); err != nil {
				t.Error(err)
			}
			l.besides.given(ended, keys)
		}()
		if d, err := l.AllowN(t.Context(), s.list[0].Check.Key, limit, 1); err != nil || !d.Allowed {
			t.Errorf("%+v, %v while a unit is given back, want it to pass", d, err)
		}
	})
}
