package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/redisstore"
)

// patience is how long a call may take by which the doctor finds out how long calls take. It
// is longer than a usual budget, so that a slow server is found to be slow.
const patience = 5 * time.Second

func examineRedis(ctx context.Context, store *redisstore.Store, balances bool) Report {
	if closed := store.Closed(); closed != nil {
		return Report{{Name: "store", Severity: Problem, Found: closed.Error(), Meaning: undecided}}
	}
	own := examineClient(store.Topology())
	var (
		mu      sync.Mutex
		servers []Report
	)
	examine := func(ctx context.Context, client *redis.Client) error {
		found := examineServer(ctx, store, client, addressOf(client), balances)
		mu.Lock()
		defer mu.Unlock()
		servers = append(servers, found)
		return nil
	}
	switch t := store.Topology(); {
	case t.Cluster != nil:
		if err := t.Cluster.ForEachMaster(ctx, examine); err != nil {
			own = append(own, connectionProblem(err))
		}
	case t.Ring != nil:
		_ = t.Ring.ForEachShard(ctx, examine) // examine returns none
		own = append(own, examineRing(t.Ring, servers))
	case t.Single != nil:
		_ = examine(ctx, t.Single)
	default:
		servers = append(servers, examineServer(ctx, store, t.Client, "the server", balances))
	}
	slices.SortFunc(servers, func(a, b Report) int { return cmp.Compare(a[0].Server, b[0].Server) })
	return append(own, slices.Concat(servers...)...)
}

// sentinelsMaster is the name of the server that sentinels name.
const sentinelsMaster = "the sentinels' master"

// addressOf returns the name of a client's server.
func addressOf(client *redis.Client) string {
	if address := client.Options().Addr; address != "FailoverClient" { // as go-redis calls it
		return address
	}
	return sentinelsMaster
}

// examineRing finds the shards that are down, to which nothing has been sent.
func examineRing(ring *redis.Ring, up []Report) Finding {
	down := slices.Sorted(maps.Values(ring.Options().Addrs))
	for _, report := range up {
		if i := slices.Index(down, report[0].Server); i >= 0 {
			down = slices.Delete(down, i, i+1)
		}
	}
	all := len(ring.Options().Addrs)
	if len(down) == 0 {
		return Finding{Name: "ring", Severity: OK, Found: fmt.Sprintf("all of %d shards are up", all)}
	}
	return Finding{
		Name: "ring", Severity: Problem,
		Found:   fmt.Sprintf("%d of %d shards are down: %s", len(down), all, strings.Join(down, ", ")),
		Meaning: "Their keys are counted on other shards, from nothing, until they are back.",
		Advice:  "Look whether they run, and whether the user may run PING, by which a ring sees that.",
	}
}

// examination is the look at one server.
type examination struct {
	store   *redisstore.Store // under examination
	client  redis.UniversalClient
	server  string
	limiter *core.Limiter // asks this server alone, and patiently
	subject string        // an unused key, on this server

	balances bool // are kept there, too

	about  map[string]string // the answer to HELLO
	info   map[string]string // the answer to INFO
	noInfo error             // why it says nothing

	mayDelete bool
	full      bool // a write was refused for lack of memory
	found     Report
}

// examineServer finds out about one server.
func examineServer(ctx context.Context, store *redisstore.Store, client redis.UniversalClient, server string, balances bool) Report {
	e := &examination{store: store, client: client, server: server, balances: balances}
	e.limiter = core.New(core.NewRedis(client, core.WithPrefix(store.Prefix), core.WithBudget(patience), core.WithBreaker(0, 0),
		core.WithLogger(slog.New(slog.DiscardHandler))))
	defer func() { _ = e.limiter.Close() }() // the client is not its own
	if err := e.introduce(ctx); err != nil {
		e.add(connectionProblem(err))
		return e.found
	}
	e.lookAtServer()
	serves := e.lookAtRole()
	if e.about["mode"] == "cluster" && e.ofCluster() {
		e.lookAtCluster(ctx)
	}
	e.lookAtMemory()
	e.lookAtClock(ctx)
	if !serves {
		return e.found
	}
	subject, err := e.unusedSubject(ctx)
	if err != nil {
		e.add(connectionProblem(err))
		return e.found
	}
	e.subject = subject
	e.lookAtPermissions(ctx)
	e.lookAtScripts(ctx)
	e.lookAtFullness()
	e.lookAtLatency(ctx)
	return e.found
}

func (e *examination) add(f Finding) {
	f.Server = e.server
	e.found = append(e.found, f)
}

// ofCluster reports whether the client that is examined is one for a cluster.
func (e *examination) ofCluster() bool { return e.store.Topology().Cluster != nil }

// tag returns the beginning of the Redis keys of the subject.
func (e *examination) tag() string {
	return string(call.AppendTag(nil, e.store.Prefix, e.subject))
}

// unusedSubject returns an unused key that is on this server if there are several servers.
func (e *examination) unusedSubject(ctx context.Context) (string, error) {
	const tries = 100_000 // enough for the smallest part of a large cluster
	for range tries {
		subject := "doctor:" + rand.Text()
		if !e.store.Topology().Sharded() {
			return subject, nil
		}
		on, err := e.store.Topology().ServerOf(ctx, string(call.AppendSubject(nil, subject)))
		if err != nil {
			return "", err
		}
		if e.client == redis.UniversalClient(on) {
			return subject, nil
		}
	}
	return "", errors.New("no key is found that is on this server")
}
