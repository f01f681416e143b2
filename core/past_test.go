package core

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What is said to be left of a charge is never more than the level has been since, however many
// points it has had to leave out.
func TestPastIsNeverTooHigh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Leaky(1000, PerSecond(1_000_000)) // a unit in a microsecond
		type charge struct {
			at     Moment
			lowest int64 // that the level has been since
		}
		var (
			p       past
			charges []charge
			level   int64
			now     int64 = 1_000_000
			order   int64
		)
		came := func() {
			for i := range charges {
				charges[i].lowest = min(charges[i].lowest, level)
			}
		}
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				ticks := rapid.Int64Range(0, 20).Draw(t, "ticks")
				now, level = now+ticks, max(0, level-ticks)
				came()
			case 1:
				level += rapid.Int64Range(0, 50).Draw(t, "charged")
				charges = append(charges, charge{Moment{At: now, Order: order, Used: level}, level})
			default:
				if level > 0 {
					level -= rapid.Int64Range(1, level).Draw(t, "given back")
					order++
					p.note(&l, now, order, level)
					came()
				}
			}
			if len(p.points) > mostPoints {
				t.Fatalf("%d points", len(p.points))
			}
		}
		for _, c := range charges {
			if low := min(p.low(&l, c.at, now), chargeLeft(&l, c.at.Used, now, c.at.At)); low > c.lowest {
				t.Fatalf("%d are left of a charge of %d, but the level has been %d", low, c.at.At, c.lowest)
			}
		}
	})
}

// A store keeps no more pasts than keys. When it has to give them up, nothing of what
// was charged before is given back.
func TestPastsAreBounded(t *testing.T) {
	now := time.UnixMicro(1_800_000_000_000_000)
	store := NewMemory(WithMaxKeys(100), WithClock(func() time.Time { return now }))
	limiter, limit := New(store), Leaky(10, PerHour(1))
	first := Check{Key: "first", Limit: limit, Cost: 4}
	before, err := limiter.Reserve(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		key := string(rune('a' + i))
		if _, err := limiter.Allow(t.Context(), key, limit); err != nil {
			t.Fatal(err)
		}
		if err := limiter.Reset(t.Context(), key, limit); err != nil {
			t.Fatal(err)
		}
		if n := len(store.shards[0].settled.pasts); n > 100 {
			t.Fatalf("%d pasts of at most 100", n)
		}
	}
	after, err := limiter.Reserve(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		reservation *Reservation
		want        int
	}{{before, 2}, {after, 6}} {
		if err := test.reservation.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		d, err := limiter.AllowN(t.Context(), "first", limit, 0)
		if err != nil {
			t.Fatal(err)
		}
		if d.Remaining != test.want {
			t.Errorf("%d of 10 remain, want %d", d.Remaining, test.want)
		}
	}
}
