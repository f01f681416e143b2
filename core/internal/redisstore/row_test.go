package redisstore

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/internal/repeatable"
)

// Checks of a batch that come in a row and share their limit, their cost and how often they are
// asked, have the words for these once.
func TestChecksInARowShareTheirWords(t *testing.T) {
	const (
		take     = "take leaky 36000000000 1 1" // an event weighs an hour in microseconds
		takeMore = "take+ leaky 36000000000 1 1"
		event    = "3600000000"
	)
	plain := func(capacity, ceiling, cost, times, checks string) []string {
		return []string{"1", capacity, ceiling, "1", "1", "", cost, times, checks}
	}
	row := func(times, checks string) []string { return plain("36000000000", "36000000000", event, times, checks) }
	one := func(keys ...string) (checks []call.Check) {
		for _, key := range keys {
			checks = append(checks, call.Check{Key: key, Spec: hourly, Units: 1})
		}
		return checks
	}
	leaving := func(headroom int, key string) []call.Check {
		return []call.Check{{Key: key, Spec: hourly, Units: 1, Headroom: headroom}}
	}
	for _, c := range []struct {
		name  string
		calls [][]call.Check
		want  []string
	}{
		{"one check", [][]call.Check{one("a")}, row("1", "1")},
		{"three in a row", [][]call.Check{one("a"), one("b"), one("c")}, row("1", "3")},
		{"asked twice", [][]call.Check{one("a"), one("a")}, row("2", "1")},
		{"asked twice, in a row", [][]call.Check{one("a"), one("b"), one("a"), one("b")}, row("2", "2")},
		{"asked twice and once", [][]call.Check{one("a"), one("b"), one("b"), one("c")}, slices.Concat(row("1", "1"), row("2", "1"), row("1", "1"))},
		{"other costs", [][]call.Check{one("a"), {{Key: "b", Spec: hourly, Units: 2}}, one("c")}, slices.Concat(
			row("1", "1"), plain("36000000000", "36000000000", "7200000000", "1", "1"), row("1", "1"))},
		{"other limits", [][]call.Check{one("a"), {{Key: "b", Spec: spec(exact.Leaky, 5, 1, time.Hour), Units: 1}}}, slices.Concat(
			row("1", "1"), plain("18000000000", "18000000000", event, "1", "1"))},
		{"headroom", [][]call.Check{leaving(4, "a"), leaving(4, "b"), one("c"), leaving(11, "d")}, slices.Concat(
			plain("36000000000", "21600000000", event, "1", "2"), row("1", "1"), plain("36000000000", "0", event, "1", "1"))},
		{"one check beside a call of several", [][]call.Check{one("a", "b", "c"), one("d")}, slices.Concat([]string{takeMore, event + " 1 2", take, event}, row("1", "1"))},
		{"one check about a key of a call of several", [][]call.Check{one("a", "b", "c"), one("c")}, []string{takeMore, event + " 1 2", take, event + " 1 2"}},
		{"calls in a row", [][]call.Check{one("a", "b"), one("c", "d"), one("e", "f"), one("g", "h", "i")}, []string{takeMore, event + " 1 3 2", take, event, takeMore, event + " 1 2", take, event}},
		{"calls in a row, asked twice", [][]call.Check{one("a", "b"), one("c", "d"), one("a", "b"), one("c", "d")}, []string{takeMore, event + " 2 2 2", take, event + " 2"}},
		{"costs that add up", [][]call.Check{one("a", "a")}, []string{"ask+ leaky 36000000000 1 1", event, take, "7200000000"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				hold := make(chan struct{})
				var sent []string // behind the first batch
				commands := 0
				client := clientAt(t, "192.0.2.1:6379", func(command redis.Cmder) (string, error) {
					arguments := command.Args()
					keys := arguments[2].(int)
					<-hold
					if commands++; commands == 1 {
						return "0", nil
					}
					for _, word := range arguments[3+keys:] {
						if text := wordOf(word); text != "at" {
							sent = append(sent, text)
						}
					}
					return strings.TrimSpace(strings.Repeat("0 ", keys)), nil
				})
				r := newStore(client, func(c *Config) { c.InFlight = 1 })
				var group sync.WaitGroup
				for _, checks := range append([][]call.Check{one("first")}, c.calls...) { // the others wait for it
					group.Go(func() {
						if _, err := decide(t.Context(), r, checks...); err != nil {
							t.Error(err)
						}
					})
					synctest.Wait()
				}
				close(hold)
				group.Wait()
				_ = r.Close()
				if !slices.Equal(sent, c.want) {
					t.Errorf("the words are %q, want %q", sent, c.want)
				}
			})
		})
	}
}

// wordOf returns a word of a call as it is sent.
func wordOf(word any) string {
	if text := asString(word); text != "" {
		return text
	}
	return fmt.Sprint(word)
}

// A batch decides and leaves what its calls, each sent alone, decide and leave, whatever damage the
// keys of some have.
func TestBatchesDecideAsTheirCallsAlone(t *testing.T) {
	random := repeatable.Random(t)
	rig := newRig(t)
	for round := range 60 {
		var specs []*exact.Spec // few, so that many checks share theirs
		for range 1 + random.IntN(3) {
			of, _ := drawSpecs(random, random.IntN(100))
			specs = append(specs, of)
		}
		first, _ := rig.stores(t)
		second, _ := rig.stores(t)
		stores := [2]*Store{first, second}
		prefixes := [2]string{first.Prefix, second.Prefix}
		for batch := range 4 {
			calls := drawCalls(random, specs)
			var decided [2][]*call.Call
			ask := func(at, i int) {
				c, err := decide(t.Context(), stores[at], slices.Clone(calls[i])...)
				if err != nil {
					t.Error(err)
				}
				decided[at][i] = c
			}
			for at := range stores {
				decided[at] = make([]*call.Call, len(calls))
			}
			together(t, stores[0], rig.gate, len(calls), func(i int) { ask(0, i) })
			for i := range calls {
				ask(1, i)
				if got, want := told(decided[0][i]), told(decided[1][i]); !slices.Equal(got, want) {
					t.Fatalf("round %d, batch %d: %+v is told\n%+v in a batch, and alone\n%+v", round, batch, calls[i], got, want)
				}
			}
			packed, alone := states(t, rig.client, prefixes[0]), states(t, rig.client, prefixes[1])
			if !maps.Equal(packed, alone) {
				t.Fatalf("round %d, batch %d: %+v\nleave\n%v in a batch, and alone\n%v", round, batch, calls, packed, alone)
			}
			for _, key := range slices.Sorted(maps.Keys(packed)) {
				if random.IntN(10) > 0 {
					continue
				}
				for _, prefix := range prefixes { // damage
					if err := rig.client.Set(t.Context(), prefix+key, "nonsense", time.Hour).Err(); err != nil {
						t.Fatal(err)
					}
				}
			}
			rig.wait(time.Duration(random.IntN(20)) * time.Second)
		}
	}
}

// Calls of a batch that are about the same key are decided in their order, whatever scripts decide them, and whether
// the server has these scripts or not.
func TestCallsAboutOneKeyKeepTheirOrder(t *testing.T) {
	random := repeatable.Random(t)
	rig := newRig(t)
	for round := range 40 {
		first, _ := rig.stores(t)
		second, _ := rig.stores(t)
		stores, prefixes := [2]*Store{first, second}, [2]string{first.Prefix, second.Prefix}
		var specs []*exact.Spec
		for range 2 + random.IntN(3) {
			of, _ := drawSpecs(random, random.IntN(100))
			renumbers := slices.ContainsFunc(specs, func(s *exact.Spec) bool {
				return s.Params != of.Params && s.Params.Identity() == of.Params.Identity()
			})
			if !of.Algorithm.Dated() && !renumbers { // checks of these may be asked again, after others
				specs = append(specs, of)
			}
		}
		specs = append(specs, hourly)
		if round%4 == 0 {
			rig.client.ScriptFlush(t.Context())
		}
		calls := drawUnlikeCalls(random, specs)
		var decided [2][]*call.Call
		for at := range stores {
			decided[at] = make([]*call.Call, len(calls))
			ask := func(i int) {
				c, err := decide(t.Context(), stores[at], slices.Clone(calls[i])...)
				if err != nil {
					t.Error(err)
				}
				decided[at][i] = c
			}
			if at == 0 {
				together(t, stores[at], rig.gate, len(calls), ask)
				continue
			}
			for i := range calls {
				ask(i)
			}
		}
		for i := range calls {
			if got, want := told(decided[0][i]), told(decided[1][i]); !slices.Equal(got, want) {
				t.Fatalf("round %d: call %d of %d, %+v, is told\n%+v in a batch, and alone\n%+v", round, i, len(calls), calls[i], got, want)
			}
		}
		if packed, alone := states(t, rig.client, prefixes[0]), states(t, rig.client, prefixes[1]); !maps.Equal(packed, alone) {
			t.Fatalf("round %d: %d calls leave\n%v in a batch, and alone\n%v", round, len(calls), packed, alone)
		}
		rig.wait(time.Hour)
	}
}

// drawUnlikeCalls returns calls about few keys, some of which reserve for a time. No two of them would be asked together.
func drawUnlikeCalls(random *rand.Rand, specs []*exact.Spec) (calls [][]call.Check) {
	seen := make(map[string]bool)
	for i := range 2 + random.IntN(30) {
		var checks []call.Check
		for range 1 + random.IntN(4)/2*random.IntN(3) {
			check := call.Check{Key: strconv.Itoa(random.IntN(4)), Spec: specs[random.IntN(len(specs))]}
			check.Units = 1 + random.IntN(min(3, check.Spec.Capacity)) // what exceeds the capacity is asked together
			switch check.Spec.Algorithm {                              //nolint:exhaustive // some of those that can
			case exact.Leaky, exact.GCRA, exact.FixedWindow:
				if random.IntN(6) == 0 {
					check.ReserveFor, check.Holder = time.Minute.Microseconds(), exact.Holder{int64(i + 1), 1}
				}
			}
			checks = append(checks, check)
		}
		if text := fmt.Sprint(checks); !seen[text] {
			seen[text] = true
			calls = append(calls, checks)
		}
	}
	return calls
}

// drawCalls returns calls of a batch, some of which ask the same.
func drawCalls(random *rand.Rand, specs []*exact.Spec) [][]call.Check {
	calls := make([][]call.Check, 1+random.IntN(30))
	for i := range calls {
		if i > 0 && random.IntN(4) == 0 {
			calls[i] = calls[random.IntN(i)] // which are asked together
			continue
		}
		for place := range 1 + random.IntN(4)/3*random.IntN(3) {
			check := call.Check{Key: fmt.Sprintf("%d-%d", i, place), Spec: specs[random.IntN(len(specs))], Units: 1 + random.IntN(5)/4}
			if random.IntN(4) == 0 {
				check.Headroom = 1 + random.IntN(3)
			}
			if random.IntN(8) == 0 {
				check.Spec = check.Spec.Shadow()
			}
			switch random.IntN(8) {
			case 0:
				check.Condition = true
			case 1:
				check.Units = 0
			case 2, 3:
				check.Settled = true
			case 4:
				if check.Spec.Algorithm.Dated() {
					break
				}
				check.Settled, check.ReserveFor, check.Holder = true, time.Hour.Microseconds(), call.NewHolder()
			}
			calls[i] = append(calls[i], check)
		}
	}
	return calls
}

// states returns what the keys below a prefix hold, by their names without it.
func states(t *testing.T, client *redis.Client, prefix string) map[string]string {
	t.Helper()
	ctx, held := context.Background(), make(map[string]string)
	keys, err := client.Keys(ctx, prefix+":*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		var state any
		switch kind := client.Type(ctx, key).Val(); kind {
		case "hash":
			state = client.HGetAll(ctx, key).Val()
		case "list":
			state = client.LRange(ctx, key, 0, -1).Val()
		case "zset":
			state = client.ZRangeWithScores(ctx, key, 0, -1).Val()
		default:
			state = client.Get(ctx, key).Val()
		}
		held[strings.TrimPrefix(key, prefix)] = fmt.Sprint(state)
	}
	return held
}
