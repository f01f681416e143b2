package redisstore

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core/internal/batch"
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/script"
	"github.com/weir-go/ratelimit/internal/repeatable"
)

// roomyPlansOf is plansOf with more room, so that many reservations overlap.
func roomyPlansOf(random *rand.Rand, of exact.Algorithm) []*exact.Spec {
	all := plansOf(random, of)
	for i, own := range all {
		p := own.Params
		p.Capacity *= 20
		if p.Events *= []int{1, 20}[random.IntN(2)]; of.Windowed() {
			p.Events = p.Capacity
		}
		var identity *exact.Spec
		if i > 0 {
			identity = all[1]
		}
		all[i] = exact.NewSpec(p, identity)
	}
	return all
}

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

// Reservations of a key, and checks of it that do not reserve, have one script, so that they keep their order. So have a
// reservation and a call about its key that needs the script for all algorithms.
func TestReservationsKeepTheirPlaceAmongChecksOfTheirKey(t *testing.T) {
	reserving := call.Check{Key: "a", Spec: hourly, Units: 1, Settled: true}
	ofTwo := []call.Check{{Key: "a", Spec: hourly, Units: 1}, {Key: "b", Spec: hourly, Units: 1}}
	plainly, apart := call.Check{Key: "a", Spec: hourly, Units: 1}, call.Check{Key: "c", Spec: hourly, Units: 1}
	for _, c := range []struct {
		name  string
		calls [][]call.Check
		want  string
	}{
		{"a check and a reservation", [][]call.Check{{plainly}, {reserving}}, "[reserve: 2]"},
		{"a reservation beside checks", [][]call.Check{{plainly}, {apart}, {reserving}}, "[reserve: 2 check: 1]"},
		{"a reservation and a call of two checks", [][]call.Check{{plainly}, {reserving}, ofTwo, {apart}}, "[decide: 3 check: 1]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var groups []*requestGroup
			r := newStore(unknownClient{})
			for _, checks := range c.calls {
				own := r.only.checks.NewCall()
				own.Request.SetChecks(callOf(checks...).Groups, 1, false, nil, r.Name)
				groups = append(groups, batch.Single(own))
			}
			var got []string
			for _, one := range runsOf(script.Decide, groups, true) {
				got = append(got, fmt.Sprintf("%s: %d", [...]string{script.Decide: "decide", script.OwnCheck: "check", script.OwnReserve: "reserve"}[one.does], len(one.groups)))
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("the runs are %v, want %v", got, c.want)
			}
		})
	}
}

// A reservation that its script does not know is decided before later checks of its key.
func TestAReservationThatIsUnknownKeepsItsPlace(t *testing.T) {
	for of := range exact.All() {
		if !script.HasOwnReserve(of) {
			continue
		}
		t.Run(of.String(), func(t *testing.T) {
			rig := newRig(t)
			store, _ := rig.stores(t)
			limit := spec(of, 10, 10, 1000*time.Hour)
			ended := call.Check{Key: "key", Spec: limit, Units: 5, Settled: true, Holder: call.NewHolder(), ReserveFor: 1}
			if _, err := decide(t.Context(), store, ended); err != nil {
				t.Fatal(err)
			}
			rig.wait(time.Second)
			checks := []call.Check{
				{Key: "sent before", Spec: limit, Units: 1},
				{Key: "key", Spec: limit, Units: 6, Settled: true, Holder: call.NewHolder(), ReserveFor: time.Hour.Microseconds()},
				{Key: "key", Spec: limit, Units: 5},
			}
			var passed [3]bool
			together(t, store, rig.gate, len(checks), func(i int) {
				c, err := decide(t.Context(), store, checks[i])
				if err != nil {
					t.Error(err)
				}
				passed[i] = call.Decide(c.Groups[0])
			})
			if passed != [3]bool{true, true, false} {
				t.Errorf("they have passed: %v", passed)
			}
		})
	}
}

// Reservations of a call which share a limit say each what its own key was charged, and what was used there.
func TestReservationsOfACallSayWhatEachWasCharged(t *testing.T) {
	rig := newRig(t)
	store := rig.store(t)
	limit := spec(exact.FixedWindow, 10, 10, time.Hour)
	for key, used := range map[string]int{"a": 3, "b": 1, "c": 3} {
		if _, err := decide(t.Context(), store, call.Check{Key: key, Spec: limit, Units: used}); err != nil {
			t.Fatal(err)
		}
	}
	var checks []call.Check
	for _, key := range []string{"a", "b", "c"} {
		checks = append(checks, call.Check{Key: key, Spec: limit, Units: 2, Holder: call.NewHolder(), ReserveFor: time.Hour.Microseconds()})
	}
	if _, err := decide(t.Context(), store, checks...); err != nil {
		t.Fatal(err)
	}
	for i, after := range []int64{5, 3, 5} {
		want := []string{script.Member(checks[i].Holder, exact.Charge{At: rig.now, Used: after}, 2, limit)}
		name := store.Name(checks[i].Key, limit) + call.ReservedSuffix
		if got := rig.client.ZRange(t.Context(), name, 0, -1).Val(); !slices.Equal(got, want) {
			t.Errorf("%s has the reservations %q, want %q", checks[i].Key, got, want)
		}
	}
}

// Equal checks of a batch that may be settled are noted as each alone is, also where some units were not noted before.
func TestEqualReservationsAreNotedAsEachAlone(t *testing.T) {
	for of := range exact.All() {
		if !of.Noted() || !script.HasOwnReserve(of) {
			continue
		}
		t.Run(of.String(), func(t *testing.T) {
			rig := newRig(t)
			packed, alone := rig.store(t), rig.store(t)
			limit := spec(of, 20, 1, time.Hour)
			ask := func(r *Store, settled bool, units int) {
				if _, err := decide(t.Context(), r, call.Check{Key: "key", Spec: limit, Units: units, Settled: settled}); err != nil {
					t.Error(err)
				}
			}
			for _, r := range []*Store{packed, alone} {
				ask(r, false, 4)
			}
			together(t, packed, rig.gate, 4, func(int) { ask(packed, true, 2) })
			for range 4 {
				ask(alone, true, 2)
			}
			got, _ := stateOf(t, rig.client, packed.Name("key", limit))
			if want, _ := stateOf(t, rig.client, alone.Name("key", limit)); !reflect.DeepEqual(got, want) {
				t.Errorf("together they leave\n%v, and each alone\n%v", got, want)
			}
		})
	}
}

// A script run gives back a few of the reservations that have ended, of however many keys, and later runs the others.
func TestAScriptRunGivesBackAFewReservations(t *testing.T) {
	const ended = 6 // of each key
	rig := newRig(t)
	store := rig.store(t)
	limit := spec(exact.SlidingWindow, 100, 100, time.Hour)
	reserve := func(keys ...string) {
		var checks []call.Check
		for _, key := range keys {
			checks = append(checks, call.Check{Key: key, Spec: limit, Units: 1, Holder: call.NewHolder(), ReserveFor: time.Second.Microseconds()})
		}
		if _, err := decide(t.Context(), store, checks...); err != nil {
			t.Fatal(err)
		}
	}
	open := func() (open int64) {
		for _, key := range []string{"a", "b"} {
			open += rig.client.ZCard(t.Context(), store.Name(key, limit)+call.ReservedSuffix).Val()
		}
		return open
	}
	for range ended {
		reserve("a", "b")
	}
	rig.wait(2 * time.Second)
	for left := int64(2 * ended); left > 0; {
		before := open()
		reserve("a", "b")
		given := before + 2 - open()
		if want := min(left, 4); given != want {
			t.Fatalf("a run has given back %d reservations of %d that had ended, want %d", given, left, want)
		}
		left -= given
	}
}
