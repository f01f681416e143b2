package exact

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/repeatable"
)

// told is what was charged of a meter, at its instant.
type told struct{ at, units int64 }

// replayed returns the level after all that was charged at its instant.
func replayed(s *Spec, all []told, now int64) (level int64) {
	at := int64(0)
	for _, one := range all {
		level, at = s.left(level, one.at, at)+one.units, one.at
	}
	return s.left(level, now, at)
}

// However many reservations overlap, and in whatever order they are settled, a meter is at each instant as if each of them
// had been charged its real cost at once, and those that are open their estimates. Where others are charged, too, which note
// nothing, no less is used than that, and more by at most 3 % of the charges, or by what one of them takes.
func TestOverlappingReservationsLoseNothing(t *testing.T) {
	random := repeatable.Random(t)
	for _, pace := range []struct {
		name   string
		period time.Duration // in which an event drains
	}{
		{"never", time.Hour}, {"slowly", 400 * time.Microsecond}, {"as it fills", 65 * time.Microsecond}, {"fast", 20 * time.Microsecond},
	} {
		for _, overlap := range []int{1, 8, 16, 32, 1000} {
			for _, plain := range []bool{false, true} {
				t.Run(fmt.Sprintf("drains %s, %d open, plain checks %t", pace.name, overlap, plain), func(t *testing.T) {
					s := NewSpec(Params{Algorithm: Leaky, Capacity: 100_000, Events: 1, Period: pace.period}, nil)
					type reservation struct {
						of   int // in the history
						cost int
						at   Charge
					}
					var (
						record Record
						now    int64 = 1_800_000_000_000_000
						all    []told
						excess int64
						open   []reservation
					)
					charge := func(cost int) (before int64) {
						u, _ := s.Observe(&record.State, now, cost)
						s.Store(&record.State, u, now, cost, Holder{})
						all = append(all, told{now, s.Weigh(cost)})
						return u.Used
					}
					for range max(200, 5*overlap/2) {
						now += random.Int64N(40)
						if random.IntN(30) == 0 {
							now += random.Int64N(2000) // a lull
						}
						switch {
						case plain && random.IntN(5) == 0:
							charge(1 + random.IntN(30))
						case len(open) == 0, len(open) < overlap && (len(open) < overlap*9/10 || random.IntN(2) == 0):
							cost := 1 + random.IntN(30)
							before := charge(cost)
							at := Charge{At: now, Used: before + s.Weigh(cost), Order: record.Number(now)}
							record.State.Note(s, before, now, at.Order)
							open = append(open, reservation{len(all) - 1, cost, at})
						default:
							i := random.IntN(len(open))
							one := open[i]
							open = slices.Delete(open, i, i+1)
							actual := random.IntN(3)
							if random.IntN(20) == 0 {
								actual = random.IntN(60)
							}
							record.Settle(s, &Correction{Events: actual - one.cost, At: one.at}, now)
							if actual > one.cost {
								all = append(all, told{now, s.Weigh(actual - one.cost)})
							} else {
								all[one.of].units = s.Weigh(actual)
							}
						}
						u, _ := s.Observe(&record.State, now, 0)
						more := u.Used - replayed(s, all, now)
						if more < 0 || more > 0 && !plain {
							t.Fatalf("%d units of %d an event are used, %d too many", u.Used, s.Weight, more)
						}
						excess = max(excess, more)
					}
					charged := int64(0)
					for _, one := range all {
						charged += one.units
					}
					if most := max(charged*3/100, s.Weigh(60)); excess > most {
						t.Errorf("at most %.2f events too many of %.2f, want %.2f", float64(excess)/float64(s.Weight), float64(charged)/float64(s.Weight), float64(most)/float64(s.Weight))
					}
				})
			}
		}
	}
}
