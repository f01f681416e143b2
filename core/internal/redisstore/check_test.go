package redisstore

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/script"
	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/internal/repeatable"
)

// plansOf returns specs of an algorithm: one without a name, and two of one name with other numbers.
func plansOf(random *rand.Rand, of exact.Algorithm) []*exact.Spec {
	if of.Dated() {
		return []*exact.Spec{spec(of, 1+random.IntN(10), 0, 20*time.Second)}
	}
	var all []*exact.Spec
	named := exact.NewSpec(exact.Params{Algorithm: of, Name: "plan"}, nil)
	for i, period := range []time.Duration{time.Minute, 7 * time.Second, 13 * time.Second} {
		p := exact.Params{Algorithm: of, Capacity: 1 + random.IntN(10), Period: period}
		if p.Events = p.Capacity; !of.Windowed() {
			p.Events = []int{1, 3, 70_000_000}[random.IntN(3)]
		}
		if i == 0 {
			all = append(all, exact.NewSpec(p, nil))
			continue
		}
		p.Name = "plan"
		all = append(all, exact.NewSpec(p, named))
	}
	return all
}

// stateOf returns what lies in a key, and when it ends, in milliseconds since 1970: 0 if it has no time to live.
func stateOf(t *testing.T, client *redis.Client, key string) (state any, ends int64) {
	t.Helper()
	var err error
	switch kind := client.Type(t.Context(), key).Val(); kind {
	case "hash":
		state, err = client.HGetAll(t.Context(), key).Result()
	case "list":
		state, err = client.LRange(t.Context(), key, 0, -1).Result()
	case "zset":
		state, err = client.ZRangeWithScores(t.Context(), key, 0, -1).Result()
	case "string":
		state, err = client.Get(t.Context(), key).Result()
	case "none":
		return nil, 0
	default:
		t.Fatalf("%s is a %s", key, kind)
	}
	if err != nil {
		t.Fatal(err)
	}
	return state, max(0, client.PExpireTime(t.Context(), key).Val().Milliseconds())
}

// damage leaves something in a key that no limit leaves.
func damage(t *testing.T, random *rand.Rand, client *redis.Client, keys [2]string) {
	t.Helper()
	how := random.IntN(4)
	for _, key := range keys {
		var err error
		switch state, _ := stateOf(t, client, key); {
		case how == 0:
			err = client.Set(t.Context(), key, "nonsense", time.Hour).Err()
		case how == 1:
			err = client.Persist(t.Context(), key).Err()
		case how == 2 && reflect.TypeOf(state) == reflect.TypeFor[map[string]string]():
			for field := range state.(map[string]string) {
				err = client.HSet(t.Context(), key, field, "-1").Err()
			}
		default:
			err = client.Del(t.Context(), key).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// answerTo asks some groups of checks as plain ones, or not. It reports besides whether the script of plain checks has
// answered.
func answerTo(t *testing.T, r *Store, groups [][]call.Check, times int, plainly bool) (answer script.Reply, plain bool) {
	t.Helper()
	c := r.only.checks.NewCall()
	defer r.only.checks.Free(c)
	c.Request.SetChecks(groups, times, true, r.only.clock, r.Prefix)
	if c.Request.Plain && !plainly {
		c.Request.Explain()
	}
	if err := r.only.checks.Do(t.Context(), c); err != nil || c.Err != nil {
		t.Fatal(err, c.Err)
	}
	return c.Answer, c.Request.Plain
}

// The script of an algorithm's plain checks answers as that for all checks, and leaves the same state for as long, or else
// does nothing and says so: whatever lies in the key, and however the clock and the numbers of the limit change.
func TestPlainChecksAreDecidedAsAllChecks(t *testing.T) {
	for of := range exact.All() {
		if !script.HasOwnCheck(of) || of.Shares() { // see TestSharesAreDecidedAsAllChecks
			continue
		}
		t.Run(of.String(), func(t *testing.T) {
			t.Parallel()
			random, rig := repeatable.Random(t), newRig(t)
			plainly, known := rig.store(t), rig.store(t)
			unknown := 0
			var all []*exact.Spec
			for round := range 700 {
				if round%50 == 0 {
					all = plansOf(random, of)
				}
				own := all[random.IntN(len(all))]
				check := call.Check{Key: fmt.Sprint(round/50, random.IntN(3)), Spec: own, Units: 1 + random.IntN(4)}
				if random.IntN(4) == 0 {
					check.Headroom = random.IntN(own.Capacity + 1)
				}
				if random.IntN(8) == 0 {
					check.Units = random.IntN(own.Capacity + 3)
				}
				check.Condition = random.IntN(6) == 0
				check.Settled = of.Noted() && random.IntN(8) == 0 // which leaves notes beside the state
				times := 1
				if random.IntN(5) == 0 {
					times += random.IntN(5)
				}
				switch random.IntN(12) {
				case 0:
					rig.now -= random.Int64N(10_000_000)
				case 1:
					rig.now += random.Int64N(60_000_000)
				case 2, 3, 4:
					rig.now += random.Int64N(1_000_000)
				case 5:
					rig.now += 16 - rig.now%16 // an instant at which the time to live is looked at
					damage(t, random, rig.client, [2]string{plainly.Name(check.Key, own), known.Name(check.Key, own)})
				}
				name := fmt.Sprintf("round %d at %d: %d times %+v under %s", round, rig.now, times, check, own)

				asked, want := callOf(check), callOf(check)
				got, plain := answerTo(t, plainly, asked.Groups, times, true)
				expected, _ := answerTo(t, known, want.Groups, times, false)
				if got != expected {
					t.Fatalf("%s: it says %+v, want %+v", name, got, expected)
				}
				if !plain {
					unknown++
				}
				state, ends := stateOf(t, rig.client, plainly.Name(check.Key, own))
				left, wantEnds := stateOf(t, rig.client, known.Name(check.Key, own))
				if !reflect.DeepEqual(state, left) || math.Abs(float64(ends-wantEnds)) > 1500 {
					t.Fatalf("%s: it leaves\n%v until %d, want\n%v until %d", name, state, ends, left, wantEnds)
				}
			}
			if unknown == 0 || unknown > 350 {
				t.Errorf("%d of 700 states were unknown to it", unknown)
			}
		})
	}
}

// settleBy carries out a correction as a plain one, or not, and returns what is said of it. It reports besides whether the
// script of plain settlements has done so.
func settleBy(t *testing.T, r *Store, one call.Correction, plainly bool) (answer string, plain bool) {
	t.Helper()
	lane := r.only.settlements
	c := lane.NewCall()
	defer lane.Free(c)
	c.Request.SetCorrections([]call.Correction{one}, r.only.clock, r.Prefix)
	if c.Request.Plain && !plainly {
		c.Request.Explain()
	}
	if err := lane.Do(t.Context(), c); err != nil || c.Err != nil {
		t.Fatal(err, c.Err)
	}
	return c.Answer.Text, c.Request.Plain
}

// examples is how many examples each random test draws that draws them by rapid, and a measure for those that do not.
func examples(t *testing.T) int {
	t.Helper()
	number, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// The script of an algorithm's settlements of one charge each tells and leaves the same as that for all settlements,
// or does nothing and says so, whatever lies in the key, and however the clock and the numbers of the limit change.
func TestPlainSettlementsAreCarriedOutAsAllSettlements(t *testing.T) {
	for of := range exact.All() {
		if !script.HasOwnSettle(of) {
			continue
		}
		t.Run(of.String(), func(t *testing.T) {
			t.Parallel()
			random, rig := repeatable.Random(t), newRig(t)
			plainly, known := rig.store(t), rig.store(t)
			settled, unknown := 0, 0
			var all []*exact.Spec
			var open []call.Correction
			var first, last int64 // the earliest and the latest instant of these keys
			for round := range 6 * examples(t) {
				if round%150 == 0 {
					all, open = roomyPlansOf(random, of), nil
					first, last = rig.now, rig.now
				}
				switch random.IntN(40) {
				case 0:
					rig.now -= random.Int64N(10_000_000)
				case 1:
					rig.now += random.Int64N(100_000_000)
				case 2, 3, 4, 5, 6, 7:
					rig.now += random.Int64N(1_000_000)
				case 8:
					key := fmt.Sprint(round/150, random.IntN(2))
					damage(t, random, rig.client, [2]string{plainly.Name(key, all[0]), known.Name(key, all[0])})
				case 9:
					key := fmt.Sprint(round/150, random.IntN(2))
					for _, r := range []*Store{plainly, known} {
						if err := r.Reset(t.Context(), key, all[:1]); err != nil {
							t.Fatal(err)
						}
					}
				}
				first, last = min(first, rig.now), max(last, rig.now)
				own := all[min(random.IntN(12), len(all)-1)*random.IntN(2)]
				check := call.Check{Key: fmt.Sprint(round/150, random.IntN(2)), Spec: own, Units: 1 + random.IntN(8), Settled: random.IntN(6) > 0}
				if random.IntN(3) == 0 {
					check.Holder, check.ReserveFor = call.NewHolder(), 1+random.Int64N(120_000_000)
				}
				if random.IntN(2) == 0 || len(open) == 0 {
					asked, other := callOf(check), callOf(check)
					got, _ := answerTo(t, plainly, asked.Groups, 1, true)
					want, _ := answerTo(t, known, other.Groups, 1, true)
					if strings.ReplaceAll(got.Text, "+", "") != strings.ReplaceAll(want.Text, "+", "") { // one may lack its time to live
						t.Fatalf("round %d: %+v is told %+v, want %+v", round, check, got, want)
					}
					if err := script.Observe(asked.Groups, got.Text, 0, func(*call.Check, script.Mark) {}); err != nil {
						t.Fatal(err)
					}
					c := &asked.Checks[0]
					if call.Decide(asked.Groups[0]) && c.Settled {
						c.Charged.At = got.At
						back := call.Reversal(asked.Groups[0])[0]
						open = append(open, back)
					}
					continue
				}
				place := random.IntN(len(open))
				one := open[place]
				if random.IntN(10) > 0 {
					open = append(open[:place], open[place+1:]...)
				}
				one.Wanted, one.Firm = random.IntN(2) == 0, random.IntN(2) == 0
				if one.Events += random.IntN(1 - one.Events); random.IntN(6) == 0 {
					one.Events = []int{1 + random.IntN(5), one.Spec.Capacity}[random.IntN(2)] // the latter is often too much
				}
				name := fmt.Sprintf("round %d at %d: %+v under %s", round, rig.now, one, one.Spec)
				before, _ := stateOf(t, rig.client, plainly.Name(one.Key, one.Spec))
				got, plain := settleBy(t, plainly, one, true)
				want, _ := settleBy(t, known, one, false)
				if !plain {
					unknown++
				}
				if got != want {
					t.Fatalf("%s, of %v: it says %q, want %q", name, before, got, want)
				}
				state, ends := stateOf(t, rig.client, plainly.Name(one.Key, one.Spec))
				left, wantEnds := stateOf(t, rig.client, known.Name(one.Key, one.Spec))
				// A check sees to a key that has lost its time to live. Redis' own clock stands still while that of the scripts
				// moves, so times to live that were set at other instants differ by as much.
				lives := ends == 0 || math.Abs(float64(ends-wantEnds)) <= float64(1500+(last-first)/1000)
				if !reflect.DeepEqual(state, left) || !lives {
					t.Fatalf("%s, of\n%v: it leaves\n%v until %d, want\n%v until %d", name, before, state, ends, left, wantEnds)
				}
				settled++
			}
			t.Logf("%d of %d states were unknown to it", unknown, settled)
			if unknown == 0 || unknown > settled*2/3 {
				t.Errorf("%d of %d states were unknown to it", unknown, settled)
			}
		})
	}
}

// A plain check of a key with open reservations takes no second round trip.
func TestNotesKeepNoStateFromPlainChecks(t *testing.T) {
	for of := range exact.All() {
		if !of.Noted() || !script.HasOwnCheck(of) {
			continue
		}
		t.Run(of.String(), func(t *testing.T) {
			store := newRig(t).store(t)
			own := spec(of, 10, 1, time.Hour)
			reserved := callOf(call.Check{Key: "key", Spec: own, Units: 2, Settled: true})
			if _, plain := answerTo(t, store, reserved.Groups, 1, true); !plain {
				t.Error("the script of reservations does not know a fresh key")
			}
			check := callOf(call.Check{Key: "key", Spec: own, Units: 1})
			if _, plain := answerTo(t, store, check.Groups, 1, true); !plain {
				t.Error("the state was unknown to it")
			}
		})
	}
}

// store returns a store on Redis with the clock of the rig.
func (r *rig) store(t *testing.T) *Store {
	return newStore(r.client, func(c *Config) {
		c.Clock, c.Prefix, c.Patience = func() int64 { return r.now }, redistest.Prefix(t), time.Minute
	})
}
