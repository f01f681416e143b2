package core_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

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
