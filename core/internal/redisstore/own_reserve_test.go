package redisstore

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core/internal/batch"
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/script"
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
				own.Request.SetChecks(callOf(checks...).Groups, 1, false, nil, r.Prefix)
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
