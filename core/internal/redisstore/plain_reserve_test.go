//go:build !race

// Two scripts are compared, by one goroutine: make test runs it without the race detector, which takes three times as long.

package redisstore

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/script"
	"github.com/weir-go/ratelimit/internal/repeatable"
)

// The script of an algorithm's reservations answers as that for all reservations, and leaves the same states and open
// reservations for as long, or else does nothing and says so: whatever lies in the key, and however the clock and the numbers
// of the limit change.
func TestPlainReservationsAreDecidedAsAllReservations(t *testing.T) {
	for of := range exact.All() {
		if !script.HasOwnReserve(of) {
			continue
		}
		t.Run(of.String(), func(t *testing.T) {
			random, rig := repeatable.Random(t), newRig(t)
			stores := [2]*Store{rig.store(t), rig.store(t)}
			reserved, unknown := 0, 0
			var all []*exact.Spec
			var open []call.Correction
			for round := range 800 {
				if round%100 == 0 {
					all, open = roomyPlansOf(random, of), nil
				}
				own := all[min(random.IntN(12), len(all)-1)*random.IntN(2)]
				key := fmt.Sprint(round/100, random.IntN(2))
				switch random.IntN(50) {
				case 0:
					rig.now -= random.Int64N(10_000_000)
				case 1:
					rig.now += random.Int64N(100_000_000)
				case 2, 3, 4, 5, 6, 7, 8:
					rig.now += random.Int64N(1_000_000)
				case 9:
					rig.now += 16 - rig.now%16 // an instant at which the time to live is looked at
					damage(t, random, rig.client, [2]string{stores[0].Name(key, own), stores[1].Name(key, own)})
				case 10:
					for _, r := range stores {
						if err := r.Reset(t.Context(), key, all[:1]); err != nil {
							t.Fatal(err)
						}
					}
				}
				if len(open) > 0 && random.IntN(3) == 0 {
					place := random.IntN(len(open))
					one := open[place]
					open = append(open[:place], open[place+1:]...)
					one.Events += random.IntN(1 - one.Events)
					for _, r := range stores {
						settled := one
						if err := r.Settle(t.Context(), []call.Correction{settled}); err != nil {
							t.Fatal(err)
						}
					}
					continue
				}
				check := call.Check{
					Key: key, Spec: own, Units: 1 + random.IntN(8), Settled: random.IntN(10) > 0, Condition: random.IntN(20) == 0,
				}
				if random.IntN(4) == 0 {
					check.Headroom = random.IntN(own.Capacity + 1)
				}
				if of.Windowed() || random.IntN(2) == 0 { // else the check of a window reserves nothing
					check.Holder, check.ReserveFor = call.NewHolder(), 1+random.Int64N([]int64{120_000_000, 7_200_000_000}[random.IntN(2)])
				}
				name := fmt.Sprintf("round %d at %d: %+v under %s", round, rig.now, check, own)

				asked, other := callOf(check), callOf(check)
				got, plain := answerTo(t, stores[0], asked.Groups, 1, true)
				want, _ := answerTo(t, stores[1], other.Groups, 1, false)
				if got != want {
					t.Fatalf("%s: it says %+v, want %+v", name, got, want)
				}
				reserved++
				if !plain {
					unknown++
				}
				for _, suffix := range []string{"", call.ReservedSuffix} {
					state, ends := stateOf(t, rig.client, stores[0].Name(key, own)+suffix)
					left, wantEnds := stateOf(t, rig.client, stores[1].Name(key, own)+suffix)
					if !reflect.DeepEqual(state, left) || math.Abs(float64(ends-wantEnds)) > 1500 {
						t.Fatalf("%s: it leaves of %q\n%v until %d, want\n%v until %d", name, suffix, state, ends, left, wantEnds)
					}
				}
				if err := script.Observe(asked.Groups, got.Text, 0, func(*call.Check, script.Mark) {}); err != nil {
					t.Fatal(err)
				}
				c := &asked.Checks[0]
				if call.Decide(asked.Groups[0]) && c.Charge && (c.Settled || c.ReserveFor > 0) {
					c.Charged.At = got.At
					open = append(open, call.Reversal(asked.Groups[0])[0])
				}
			}
			t.Logf("%d of %d states were unknown to it", unknown, reserved)
			if unknown == 0 || unknown > reserved/2 {
				t.Errorf("%d of %d states were unknown to it", unknown, reserved)
			}
		})
	}
}
