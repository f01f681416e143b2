package core_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// damage is something that no script of ours leaves in a key.
type damage struct {
	name  string
	write func(t *testing.T, client *redis.Client, key string)
}

func hash(name string, fields ...any) damage {
	return damage{name, func(t *testing.T, client *redis.Client, key string) { client.HSet(t.Context(), key, fields...) }}
}

func text(name, value string) damage {
	return damage{name, func(t *testing.T, client *redis.Client, key string) { client.Set(t.Context(), key, value, 0) }}
}

func list(name string, values ...any) damage {
	return damage{name, func(t *testing.T, client *redis.Client, key string) { client.RPush(t.Context(), key, values...) }}
}

var wrongTypes = map[string]damage{
	"string": text("a string", "abc"),
	"list":   list("a list", "abc"),
	"hash":   hash("a hash", "a", "b"),
	"set":    {"a set", func(t *testing.T, client *redis.Client, key string) { client.SAdd(t.Context(), key, "abc") }},
	"zset": {"a sorted set", func(t *testing.T, client *redis.Client, key string) {
		client.ZAdd(t.Context(), key, redis.Z{Score: 1, Member: "abc"})
	}},
}

// damages returns what can be wrong with the key of an algorithm.
func damages(algorithm string) []damage {
	own := map[string]string{"gcra": "string", "sliding-log": "list"}[algorithm]
	if own == "" {
		own = "hash"
	}
	var all []damage
	for _, kind := range slices.Sorted(maps.Keys(wrongTypes)) {
		if kind != own {
			all = append(all, wrongTypes[kind])
		}
	}
	values := []string{"abc", "-1", "1e300", "nan", "inf", "1.5", "", "99999999999999999999", "9007199254740992"}
	fields := map[string][]string{
		"leaky": {"level", "last_leak"}, "token-bucket": {"tokens", "last_refill"}, "shaping": {"next_free"},
		"fixed-window": {"count", "start"}, "sliding-window": {"current", "previous", "start"},
	}[algorithm]
	for _, value := range values {
		switch own {
		case "string":
			all = append(all, text("the value "+strconv.Quote(value), value))
		case "list":
			all = append(all, list("only "+strconv.Quote(value), value), list("many times "+strconv.Quote(value), value, value, value, value))
		default:
			for _, bad := range fields {
				var written []any
				for _, field := range fields {
					if field == bad {
						written = append(written, field, value)
					} else {
						written = append(written, field, "1")
					}
				}
				all = append(all, hash(bad+" "+strconv.Quote(value), written...))
			}
		}
	}
	if algorithm == "token-bucket" {
		all = append(all, hash("more tokens than fit", "tokens", "9007199254740991", "last_refill", "1"))
	}
	if len(fields) > 1 {
		for _, field := range fields {
			all = append(all, hash("only "+field, field, "1"))
		}
	}
	return all
}

// Damage is replaced, counted and logged, and spoils nothing for the neighbours in
// the same call.
func TestDamagedKeysAreReplaced(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	ctx := t.Context()
	neighbour := core.Leaky(100, core.PerHour(1)).Named("neighbour")
	for _, algorithm := range slices.Sorted(maps.Keys(hourly)) {
		for _, l := range []core.Quota{hourly[algorithm](2), hourly[algorithm](2).Named("named")} {
			for _, damage := range damages(l.Algorithm()) {
				t.Run(l.String()+" with "+damage.name, func(t *testing.T) {
					logger, words := report()
					prefix := redistest.Prefix(t)
					store := core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient), core.WithLogger(logger))
					limiter := core.New(store)
					key := redisKey(prefix, "key", l)
					damage.write(t, client, key)
					before := client.Dump(ctx, key).Val()
					if d, err := limiter.Peek(ctx, "key", l); err != nil || !d.Allowed || d.Remaining != 2 {
						t.Fatalf("peek: %+v, %v", d, err)
					}
					if d, err := limiter.Charge(ctx, "key", l, 1); err != nil || !d.Allowed || d.Remaining != 2 || d.ResetAfter != 0 {
						t.Fatalf("charge: %+v, %v", d, err) // the next check repairs it
					}
					if client.Dump(ctx, key).Val() != before || repairedBy(store) != 0 {
						t.Fatal("peek or charge has replaced it")
					}
					for i, want := range []int{1, 0, 0} {
						d, err := limiter.AllowAll(ctx,
							core.Check{Key: "key", Limit: neighbour, Cost: 1},
							core.Check{Key: "key", Limit: l, Cost: 1})
						if err != nil {
							t.Fatal(err)
						}
						if d[1].Remaining != want || d[1].Allowed != (i < 2) || d[0].Remaining != 99-min(i, 1) && d[0].Remaining != 98 {
							t.Fatalf("call %d: %+v", i, d)
						}
					}
					if ttl := client.PTTL(ctx, key).Val(); ttl <= 0 {
						t.Errorf("the new key has no time to live: %v", ttl)
					}
					if repairedBy(store) != 1 || !strings.Contains(words.String(), "limit="+l.Name()) || strings.Contains(words.String(), prefix) {
						t.Errorf("%d keys counted as replaced, want 1; logged %q", repairedBy(store), words)
					}
				})
			}
		}
	}
}

// redisKey returns the key that NewRedis documents.
func redisKey(prefix, subject string, l core.Limit) string {
	key := prefix + ":{" + subject + "}:"
	if l.Identity() != l {
		return key + l.Algorithm() + "=" + l.Name()
	}
	return key + l.Name()
}

// An impossible state, such as a level above the capacity or an instant in the far future,
// blocks no client for longer than a recovery.
func TestImpossibleStatesHeal(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	ctx := t.Context()
	const far = "9007199254740991"
	now := time.Now()
	for _, test := range []struct {
		limit core.Quota
		state damage
	}{
		{core.Leaky(2, core.PerSecond(1)), hash("full for ever", "level", far, "last_leak", far)},
		{core.TokenBucket(2, core.PerSecond(1)), hash("empty for ever", "tokens", "0", "last_refill", far)},
		{core.Shaping(2, core.PerSecond(1)), hash("busy for ever", "next_free", far)},
		{core.GCRA(2, core.PerSecond(1)), text("the far future", far)},
		{core.FixedWindow(2, time.Second), hash("a window of the future", "count", far, "start", far)},
		{core.SlidingWindow(2, time.Second), hash("a window of the future", "current", far, "previous", far, "start", far)},
		{core.SlidingLog(2, time.Second), list("instants of the future", far, far, far, far)},
		{core.SlidingLog(2, time.Second), list("instants in no order", far, "1", far, "1")},
		{core.SlidingLog(2, time.Second), list("the future before the past", far, far, "1")},
		{core.SlidingLog(2, time.Second), list("garbage in between", far, "abc", far)},
	} {
		for _, l := range []core.Quota{test.limit, test.limit.Named("named")} {
			t.Run(l.String()+" "+test.state.name, func(t *testing.T) {
				prefix := redistest.Prefix(t)
				clock := now
				limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient),
					core.WithClock(func() time.Time { return clock }), core.WithLogger(discard)))
				test.state.write(t, client, redisKey(prefix, "key", l))
				for range 3 {
					d, err := limiter.Allow(ctx, "key", l)
					if err != nil {
						t.Fatal(err)
					}
					if d.RetryAfter < 0 || d.NextAfter < 0 || d.ResetAfter < 0 || d.ResetAfter > 2*time.Second {
						t.Errorf("%+v, want no wait of more than a recovery", d)
					}
				}
				clock = clock.Add(2 * time.Second)
				if d, err := limiter.AllowN(ctx, "key", l, 2); err != nil || !d.Allowed {
					t.Errorf("after a recovery: %+v, %v", d, err)
				}
			})
		}
	}
}

// Numbers without end are damage.
func TestNumbersWithoutEnd(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	infinite := strings.Repeat("9", 400)
	now := strconv.FormatInt(time.Now().UnixMicro(), 10)
	for _, numbers := range []string{infinite + " 1", "1 " + infinite, infinite + " 1 1 1", "5 " + infinite + " 1 1", "5 1 " + infinite + " 1", "5 1 1 " + infinite, infinite} {
		for name, limit := range hourly {
			l := limit(5).Named("named")
			prefix := redistest.Prefix(t)
			key := redisKey(prefix, "key", l)
			switch l.Algorithm() {
			case "gcra":
				client.Set(t.Context(), key, now+" 0 "+numbers, 0)
			case "sliding-log":
				continue
			default:
				client.HSet(t.Context(), key, "level", "2", "last_leak", now, "tokens", "2", "last_refill", now, "next_free", now, "left", "0",
					"count", "2", "current", "2", "previous", "2", "start", now, "numbers", numbers)
			}
			limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient), core.WithLogger(discard)))
			if d, err := limiter.Allow(t.Context(), "key", l); err != nil || d.Remaining < 0 || d.Remaining > 5 || d.RetryAfter < 0 {
				t.Errorf("%s with %.20q: %+v, %v", name, numbers, d, err)
			}
		}
	}
}
