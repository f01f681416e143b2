package exact

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What is said to be left of a charge is never more than the level has been since, however many
// points it has had to leave out.
func TestPastIsNeverTooHigh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewSpec(Params{Algorithm: Leaky, Capacity: 1000, Events: 1_000_000, Period: time.Second}, nil) // a unit in a microsecond
		type charge struct {
			at     Charge
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
				charges = append(charges, charge{Charge{At: now, Order: order, Used: level}, level})
			default:
				if level > 0 {
					level -= rapid.Int64Range(1, level).Draw(t, "given back")
					order++
					p.note(s, now, order, level)
					came()
				}
			}
			if len(p.points) > mostPoints {
				t.Fatalf("%d points", len(p.points))
			}
		}
		for _, c := range charges {
			if low := min(p.low(s, c.at, now), s.left(c.at.Used, now, c.at.At)); low > c.lowest {
				t.Fatalf("%d are left of a charge of %d, but the level has been %d", low, c.at.At, c.lowest)
			}
		}
	})
}
