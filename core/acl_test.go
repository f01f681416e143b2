package core_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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
	files, err := filepath.Glob("internal/script/testdata/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	calls := regexp.MustCompile(`\b(?:call|try|unless_damaged|change_places)\('([A-Z]+)'`)
	called := []string{"eval", "evalsha"}
	for _, file := range files {
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
	failures = append(failures, usePlaces(ctx, store, func(d time.Duration) { now = now.Add(d) }))
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
			if useEverything(t.Context(), client) == nil {
				t.Errorf("all goes well without %s", command)
			}
		})
	}
}

func TestLeastPrivilegeInCluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	as := func(name string) *redis.ClusterClient {
		return cluster.Client(t, func(o *redis.ClusterOptions) {
			o.Username, o.Password, o.MaxRetries, o.ContextTimeoutEnabled = name, "secret", -1, true
		})
	}
	for _, node := range cluster.Nodes() {
		redistest.SetUser(t, node.Client(t), "limiter", redistest.ClusterUser)
		for _, command := range redistest.CommandsOf(redistest.ClusterUser) {
			redistest.SetUser(t, node.Client(t), command, redistest.Without(redistest.ClusterUser, "+"+command))
		}
	}
	client := as("limiter")
	conforming(t, client, cluster.Nodes()...)

	t.Run("needs cluster|slots", func(t *testing.T) {
		if useEverything(t.Context(), as("cluster|slots")) == nil {
			t.Error("all goes well without it")
		}
	})

	t.Run("needs lrem", func(t *testing.T) {
		if got := leftAfterDenial(t, as("lrem")); got != 2 {
			t.Errorf("%d of 3 are left after a call that another server denied, want 2", got)
		}
	})

	t.Run("needs command", func(t *testing.T) {
		before := cluster.Calls(t, "command")
		_ = useEverything(t.Context(), as("limiter"))
		if cluster.Calls(t, "command") == before {
			t.Skip("this version of go-redis does not ask for it")
		}
		refusals := func() int {
			n := 0
			for _, node := range cluster.Nodes() {
				n += rejected(t, node, "command")
			}
			return n
		}
		refused := refusals()
		_ = useEverything(t.Context(), as("command"))
		if refusals()-refused < len(hourly) {
			t.Error("without it, go-redis does not ask again and again")
		}
	})

	t.Run("needs asking", func(t *testing.T) {
		const key = "user:on the move"
		migrating(t, cluster, key)
		for name, works := range map[string]bool{"limiter": true, "asking": false} {
			limiter := core.New(core.NewRedis(as(name), core.WithBudget(patient)))
			if _, err := limiter.Allow(t.Context(), key, core.GCRA(5, core.PerHour(1))); (err == nil) != works {
				t.Errorf("as %s, while the slot moves: %v", name, err)
			}
		}
	})
}

// rejected returns how often a server has refused a command.
func rejected(t *testing.T, server *redistest.Server, command string) int {
	t.Helper()
	for line := range strings.Lines(server.Client(t).Info(t.Context(), "commandstats").Val()) {
		if strings.HasPrefix(line, "cmdstat_"+command+":") {
			_, rest, _ := strings.Cut(line, "rejected_calls=")
			n := 0
			_, _ = fmt.Sscanf(rest, "%d", &n)
			return n
		}
	}
	return 0
}

// leftAfterDenial asks about two keys on different servers, one of which denies, and
// returns what is left of 3 under the other.
func leftAfterDenial(t *testing.T, client redis.UniversalClient) int {
	t.Helper()
	limiter := core.New(core.NewRedis(client, allowedPrefix(), core.WithBudget(patient)))
	log, one := core.SlidingLog(3, time.Hour), core.GCRA(1, core.PerHour(1))
	left := 3
	for i := range 10 { // some of which are on other servers than the first
		key, full := fmt.Sprint("key-", i), fmt.Sprint("full-", i)
		if _, err := limiter.Allow(t.Context(), full, one); err != nil {
			t.Fatal(err)
		}
		decisions, err := limiter.AllowAll(t.Context(), core.Check{Key: key, Limit: log, Cost: 1}, core.Check{Key: full, Limit: one, Cost: 1})
		if err != nil || decisions[1].Allowed {
			t.Fatalf("%+v, %v, want a denial", decisions, err)
		}
		d, err := limiter.AllowN(t.Context(), key, log, 0)
		if err != nil {
			t.Fatal(err)
		}
		left = min(left, d.Remaining)
	}
	return left
}

// migrating begins to move a key's slot from its server to another.
func migrating(t *testing.T, cluster *redistest.Cluster, key string) {
	t.Helper()
	ctx := t.Context()
	first := cluster.Nodes()[0].Client(t)
	slot := int(first.ClusterKeySlot(ctx, strings.ReplaceAll(key, " ", "%20")).Val())
	third := 16384/3 + 1
	from, to := cluster.Nodes()[min(slot/third, 2)].Client(t), cluster.Nodes()[(min(slot/third, 2)+1)%3].Client(t)
	source, target := from.Do(ctx, "cluster", "myid").Val(), to.Do(ctx, "cluster", "myid").Val()
	for _, err := range []error{
		to.Do(ctx, "cluster", "setslot", slot, "importing", source).Err(),
		from.Do(ctx, "cluster", "setslot", slot, "migrating", target).Err(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestLeastPrivilegeInRing(t *testing.T) {
	servers := map[string]*redistest.Server{"a": redistest.Start(t), "b": redistest.Start(t)}
	addresses := map[string]string{}
	for name, server := range servers {
		addresses[name] = server.Addr()
		redistest.SetUser(t, server.Client(t), "limiter", redistest.RingUser)
		redistest.SetUser(t, server.Client(t), "ping", redistest.Without(redistest.RingUser, "+ping"))
		redistest.SetUser(t, server.Client(t), "lrem", redistest.Without(redistest.RingUser, "+lrem"))
	}
	as := func(name string) *redis.Ring {
		ring := redis.NewRing(&redis.RingOptions{
			Addrs: addresses, Username: name, Password: "secret", MaxRetries: -1, ContextTimeoutEnabled: true,
			HeartbeatFrequency: 10 * time.Millisecond,
		})
		t.Cleanup(func() { _ = ring.Close() })
		return ring
	}
	conforming(t, as("limiter"), servers["a"], servers["b"])

	t.Run("needs lrem", func(t *testing.T) {
		if got := leftAfterDenial(t, as("lrem")); got != 2 {
			t.Errorf("%d of 3 are left after a call that another server denied, want 2", got)
		}
	})

	t.Run("needs ping", func(t *testing.T) {
		ring := as("ping")
		ctx, cancel := context.WithTimeout(t.Context(), patient)
		defer cancel()
		for ring.Len() > 0 { // three heartbeats
			select {
			case <-ctx.Done():
				t.Fatalf("%d shards of a ring that may not ping are up", ring.Len())
			case <-time.After(time.Millisecond):
			}
		}
	})
}

func TestLeastPrivilegeOfSentinels(t *testing.T) {
	sentinel := redistest.StartSentinel(t)
	redistest.SetUser(t, sentinel.Master().Client(t), "limiter", redistest.AloneUser)
	admin := redis.NewClient(&redis.Options{Addr: sentinel.Addr()})
	t.Cleanup(func() { _ = admin.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	// ask makes a call with a client that starts as some user of the sentinels.
	ask := func(t *testing.T, user string) error {
		if err := admin.Do(ctx, "acl", "log", "reset").Err(); err != nil {
			t.Fatal(err)
		}
		client := sentinel.Client(t, func(o *redis.FailoverOptions) {
			o.SentinelUsername, o.SentinelPassword = user, "secret"
			o.Username, o.Password = "limiter", "secret"
		})
		_, err := core.New(core.NewRedis(client, core.WithBudget(patient))).Allow(ctx, "key", core.GCRA(100, core.PerHour(1)))
		return err
	}

	redistest.SetUser(t, admin, "limiter", redistest.SentinelUser)
	if err := ask(t, "limiter"); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(admin.ClientList(ctx).Val(), " sub=2 ") { // what follows the first answer
		if ctx.Err() != nil {
			t.Fatalf("the client does not listen for a new master:\n%s", admin.ClientList(t.Context()).Val())
		}
	}
	wantNothingRefused(t, admin)

	for rule := range strings.FieldsSeq(redistest.SentinelUser) {
		object, needed := rule[1:], rule[0] == '+' || rule[0] == '&'
		if !needed {
			continue
		}
		t.Run("needs "+object, func(t *testing.T) {
			redistest.SetUser(t, admin, "without", redistest.Without(redistest.SentinelUser, rule))
			_ = ask(t, "without")                     // some of it happens later, in the background
			command, _, _ := strings.Cut(object, "|") // which is all that Redis 6.2 logs
			for missed := false; !missed; {
				refused := refusedBy(t, admin)
				missed = slices.Contains(refused, object) || slices.Contains(refused, command)
				if !missed && ctx.Err() != nil {
					t.Fatalf("nothing is missed without %s", rule)
				}
			}
		})
	}
}
