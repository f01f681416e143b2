package core_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

func TestDocumentedUsers(t *testing.T) {
	for _, file := range []string{"../docs/redis-in-production.md", "redis.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		flat := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "//", "")), " ")
		for _, user := range []string{redistest.AloneUser, redistest.ClusterUser, redistest.RingUser, redistest.SentinelUser} {
			if rest := strings.SplitAfter(flat, "ACL SETUSER limiter "+user+" "); len(rest) < 2 || strings.HasPrefix(rest[1], "+") {
				t.Errorf("%s does not have the user %q", file, user)
			}
		}
	}
}

// wantNothingRefused fails if a server has refused a command to any user, in the
// background or where only a log would tell.
func wantNothingRefused(t *testing.T, client *redis.Client) {
	t.Helper()
	for _, object := range refusedBy(t, client) {
		t.Errorf("%q was refused", object)
	}
}

// refusedBy returns what a server has refused: commands, keys and channels.
func refusedBy(t *testing.T, client *redis.Client) (objects []string) {
	t.Helper()
	// The reply is read as it is: ACLLog of an older go-redis fails on what newer servers tell of a client.
	entries, err := client.Do(t.Context(), "acl", "log", 100).Slice()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		object := objectOf(entry)
		if object == "" {
			t.Fatalf("an entry of ACL LOG names no object: %v", entry)
		}
		if !strings.HasPrefix(object, "client") { // go-redis introduces itself, and does not mind
			objects = append(objects, object)
		}
	}
	return objects
}

// objectOf returns what an entry of ACL LOG is about. An entry is a map, or in RESP2 a list of names and values.
func objectOf(entry any) string {
	switch fields := entry.(type) {
	case map[any]any:
		object, _ := fields["object"].(string)
		return object
	case []any:
		if at := slices.Index(fields, any("object")); at >= 0 && at+1 < len(fields) {
			object, _ := fields[at+1].(string)
			return object
		}
	}
	return ""
}

// allowedPrefix returns a prefix of keys that the users may touch.
func allowedPrefix() core.Option { return core.WithPrefix("ratelimit:" + rand.Text()) }

// conforming uses everything with a client, and fails if a server refuses its user anything. The laws
// send no other commands: see TestScriptsCallWhatTheUsersMay.
func conforming(t *testing.T, client redis.UniversalClient, servers ...*redistest.Server) {
	t.Helper()
	if err := useEverything(t.Context(), client); err != nil {
		t.Error(err)
	}
	if left := leftAfterDenial(t, client); left != 3 {
		t.Errorf("%d of 3 are left after a call that another key denied, want 3", left)
	}
	for _, server := range servers {
		wantNothingRefused(t, server.Client(t))
	}
}

// The documented users may run each command that a script calls, and no other but those that send scripts.
func TestScriptsCallWhatTheUsersMay(t *testing.T) {
	files, err := filepath.Glob("internal/script/lua/*.lua")
	inner, inErr := filepath.Glob("internal/script/lua/*/*.lua")
	if err = errors.Join(err, inErr); err != nil || len(files) == 0 || len(inner) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	calls := regexp.MustCompile(`\b(?:call|try)\('([A-Z]+)'`)
	called := []string{"eval", "evalsha", "script|exists", "script|load", "subscribe"}
	for _, file := range append(files, inner...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range calls.FindAllStringSubmatch(string(text), -1) {
			called = append(called, strings.ToLower(call[1]))
		}
	}
	slices.Sort(called)
	called = slices.Compact(called)
	allowed := redistest.CommandsOf(redistest.AloneUser)
	slices.Sort(allowed)
	if !slices.Equal(called, allowed) {
		t.Errorf("the scripts call %q, and the users may run %q", called, allowed)
	}
}

// useEverything makes a limiter use all that it ever uses of a server.
func useEverything(ctx context.Context, client redis.UniversalClient) error {
	now := time.Now()
	prefix := allowedPrefix()
	store := core.NewRedis(client, prefix, core.WithBudget(patient), core.WithClock(func() time.Time { return now }))
	clocked := core.New(store)
	failures := []error{core.New(core.NewRedis(client, prefix, core.WithBudget(patient))).Ping(ctx)}
	for name, limit := range hourly {
		for range 2 { // the second call finds what the first has left, in part expired
			_, err := clocked.Allow(ctx, name, limit(3))
			failures = append(failures, err)
			now = now.Add(59 * time.Minute)
		}
		now = now.Add(59 * time.Minute)
		_, err := clocked.Allow(ctx, name, limit(3))
		now = now.Truncate(16 * time.Microsecond) // when a denial looks at the time to live
		_, denied := clocked.AllowN(ctx, name, limit(3), 4)
		failures = append(failures, err, denied, clocked.Reset(ctx, name, limit(3)))
		// Settled among what others were charged, and given back.
		for _, cost := range []int{2, 0} {
			reserved, err := clocked.Reserve(ctx, core.Check{Key: name, Limit: limit(9), Cost: 1})
			if err != nil {
				failures = append(failures, err)
				continue
			}
			now = now.Add(time.Second)
			_, err = clocked.Allow(ctx, name, limit(9))
			failures = append(failures, err, reserved.Settle(ctx, cost))
		}
		_, err = clocked.Refund(ctx, name, limit(9), 1)
		failures = append(failures, err)
	}
	_, _, err := clocked.TopUp(ctx, "balance", core.Balance(), 3, "payment")
	failures = append(failures, err, usePlaces(ctx, store, func(d time.Duration) { now = now.Add(d) }))
	return errors.Join(failures...)
}

// usePlaces makes a limiter use all that it ever uses of a server for places.
func usePlaces(ctx context.Context, store core.Store, wait func(time.Duration)) error {
	var failures []error
	limit := core.Concurrent(4, time.Minute)
	reserve := func(cost int) taken {
		check := core.Check{Key: "places", Limit: limit, Cost: cost}
		calls := []core.Call{{Checks: []core.Check{check}, Decisions: make([]core.Decision, 1), Receipts: make([]core.Receipt, 1)}}
		_, err := store.Decide(ctx, calls)
		failures = append(failures, err)
		return taken{check, calls[0].Receipts[0]}
	}
	reserve(1)
	wait(time.Second)
	held := reserve(3)
	reserve(2)
	wait(59 * time.Second) // the first one's lease has ended
	reserve(1)
	_, err := renew(ctx, store, held)
	given := store.Settle(ctx, []core.Settlement{{Check: held.check, Receipt: held.receipt}})
	return errors.Join(append(failures, err, given, store.Reset(ctx, "places", []core.Limit{limit}))...)
}

// useWaiters has two processes wait for each other.
func useWaiters(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	limit, prefix := core.Concurrent(1, time.Minute), allowedPrefix()
	var group sync.WaitGroup
	for range 2 {
		limiter := core.New(core.NewRedis(client, prefix, core.WithBudget(patient), core.WithLogger(discard)))
		defer limiter.Close()
		group.Go(func() {
			for range 5 {
				p, err := limiter.Acquire(t.Context(), "waiters", limit)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(20 * time.Millisecond)
				p.Release()
			}
		})
	}
	group.Wait()
}

func TestLeastPrivilege(t *testing.T) {
	server := redistest.Start(t)
	as := func(name string) *redis.Client {
		return server.Client(t, func(o *redis.Options) {
			o.Username, o.Password, o.MaxRetries, o.ContextTimeoutEnabled = name, "secret", -1, true
		})
	}
	redistest.SetUser(t, server.Client(t), "limiter", redistest.AloneUser)
	client := as("limiter")
	conforming(t, client, server)
	useWaiters(t, client)
	wantNothingRefused(t, server.Client(t))

	t.Run("can do nothing else", func(t *testing.T) {
		for _, call := range [][]any{{"get", "other"}, {"flushall"}, {"config", "get", "*"}, {"keys", "*"}} {
			if err := client.Do(t.Context(), call...).Err(); !redis.HasErrorPrefix(err, "NOPERM") {
				t.Errorf("%v: %v, want NOPERM", call, err)
			}
		}
	})

	for _, command := range redistest.CommandsOf(redistest.AloneUser) {
		t.Run("needs "+command, func(t *testing.T) {
			redistest.SetUser(t, server.Client(t), command, redistest.Without(redistest.AloneUser, "+"+command))
			server.Client(t).ScriptFlush(t.Context())
			client := as(command)
			if command == "publish" || command == "subscribe" { // without it, waiters poll
				useWaiters(t, client)
				if refused := refusedBy(t, server.Client(t)); !slices.ContainsFunc(refused, func(object string) bool { return strings.HasPrefix(object, command) }) {
					t.Errorf("refused %q, want %s among them", refused, command)
				}
				return
			}
			if useEverything(t.Context(), client) == nil && !strings.HasPrefix(command, "script|") { // these save a first call its round trip
				t.Errorf("all goes well without %s", command)
			}
		})
	}
}
