package admin_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/admin"
	"github.com/weir-go/ratelimit/core/denialcache"
	"github.com/weir-go/ratelimit/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

// patient is a budget that a busy machine cannot exceed.
const patient = 30 * time.Second

// listAll returns all that is listed, each once, and how many pages there were.
func listAll(t *testing.T, l *core.Limiter, prefix string) (listed map[admin.Entry]bool, pages int) {
	t.Helper()
	listed = make(map[admin.Entry]bool)
	for cursor := ""; ; pages++ {
		keys, next, err := admin.List(t.Context(), l, prefix, cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			listed[key] = true
		}
		if next == "" {
			return listed, pages + 1
		}
		cursor = next
	}
}

func TestListOnEveryStore(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{
		"one": redistest.Start(t).Addr(), "two": redistest.Start(t).Addr(),
	}})
	t.Cleanup(func() { _ = ring.Close() })
	server := redistest.Start(t).Client(t)
	for name, store := range map[string]core.Store{
		"memory":       core.NewMemory(),
		"redis":        core.NewRedis(server, core.WithBudget(patient), core.WithPrefix("app[1]*")),
		"cluster":      core.NewRedis(redistest.StartCluster(t).Client(t), core.WithBudget(patient)),
		"ring":         core.NewRedis(ring, core.WithBudget(patient)),
		"denial cache": denialcache.New(core.NewMemory(), 10),
	} {
		t.Run(name, func(t *testing.T) {
			l := core.New(store)
			ctx := t.Context()
			if err := server.Set(ctx, "something:else", "1", 0).Err(); err != nil {
				t.Fatal(err)
			}
			want := make(map[admin.Entry]bool)
			allow := func(check core.Check) {
				if _, err := l.AllowAll(ctx, check); err != nil {
					t.Fatal(err)
				}
				want[admin.Entry{
					Key: check.Key, Limit: check.Limit.Name(), Algorithm: check.Limit.Algorithm(),
					Named: check.Limit.Identity() != check.Limit, Shadow: check.Shadow,
				}] = true
			}
			for i := range 600 {
				allow(core.Check{Key: fmt.Sprint("user:", i), Limit: core.Leaky(10, core.PerHour(1)), Cost: 1})
			}
			for _, key := range []string{"user:7*", "user:{7}", "user: é", "user:%41", `user:\`, "user:[7]"} {
				allow(core.Check{Key: key, Limit: core.FixedWindow(3, time.Hour).Named("a"), Cost: 1})
				allow(core.Check{Key: key, Limit: core.SlidingLog(3, time.Hour), Cost: 1, Shadow: true})
			}
			allow(core.Check{Key: "other", Limit: core.GCRA(3, core.PerHour(1)).Named("named"), Cost: 1})
			got, pages := listAll(t, l, "")
			if !maps.Equal(got, want) {
				t.Errorf("listed %d in %d pages, want %d", len(got), pages, len(want))
			}
			maps.DeleteFunc(want, func(k admin.Entry, _ bool) bool { return !strings.HasPrefix(k.Key, "user:7") })
			if got, _ := listAll(t, l, "user:7"); !maps.Equal(got, want) {
				t.Errorf("listed %v, want %v", slices.Collect(maps.Keys(got)), slices.Collect(maps.Keys(want)))
			}
			if got, _ := listAll(t, l, "user:7*"); len(got) != 2 {
				t.Errorf("listed %v under user:7*, want that key with its two limits", got)
			}
			if _, _, err := admin.List(ctx, l, "", "nonsense"); err == nil {
				t.Error("a cursor of nonsense is no error")
			}
		})
	}
}

// Every store hashes the same keys, and lists what is hashed, and what looks like it,
// alike.
func TestStoresListLongKeysAlike(t *testing.T) {
	limit := core.Leaky(1, core.PerHour(1))
	keys := []string{
		"#5", "##", "#" + strings.Repeat("A", 43), "a" + strings.Repeat("é", 15), "a" + strings.Repeat("é", 16),
		strings.Repeat("a", 96), strings.Repeat("a", 97), strings.Repeat("a", 1000), strings.Repeat("%", 32), strings.Repeat("%", 33),
	}
	stores := map[string]core.Store{
		"memory": core.NewMemory(),
		"redis":  core.NewRedis(redistest.Start(t).Client(t), core.WithBudget(patient)),
	}
	for prefix, want := range map[string]struct{ plain, hashed int }{
		"": {6, 4}, "#": {3, 4}, "##": {1, 0}, "#5": {1, 0}, "#A": {1, 0}, "a": {2, 0}, "%": {1, 0}, "#" + strings.Repeat("A", 43): {1, 0},
	} {
		listed := make(map[string]map[admin.Entry]bool)
		for name, store := range stores {
			l := core.New(store)
			for _, key := range keys {
				if _, err := l.Allow(t.Context(), key, limit); err != nil {
					t.Fatal(err)
				}
			}
			listed[name], _ = listAll(t, l, prefix)
			plain, hashed := 0, 0
			for key := range listed[name] {
				if key.Hashed {
					hashed++
				} else if plain++; !slices.Contains(keys, key.Key) {
					t.Errorf("%s lists %+v", name, key)
				}
			}
			if plain != want.plain || hashed != want.hashed {
				t.Errorf("%s lists %d keys and %d hashes under %q, want %d and %d", name, plain, hashed, prefix, want.plain, want.hashed)
			}
		}
		if !maps.Equal(listed["memory"], listed["redis"]) {
			t.Errorf("memory lists %v under %q, redis %v", listed["memory"], prefix, listed["redis"])
		}
	}
}

// What settlements remember of a key that was reset is no usage. On Redis it is a part of the state, whose key is listed.
func TestPastsAreNoUsage(t *testing.T) {
	for name, store := range map[string]core.Store{
		"memory": core.NewMemory(),
		"redis":  core.NewRedis(redistest.Start(t).Client(t), core.WithBudget(patient)),
	} {
		l, limit := core.New(store), core.Leaky(10, core.PerHour(1))
		if _, err := l.Allow(t.Context(), "key", limit); err != nil {
			t.Fatal(err)
		}
		if err := l.Reset(t.Context(), "key", limit); err != nil {
			t.Fatal(err)
		}
		if got, _ := listAll(t, l, ""); len(got) > 1 || name == "memory" && len(got) > 0 {
			t.Errorf("%s lists %v after a Reset", name, got)
		}
		if d, err := l.Peek(t.Context(), "key", limit); err != nil || d.Remaining != 10 {
			t.Errorf("%s has %d left after a Reset: %v", name, d.Remaining, err)
		}
	}
}

// plain is a store that cannot list.
type plain struct{ core.Store }

func TestListOfAStoreThatCannot(t *testing.T) {
	if _, _, err := admin.List(t.Context(), core.New(plain{core.NewMemory()}), "", ""); err == nil {
		t.Error("no error")
	}
}

// orderly is a store that lists its keys by itself.
type orderly struct{ core.Store }

func (orderly) List(_ context.Context, prefix, _ string) (keys []admin.Entry, next string, err error) {
	return []admin.Entry{{Key: prefix}}, "", nil
}

func TestListOfAStoreOfYourOwn(t *testing.T) {
	for _, store := range []core.Store{orderly{}, denialcache.New(orderly{}, 10)} {
		keys, _, err := admin.List(t.Context(), core.New(store), "user:", "")
		if err != nil || len(keys) != 1 || keys[0].Key != "user:" {
			t.Errorf("%T lists %v, %v", store, keys, err)
		}
	}
}

func TestListOfAClosedStore(t *testing.T) {
	for _, url := range []string{"memory:", redistest.Shared(t).URL()} {
		l, err := core.Open(url)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		if _, _, err := admin.List(t.Context(), l, "", ""); core.FailureOf(err) != core.Closed {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// panicking is a hook of a client.
type panicking struct{}

func (panicking) DialHook(next redis.DialHook) redis.DialHook { return next }

func (panicking) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { panic("hook") }
}

func (panicking) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A hook of the client that panics fails the call, in whatever goroutine.
func TestHookThatPanicsFailsTheList(t *testing.T) {
	for _, heeds := range []bool{true, false} {
		client := redis.NewClient(&redis.Options{Addr: "192.0.2.1:6379", ContextTimeoutEnabled: heeds})
		client.AddHook(panicking{})
		t.Cleanup(func() { _ = client.Close() })
		_, _, err := admin.List(t.Context(), core.New(core.NewRedis(client)), "", "")
		if err == nil || !strings.Contains(err.Error(), "panicked: hook") {
			t.Errorf("%v, want the panic's error", err)
		}
	}
}

func TestDescribe(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, store := range map[string]core.Store{
		"memory": core.NewMemory(core.WithClock(func() time.Time { return now })),
		"redis": core.NewRedis(redistest.Start(t).Client(t), core.WithBudget(patient),
			core.WithClock(func() time.Time { return now })),
	} {
		t.Run(name, func(t *testing.T) {
			now = time.Unix(1_800_000_000, 0)
			l, ctx := core.New(store), context.Background()
			limits := []core.Limit{
				core.Leaky(10, core.PerSecond(1)), core.TokenBucket(10, core.PerMinute(10)), core.Shaping(10, core.PerHour(1)),
				core.FixedWindow(10, time.Hour), core.SlidingLog(10, 24*time.Hour), core.GCRA(10, core.PerSecond(1)).Named("api"),
			}
			for _, limit := range limits {
				if _, err := l.AllowN(ctx, "key", limit.(core.Quota), 8); err != nil {
					t.Fatal(err)
				}
			}
			guessing := core.Ban{Strikes: core.SlidingLog(5, time.Minute), First: 10 * time.Minute}.Named("guessing")
			scanning := core.Ban{Strikes: core.SlidingLog(5, time.Minute)}.Named("scanning")
			if _, err := l.Strike(ctx, "key", guessing, 2); err != nil {
				t.Fatal(err)
			}
			if err := l.Ban(ctx, "key", scanning, 10*time.Minute, "scraping"); err != nil {
				t.Fatal(err)
			}
			now = now.Add(680 * time.Millisecond)
			got, err := admin.Describe(ctx, l, "key", append(limits, core.Leaky(3, core.PerSecond(1)), guessing.Limit(), scanning.Limit())...)
			want := `leaky:10:1/s: 8 of 10, next drip in 320 ms
token-bucket:10:10/m: 8 of 10, next token in 5.4 s
shaping:10:1/h: 8 of 10, next turn in 1h0m0s
fixed-window:10:1h: 8 of 10, window ends in 1h0m0s
sliding-log:10:1d: 8 of 10, next in 24h0m0s
api: 8 of 10, next in 320 ms
leaky:3:1/s: 0 of 3
guessing: 2 of 5, strike expires in 59.4 s
scanning: banned for 10m0s`
			if err != nil || got != want {
				t.Errorf("%v, described\n%s\nwant\n%s", err, got, want)
			}
			if _, err := admin.Describe(ctx, l, "key"); err == nil {
				t.Error("no limits are no error")
			}
		})
	}
}

func TestDescribeTime(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ms", 1500 * time.Microsecond: "2 ms", 999*time.Millisecond + 1: "1.0 s", 2340 * time.Millisecond: "2.4 s",
		59*time.Second + 950*time.Millisecond: "1m0s", 90*time.Second + 1: "1m31s", 48 * time.Hour: "48h0m0s",
		529*time.Hour + 40*time.Minute: "22d2h", core.Never: "never",
	} {
		if got := admin.DescribeTime(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
