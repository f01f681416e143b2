package core

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/internal/redistest"
)

// Checks of a batch that come in a row and share their limit, their cost and how often they are
// asked, have the words for these once.
func TestChecksInARowShareTheirWords(t *testing.T) {
	const (
		take     = "take leaky 36000000000 1 1" // an event weighs an hour in microseconds
		takeMore = "take+ leaky 36000000000 1 1"
		event    = "3600000000"
	)
	limit := Leaky(10, PerHour(1))
	one := func(keys ...string) (checks []Check) {
		for _, key := range keys {
			checks = append(checks, Check{Key: key, Limit: limit, Cost: 1})
		}
		return checks
	}
	for _, c := range []struct {
		name  string
		calls [][]Check
		want  []string
	}{
		{"one check", [][]Check{one("a")}, []string{take, event}},
		{"three in a row", [][]Check{one("a"), one("b"), one("c")}, []string{take, event + " 1 3"}},
		{"asked twice", [][]Check{one("a"), one("a")}, []string{take, event + " 2"}},
		{"asked twice, in a row", [][]Check{one("a"), one("b"), one("a"), one("b")}, []string{take, event + " 2 2"}},
		{"asked twice and once", [][]Check{one("a"), one("b"), one("b"), one("c")}, []string{take, event, take, event + " 2", take, event}},
		{"other costs", [][]Check{one("a"), {{Key: "b", Limit: limit, Cost: 2}}, one("c")}, []string{take, event, take, "7200000000", take, event}},
		{"other limits", [][]Check{one("a"), {{Key: "b", Limit: GCRA(10, PerHour(1)), Cost: 1}}}, []string{take, event, "take gcra 36000000000 1 1", event}},
		{"calls of several checks", [][]Check{one("a", "b", "c"), one("d")}, []string{takeMore, event + " 1 2", take, event + " 1 2"}},
		{"costs that add up", [][]Check{one("a", "a")}, []string{"ask+ leaky 36000000000 1 1", event, take, "7200000000"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hold := make(chan struct{})
				var sent []string // with the last batch
				client := clientAt(t, "192.0.2.1:6379", func(command redis.Cmder) (string, error) {
					arguments := command.Args()
					keys := arguments[2].(int)
					<-hold
					sent = nil
					for _, word := range arguments[3+keys:] {
						if text := wordOf(word); text != "at" {
							sent = append(sent, text)
						}
					}
					return strings.TrimSpace(strings.Repeat("0 ", keys)), nil
				})
				r := NewRedis(client, WithBudget(time.Hour), WithInFlight(1))
				var group sync.WaitGroup
				for _, checks := range append([][]Check{one("first")}, c.calls...) { // the others wait for it
					group.Go(func() {
						if err := r.Decide(t.Context(), checks, make([]Decision, len(checks))); err != nil {
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
	random := rand.New(rand.NewPCG(3, 4))
	now := time.UnixMicro(1763683200_123_457)
	g := &gate{opened: make(chan struct{})}
	close(g.opened)
	client := redistest.Shared(t).Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	client.AddHook(g)
	newStore := func(prefix string) *Redis {
		return NewRedis(client, WithClock(func() time.Time { return now }), WithPrefix(prefix), WithBudget(time.Minute), WithInFlight(1), WithLogger(slog.New(slog.DiscardHandler)))
	}
	for round := range 60 {
		capacity := 1 + random.IntN(6)
		limits := []Limit{
			Leaky(capacity, Per(3, 7*time.Second)), Shaping(capacity, PerSecond(1)), TokenBucket(capacity, PerMinute(7)),
			GCRA(capacity, PerSecond(700_000)), FixedWindow(capacity, time.Minute), SlidingWindow(capacity, time.Minute),
			SlidingLog(capacity, time.Minute), Leaky(capacity, PerHour(1)).Named("plan"), GCRA(capacity, PerMinute(7)).Named("gcra"),
			SlidingWindow(capacity, time.Hour).Named("window"), SlidingLog(capacity, time.Hour).Named("log"),
		}
		random.Shuffle(len(limits), func(i, j int) { limits[i], limits[j] = limits[j], limits[i] })
		limits = limits[:1+random.IntN(3)] // few, so that many checks share theirs
		prefixes := [2]string{redistest.Prefix(t), redistest.Prefix(t)}
		stores := [2]*Redis{newStore(prefixes[0]), newStore(prefixes[1])}
		for batch := range 4 {
			calls := make([][]Check, 1+random.IntN(30))
			for i := range calls {
				if i > 0 && random.IntN(4) == 0 {
					calls[i] = calls[random.IntN(i)] // which are asked together
					continue
				}
				for place := range 1 + random.IntN(4)/3*random.IntN(3) {
					calls[i] = append(calls[i], Check{
						Key: fmt.Sprintf("%d-%d", i, place), Limit: limits[random.IntN(len(limits))], Cost: 1 + random.IntN(5)/4,
						Shadow: random.IntN(8) == 0, Mode: []Mode{Condition, Look, Charge, Charge, Charge, Charge, Charge, Charge}[random.IntN(8)],
					})
				}
			}
			var decided [2][][]Decision
			ask := func(at, i int) {
				if err := stores[at].Decide(t.Context(), slices.Clone(calls[i]), decided[at][i]); err != nil {
					t.Error(err)
				}
			}
			for at := range stores {
				decided[at] = make([][]Decision, len(calls))
				for i := range calls {
					decided[at][i] = make([]Decision, len(calls[i]))
				}
			}
			together(t, stores[0], g, len(calls), func(i int) { ask(0, i) })
			for i := range calls {
				ask(1, i)
				if !slices.Equal(decided[0][i], decided[1][i]) {
					t.Fatalf("round %d, batch %d: %v is told\n%+v in a batch, and alone\n%+v", round, batch, calls[i], decided[0][i], decided[1][i])
				}
			}
			packed, alone := states(t, client, prefixes[0]), states(t, client, prefixes[1])
			if !maps.Equal(packed, alone) {
				t.Fatalf("round %d, batch %d: %v\nleave\n%v in a batch, and alone\n%v", round, batch, calls, packed, alone)
			}
			for _, key := range slices.Sorted(maps.Keys(packed)) {
				if random.IntN(10) > 0 {
					continue
				}
				for _, prefix := range prefixes { // damage
					if err := client.Set(t.Context(), prefix+key, "nonsense", time.Hour).Err(); err != nil {
						t.Fatal(err)
					}
				}
			}
			now = now.Add(time.Duration(random.IntN(20)) * time.Second)
		}
	}
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
		default:
			state = client.Get(ctx, key).Val()
		}
		held[strings.TrimPrefix(key, prefix)] = fmt.Sprint(state)
	}
	return held
}
