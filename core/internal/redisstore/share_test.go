//go:build !race

// Two scripts are compared, by one goroutine: make test runs it without the race detector, which takes three times as long.

package redisstore

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/internal/repeatable"
)

// The script of a cap and a share answers as that for all checks, and leaves the same states, or else does nothing and says so:
// whatever lies in the keys, and however the clock and the numbers of the cap change.
func TestSharesAreDecidedAsAllChecks(t *testing.T) {
	for _, of := range []exact.Algorithm{exact.Leaky, exact.TokenBucket} {
		t.Run(of.String(), func(t *testing.T) {
			t.Parallel()
			random, rig := repeatable.Random(t), newRig(t)
			plainly, known := rig.store(t), rig.store(t)
			unknown, denied := 0, 0
			var all []*exact.Spec
			for round := range 1500 {
				if round%50 == 0 {
					all = plansOf(random, of)
				}
				limit := all[random.IntN(len(all))]
				share := exact.NewSpec(exact.FairParams(limit.Params, fmt.Sprint("tenant", random.IntN(3)), 1+random.IntN(3)), nil)
				if share.Problem() != nil {
					continue
				}
				checks := []call.Check{
					{Key: strconv.Itoa(round / 50), Spec: limit, Units: 1 + random.IntN(3)}, {Key: strconv.Itoa(round / 50), Spec: share},
				}
				if random.IntN(2) == 0 {
					checks[0].Headroom = random.IntN(limit.Capacity/3 + 1)
				}
				checks[0].Condition = random.IntN(6) == 0
				checks[1].Units, checks[1].Headroom, checks[1].Condition = checks[0].Units, checks[0].Headroom, checks[0].Condition
				if random.IntN(8) == 0 {
					call.MaySettle(checks) // which leaves notes beside the state of the cap
				}
				switch random.IntN(14) {
				case 0:
					rig.now -= random.Int64N(10_000_000)
				case 1:
					rig.now += random.Int64N(60_000_000)
				case 2, 3, 4, 5:
					rig.now += random.Int64N(1_000_000)
				case 6:
					which := checks[random.IntN(2)].Spec
					for _, key := range [...]string{plainly.Name(checks[0].Key, which), known.Name(checks[0].Key, which)} {
						if err := rig.client.Set(t.Context(), key, "nonsense", time.Hour).Err(); err != nil {
							t.Fatal(err)
						}
					}
				}
				name := fmt.Sprintf("round %d at %d: %+v", round, rig.now, checks)
				got, plain := answerTo(t, plainly, callOf(checks...).Groups, 1, true)
				expected, _ := answerTo(t, known, callOf(checks...).Groups, 1, false)
				if got != expected {
					t.Fatalf("%s: it says %+v, want %+v", name, got, expected)
				}
				if !plain && !checks[0].Noted() {
					unknown++
				}
				if own := callOf(checks...); strings.Contains(got.Text, " ") {
					text := strings.NewReplacer("!", "", "+", "").Replace(got.Text)
					var used, level, lapses, of, short int64
					if n, _ := fmt.Sscan(text, &used, &level, &lapses, &of, &short); n == 5 && !share.Fits(exact.Usage{Used: level, Second: lapses, Third: of, Fourth: short}, own.Checks[1].Need()) {
						denied++
					}
				}
				for _, one := range []*exact.Spec{limit, share} {
					state, ends := stateOf(t, rig.client, plainly.Name(checks[0].Key, one))
					left, wantEnds := stateOf(t, rig.client, known.Name(checks[0].Key, one))
					if !reflect.DeepEqual(state, left) || one == limit && math.Abs(float64(ends-wantEnds)) > 1500 || (ends == 0) != (wantEnds == 0) {
						t.Fatalf("%s: it leaves\n%v until %d, want\n%v until %d", name, state, ends, left, wantEnds)
					}
				}
			}
			if unknown == 0 || unknown > 900 || denied < 100 {
				t.Errorf("%d of 1,500 states were unknown to it, and %d were denied", unknown, denied)
			}
		})
	}
}
