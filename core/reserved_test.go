package core_test

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/storetest"
)

// What has ended comes back before anything is settled in the same call: a settlement finds the room.
func TestWhatHasEndedComesBackBeforeSettlements(t *testing.T) {
	limit := core.Leaky(10, core.PerHour(1))
	for name, newStore := range map[string]storetest.Factory{
		"memory": newMemory, "redis": newRedis(t),
		"table": func(_ *testing.T, now func() time.Time) core.Store { return core.NewTableStore(newTable(now)) },
	} {
		t.Run(name, func(t *testing.T) {
			now := time.UnixMicro(1_800_000_000_000_000)
			store := newStore(t, func() time.Time { return now })
			charge := func(lasts time.Duration) core.Settlement {
				calls := []core.Call{{
					Checks:    []core.Check{{Key: "key", Limit: limit, Cost: 4, ReserveFor: lasts}},
					Decisions: make([]core.Decision, 1), Receipts: make([]core.Receipt, 1),
				}}
				if _, err := store.Decide(t.Context(), calls); err != nil {
					t.Fatal(err)
				}
				return core.Settlement{Check: calls[0].Checks[0], Receipt: calls[0].Receipts[0]}
			}
			full, late := charge(0), charge(time.Millisecond)
			full.Cost = 10
			now = now.Add(time.Second)
			if err := store.Settle(t.Context(), []core.Settlement{full, late}); err != nil {
				t.Fatal(err)
			}
			if d, err := core.New(store).Peek(t.Context(), "key", limit); err != nil || d.Remaining != 0 {
				t.Errorf("%d are left, want 0: %v", d.Remaining, err)
			}
		})
	}
}

// What a call has brought back of a reservation that has ended came before the call's own charge, although both have one
// instant: it takes nothing from what is given back of that charge later.
func TestWhatComesBackComesBeforeTheCharge(t *testing.T) {
	limit := core.Leaky(1000, core.PerSecond(1))
	for name, newStore := range map[string]storetest.Factory{
		"memory": newMemory, "redis": newRedis(t),
		"table": func(_ *testing.T, now func() time.Time) core.Store { return core.NewTableStore(newTable(now)) },
	} {
		t.Run(name, func(t *testing.T) {
			now := time.UnixMicro(1_800_000_000_000_000)
			l := core.New(newStore(t, func() time.Time { return now }))
			reserve := func(n int, lasts time.Duration) *core.Reservation {
				r, err := l.Reserve(t.Context(), core.Check{Key: "key", Limit: limit, Cost: n, ReserveFor: lasts})
				if err != nil || !r.Allowed() {
					t.Fatal(r, err)
				}
				return r
			}
			first := reserve(300, 0)
			reserve(100, time.Millisecond)
			if err := first.Settle(t.Context(), 50); err != nil {
				t.Fatal(err)
			}
			now = now.Add(time.Second)
			later := reserve(500, time.Hour) // the 100 have come back
			now = now.Add(2 * time.Second)
			if err := later.Settle(t.Context(), 100); err != nil {
				t.Fatal(err)
			}
			if d, err := l.Peek(t.Context(), "key", limit); err != nil || d.Remaining != 853 {
				t.Errorf("%d are left, want 853: %v", d.Remaining, err)
			}
		})
	}
}
