package core_test

import (
	"context"
	"fmt"
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

// taken is places that somebody holds.
type taken struct {
	check   core.Check
	receipt core.Receipt
}

// take asks a store for places, once for each check.
func take(t *testing.T, store core.Store, check core.Check) (taken, core.Decision) {
	t.Helper()
	calls := []core.Call{{Checks: []core.Check{check}, Decisions: make([]core.Decision, 1), Receipts: make([]core.Receipt, 1)}}
	if _, err := store.Decide(t.Context(), calls); err != nil {
		t.Fatal(err)
	}
	return taken{check, calls[0].Receipts[0]}, calls[0].Decisions[0]
}

// renew renews places, and returns which of them were lost.
func renew(ctx context.Context, store core.Store, all ...taken) (lost []bool, err error) {
	settlements := make([]core.Settlement, len(all))
	for i, one := range all {
		settlements[i] = core.Settlement{Check: one.check, Receipt: one.receipt, Renew: true}
	}
	err = store.Settle(ctx, settlements)
	for i := range settlements {
		lost = append(lost, settlements[i].Lost)
	}
	return lost, err
}

// sorted is a sorted set with scores.
func sorted(name string, scores map[string]string) damage {
	return damage{name, func(t *testing.T, client *redis.Client, key string) {
		for _, member := range slices.Sorted(maps.Keys(scores)) {
			if err := client.Do(t.Context(), "zadd", key, scores[member], member).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}}
}

func damagedPlaces() (all []damage) {
	for _, kind := range slices.Sorted(maps.Keys(wrongTypes)) {
		all = append(all, wrongTypes[kind])
	}
	for _, token := range []string{"1", "1e300", "-1e300", "inf", "-inf", "-1.5", "-9007199254740992", "-99999999999999999999"} {
		all = append(all, sorted("the token "+token, map[string]string{".": token, "a.b.c": "99999999999999"}))
	}
	return append(all,
		sorted("no token", map[string]string{"a.b.c": strconv.FormatInt(time.Now().Add(time.Minute).UnixMicro(), 10)}),
		sorted("a holder before the token", map[string]string{".": "-5", "a.b.c": "-6"}),
		sorted("a lease that ended before 1970", map[string]string{".": "-5", "a.b.c": "-4"}),
		sorted("a holder of minus infinity", map[string]string{".": "-5", "a.b.c": "-inf"}))
}

// A key that cannot be one of places is replaced by whoever takes one, and nobody else.
func TestDamagedPlacesAreReplaced(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	ctx := t.Context()
	for _, l := range []core.Places{core.Concurrent(2, time.Minute), core.Concurrent(2, time.Minute).Named("named")} {
		for _, damage := range damagedPlaces() {
			t.Run(l.String()+" with "+damage.name, func(t *testing.T) {
				logger, words := report()
				prefix := redistest.Prefix(t)
				store := core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient), core.WithLogger(logger))
				limiter, check := core.New(store), core.Check{Key: "key", Limit: l}
				other, _ := take(t, store, core.Check{Key: "other", Limit: l})
				key := redisKey(prefix, "key", l)
				damage.write(t, client, key)
				before := client.Dump(ctx, key).Val()
				if d, err := limiter.Peek(ctx, "key", l); err != nil || !d.Allowed || d.Remaining != 2 {
					t.Fatalf("peek: %+v, %v", d, err)
				}
				elsewhere := taken{check, other.receipt}
				if lost, err := renew(ctx, store, elsewhere, other); err != nil || !lost[0] || lost[1] {
					t.Fatalf("renewed in a damaged key, and in another: lost %v, %v", lost, err)
				}
				if err := store.Settle(ctx, []core.Settlement{{Check: check, Receipt: other.receipt}}); err != nil {
					t.Fatalf("given back in a damaged key: %v", err)
				}
				if client.Dump(ctx, key).Val() != before || repairedBy(store) != 0 {
					t.Fatal("a peek or a settlement has replaced it")
				}
				first, d := take(t, store, check)
				if !d.Allowed || d.Remaining != 1 {
					t.Fatalf("the first: %+v", d)
				}
				if _, d := take(t, store, check); !d.Allowed || d.Remaining != 0 {
					t.Fatalf("the second: %+v", d)
				}
				if left := client.ZRange(ctx, key, 0, -1).Val(); len(left) != 3 {
					t.Errorf("it has %q, want the token and two places", left)
				}
				if _, d := take(t, store, check); d.Allowed || d.RetryAfter > time.Minute {
					t.Fatalf("the third: %+v", d)
				}
				if lost, err := renew(ctx, store, first); err != nil || lost[0] {
					t.Errorf("renewed after the repair: lost %v, %v", lost, err)
				}
				if repairedBy(store) != 1 || !strings.Contains(words.String(), "limit="+l.Name()) {
					t.Errorf("%d keys counted as replaced, want 1; logged %q", repairedBy(store), words)
				}
				damage.write(t, client, redisKey(prefix, "third", l))
				if err := limiter.Reset(ctx, "third", l); err != nil {
					t.Errorf("reset of a damaged key: %v", err)
				}
			})
		}
	}
}

// A reset frees all places, however many holders there are, and remembers the token.
func TestManyHoldersAreReset(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	prefix, now := redistest.Prefix(t), time.UnixMicro(1_795_000_000_000_000)
	store := core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient), core.WithClock(func() time.Time { return now }))
	limiter := core.New(store)
	check := core.Check{Key: "key", Limit: core.Concurrent(5000, time.Minute)}
	_, first := take(t, store, check)
	key, ends := redisKey(prefix, "key", check.Limit), float64(now.Add(time.Minute).UnixMicro())
	members := []redis.Z{{Score: -8_200_000_000_000_000 + 2000, Member: "*"}}
	for i := range 1000 {
		members = append(members, redis.Z{Score: ends, Member: fmt.Sprintf("a.b.%d*3", i)})
	}
	client.ZAdd(t.Context(), key, members...)
	if d, err := limiter.Peek(t.Context(), "key", check.Limit); err != nil || d.Remaining != 5000-3001 {
		t.Fatalf("%+v, %v", d, err)
	}
	if err := limiter.Reset(t.Context(), "key", check.Limit); err != nil {
		t.Fatal(err)
	}
	if left := client.ZRange(t.Context(), key, 0, -1).Val(); len(left) != 1 || left[0] != "." {
		t.Errorf("%d members are left: %.100v", len(left), left)
	}
	if _, d := take(t, store, check); !d.Allowed || d.Remaining != 4999 || d.Token <= first.Token {
		t.Errorf("%+v after a token %d", d, first.Token)
	}
}

// A holder whose lease would never end keeps others out for no longer than the longest lease.
func TestImpossibleHoldersLeave(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	for _, score := range []string{"inf", "1e300", "9007199254740991", "1795362331285391.5"} {
		t.Run(score, func(t *testing.T) {
			prefix, now := redistest.Prefix(t), time.UnixMicro(1_795_000_000_000_000)
			store := core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient), core.WithClock(func() time.Time { return now }))
			check := core.Check{Key: "key", Limit: core.Concurrent(2, time.Second)}
			sorted("", map[string]string{".": "-5", "a.b.c": score, "a.b.d": score}).write(t, client, redisKey(prefix, "key", check.Limit))
			if _, d := take(t, store, check); d.Allowed || d.RetryAfter != 10*time.Minute || d.NextAfter != 10*time.Minute {
				t.Errorf("%+v, want a denial for 10 minutes", d)
			}
			now = now.Add(10 * time.Minute)
			if _, d := take(t, store, check); !d.Allowed || d.Remaining != 1 {
				t.Errorf("after 10 minutes: %+v", d)
			}
		})
	}
}

// The places can be read with the ordinary client, as the Redis type documents it, and live ten minutes
// longer than their lease.
func TestPlacesAreReadable(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	ctx := t.Context()
	prefix := redistest.Prefix(t)
	store := core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient))
	check := core.Check{Key: "user:42", Limit: core.Concurrent(5, time.Minute), Cost: 2}
	before := client.Time(ctx).Val()
	held, d := take(t, store, check)
	after := client.Time(ctx).Val()
	key := onlyKey(t, client, prefix)
	if want := prefix + ":{user:42}:concurrent:5:1m"; key != want {
		t.Errorf("the key is %q, want %q", key, want)
	}
	expectPlaces := func(from, to time.Time) {
		t.Helper()
		members := client.ZRangeWithScores(ctx, key, 0, -1).Val()
		if len(members) != 3 || members[0].Member != "*" || members[1].Member != "." || members[1].Score != -float64(d.Token) {
			t.Fatalf("%v, want the token %d and two places", members, d.Token)
		}
		for _, m := range members[2:] {
			if got := m.Member.(string); !strings.HasSuffix(got, "*2") {
				t.Errorf("two places are called %q", got)
			}
			if ends := time.UnixMicro(int64(m.Score)); ends.Before(from.Add(time.Minute)) || ends.After(to.Add(time.Minute)) {
				t.Errorf("a lease of a minute that began from %v to %v ends at %v", from, to, ends)
			}
		}
		if ttl := client.PTTL(ctx, key).Val(); ttl < 11*time.Minute-10*time.Second || ttl > 11*time.Minute+2*time.Second {
			t.Errorf("the key lives for %v, want the lease and ten minutes", ttl)
		}
	}
	expectPlaces(before, after)
	client.Persist(ctx, key)
	before = client.Time(ctx).Val()
	if lost, err := renew(ctx, store, held); err != nil || lost[0] {
		t.Fatalf("lost %v, %v", lost, err)
	}
	expectPlaces(before, client.Time(ctx).Val())
	if err := store.Settle(ctx, []core.Settlement{{Check: check, Receipt: held.receipt}}); err != nil {
		t.Fatal(err)
	}
	if left := client.ZRange(ctx, key, 0, -1).Val(); len(left) != 1 || left[0] != "." {
		t.Errorf("%q are left, want the token", left)
	}
	if ttl := client.PTTL(ctx, key).Val(); ttl < 10*time.Minute {
		t.Errorf("the key lives for %v after the places were given back", ttl)
	}
}

// Each place that is taken prolongs the key's life if it has to.
func TestPlacesProlongTheirTimeToLive(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	prefix := redistest.Prefix(t)
	store := core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient),
		core.WithClock(func() time.Time { return time.UnixMicro(1_800_000_000_000_001) }))
	check := core.Check{Key: "key", Limit: core.Concurrent(9, time.Minute)}
	for i := range 3 {
		take(t, store, check)
		key := onlyKey(t, client, prefix)
		if ttl := client.PTTL(t.Context(), key).Val(); ttl < 11*time.Minute {
			t.Errorf("after place %d the key lives for %v, want the lease and ten minutes", i, ttl)
		}
		client.PExpire(t.Context(), key, time.Minute)
	}
}

// A key that has been robbed of its time to live gets it back from whoever takes a place or is denied.
func TestPlacesGetTheirTimeToLiveBack(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	ctx := t.Context()
	for _, denied := range []bool{false, true} {
		prefix, now := redistest.Prefix(t), time.Now()
		store := core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient), core.WithLogger(discard),
			core.WithClock(func() time.Time { now = now.Add(time.Microsecond); return now }))
		check := core.Check{Key: "key", Limit: core.Concurrent(1000, time.Minute)}
		if denied {
			check.Limit = core.Concurrent(1, time.Minute)
		}
		take(t, store, check)
		key := onlyKey(t, client, prefix)
		client.Persist(ctx, key)
		for range 500 { // one in sixteen looks
			if _, d := take(t, store, check); d.Allowed == denied {
				t.Fatalf("%+v", d)
			}
		}
		// With a clock of its own, a store keeps keys for an hour longer.
		if ttl := client.PTTL(ctx, key).Val(); ttl < 11*time.Minute || ttl > 73*time.Minute {
			t.Errorf("the key lives for %v after 500 calls", ttl)
		}
		if repairedBy(store) != 1 {
			t.Errorf("%d keys counted as repaired, want 1", repairedBy(store))
		}
	}
}

// In a cluster a call takes places on several servers, or none, and each renewal says whether it was lost.
func TestPlacesInCluster(t *testing.T) {
	store := core.NewRedis(redistest.SharedCluster(t).Client(t), core.WithBudget(patient), core.WithPrefix(redistest.Prefix(t)))
	l, limiter := core.Concurrent(2, time.Minute), core.New(store)
	var all []taken
	for i := range 12 {
		one, d := take(t, store, core.Check{Key: fmt.Sprint("key-", i), Limit: l})
		if !d.Allowed || d.Token == 0 {
			t.Fatalf("%+v", d)
		}
		all = append(all, one)
	}
	for i := 0; i < len(all); i += 3 {
		if err := limiter.Reset(t.Context(), all[i].check.Key, l); err != nil {
			t.Fatal(err)
		}
	}
	lost, err := renew(t.Context(), store, all...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range lost {
		if lost[i] != (i%3 == 0) {
			t.Errorf("renewal %d: lost %t", i, lost[i])
		}
	}
	var checks []core.Check
	for i := range 12 {
		checks = append(checks, core.Check{Key: fmt.Sprint("key-", i), Limit: l, Cost: 2})
	}
	r, err := limiter.Reserve(t.Context(), checks...)
	if err != nil || r.Allowed() {
		t.Fatalf("%+v, %v, want a denial", r, err)
	}
	for i := range 12 {
		if d := r.Decisions()[i]; d.Token != 0 {
			t.Errorf("a denied call got the token %d", d.Token)
		}
		want := 1
		if i%3 == 0 {
			want = 2
		}
		if d, err := limiter.Peek(t.Context(), checks[i].Key, l); err != nil || d.Remaining != want {
			t.Errorf("key-%d after a denied call: %+v, %v, want %d of 2 free", i, d, err, want)
		}
	}
}

// A process that has died leaves places whose leases end, and whoever takes a place next tells of that, once.
func TestPlacesOfTheDeadAreReclaimed(t *testing.T) {
	now := time.UnixMicro(1_800_000_000_000_000)
	var reclaimed []core.Limit
	store := core.NewRedis(redistest.Shared(t).Client(t), core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient),
		core.WithClock(func() time.Time { return now }),
		core.WithTrace(core.Trace{Reclaimed: func(l core.Limit) { reclaimed = append(reclaimed, l) }}))
	limit := core.Concurrent(2, time.Minute).Named("exports")
	check := core.Check{Key: "key", Limit: limit}
	take(t, store, check)
	given, _ := take(t, store, check)
	if err := store.Settle(t.Context(), []core.Settlement{{Check: check, Receipt: given.receipt}}); err != nil {
		t.Fatal(err)
	}
	take(t, store, check)
	if len(reclaimed) > 0 {
		t.Fatalf("%v were reclaimed while leases last", reclaimed)
	}
	now = now.Add(time.Minute)
	if d, err := core.New(store).Peek(t.Context(), "key", limit); err != nil || d.Remaining != 2 || len(reclaimed) > 0 {
		t.Fatalf("%+v, %v; %v were reclaimed by a look", d, err, reclaimed)
	}
	for range 2 {
		if _, d := take(t, store, check); !d.Allowed {
			t.Fatalf("%+v", d)
		}
	}
	if len(reclaimed) != 1 || reclaimed[0] != limit {
		t.Errorf("reclaimed %v, want %v once", reclaimed, limit)
	}
}

// However many places a call takes, it adds one member. They are counted, renewed and given back together.
func TestManyPlacesAreOneMember(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	prefix, now := redistest.Prefix(t), time.UnixMicro(1_800_000_000_000_000)
	store := core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient), core.WithClock(func() time.Time { return now }))
	limit := core.Concurrent(100_000, time.Minute)
	expect := func(remaining int) {
		t.Helper()
		if d, err := core.New(store).Peek(t.Context(), "key", limit); err != nil || d.Remaining != remaining {
			t.Fatalf("%+v, %v, want %d free", d, err, remaining)
		}
	}
	many, d := take(t, store, core.Check{Key: "key", Limit: limit, Cost: 99_998})
	if !d.Allowed || d.Remaining != 2 {
		t.Fatalf("%+v", d)
	}
	if n := client.ZCard(t.Context(), onlyKey(t, client, prefix)).Val(); n > 3 {
		t.Errorf("%d members", n)
	}
	one, _ := take(t, store, core.Check{Key: "key", Limit: limit})
	if _, d := take(t, store, core.Check{Key: "key", Limit: limit, Cost: 2}); d.Allowed || d.Remaining != 1 || d.RetryAfter != time.Minute {
		t.Errorf("%+v, want a denial for a minute", d)
	}
	now = now.Add(30 * time.Second)
	if lost, err := renew(t.Context(), store, many); err != nil || lost[0] {
		t.Fatal(lost, err)
	}
	now = now.Add(30 * time.Second) // the one has ended
	expect(2)
	if _, d := take(t, store, core.Check{Key: "key", Limit: limit, Cost: 2}); !d.Allowed || d.Remaining != 0 {
		t.Fatalf("%+v", d)
	}
	now = now.Add(30 * time.Second) // the many have
	expect(99_998)
	if _, d := take(t, store, core.Check{Key: "key", Limit: limit, Cost: 50_000}); !d.Allowed || d.Remaining != 49_998 {
		t.Fatalf("%+v", d)
	}
	if err := store.Settle(t.Context(), []core.Settlement{{Check: many.check, Receipt: many.receipt}, {Check: one.check, Receipt: one.receipt}}); err != nil {
		t.Fatal(err)
	}
	expect(49_998)
}

// Holders that die together leave bit by bit, and are no longer counted from when their leases end.
func TestHoldersThatDieTogetherLeaveBitByBit(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	prefix, now := redistest.Prefix(t), time.UnixMicro(1_800_000_000_000_000)
	store := core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient), core.WithClock(func() time.Time { return now }))
	check := core.Check{Key: "key", Limit: core.Concurrent(2000, time.Minute)}
	for range 2000 {
		if _, d := take(t, store, check); !d.Allowed {
			t.Fatalf("%+v", d)
		}
	}
	now = now.Add(time.Minute)
	key, left := onlyKey(t, client, prefix), int64(2001)
	for i := range 2000 {
		_, d := take(t, store, check)
		if !d.Allowed || d.Remaining != 1999-i {
			t.Fatalf("call %d: %+v", i, d)
		}
		n := client.ZCard(t.Context(), key).Val()
		if gone := left + 1 - n; gone > 256 {
			t.Fatalf("call %d has removed %d holders", i, gone)
		}
		left = n
	}
	if left != 2001 {
		t.Errorf("%d members are left, want the token and 2000 holders", left)
	}
	if _, d := take(t, store, check); d.Allowed {
		t.Errorf("%+v", d)
	}
}

// A call that takes places of one limit by several checks holds all of them: they are renewed and given back together.
func TestPlacesOfOneLimitAreHeldTogether(t *testing.T) {
	t.Parallel() // it waits for a renewal
	renewals := make(chan core.Renewal, 1000)
	store := core.NewRedis(redistest.Shared(t).Client(t), core.WithBudget(patient), core.WithPrefix(redistest.Prefix(t)))
	l := core.New(store, core.WithTrace(core.Trace{Renewal: func(r core.Renewal) { renewals <- r }}))
	t.Cleanup(func() { l.Close() })
	limit := core.Concurrent(3, 10*time.Second)
	r, err := l.WaitAll(t.Context(), []core.Check{{Key: "a", Limit: limit}, {Key: "a", Limit: limit}})
	if err != nil {
		t.Fatal(err)
	}
	p := r.Permit(t.Context())
	if renewal := <-renewals; renewal.Held == 0 || renewal.Lost > 0 {
		t.Errorf("%+v: %v", renewal, p.Err())
	}
	free(t, store, "a", limit, 2)
	p.Release()
	free(t, store, "a", limit, 0)
}
