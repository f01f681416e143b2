package faults_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/faultproxy"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// clusterSite is a cluster and the way to each of its nodes.
type clusterSite struct {
	*redistest.Cluster

	proxies map[string]*faultproxy.Proxy // by the address of the node
	prefix  string
}

func newClusterSite(t *testing.T, cluster *redistest.Cluster) *clusterSite {
	t.Helper()
	s := &clusterSite{Cluster: cluster, proxies: make(map[string]*faultproxy.Proxy), prefix: redistest.Prefix(t)}
	for _, node := range append(cluster.Nodes(), cluster.Replicas()...) {
		s.proxies[node.Addr()] = faultproxy.Start(t, node.Addr())
	}
	return s
}

// set has the same happen on the way to every node.
func (s *clusterSite) set(f faultproxy.Fault) {
	for _, p := range s.proxies {
		p.Set(f)
	}
}

// limiter returns a limiter whose client is set up as core.Open does.
func (s *clusterSite) limiter(t *testing.T, budget time.Duration, options ...core.Option) *core.Limiter {
	t.Helper()
	timeout := longer(budget)
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: s.Addrs(), MaxRetries: -1, ContextTimeoutEnabled: true,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			var dialer net.Dialer
			if p := s.proxies[addr]; p != nil {
				addr = p.Addr()
			}
			return dialer.DialContext(ctx, network, addr)
		},
	})
	limiter := core.New(core.NewRedis(client, append([]core.Option{core.WithPrefix(s.prefix), core.WithBudget(budget), core.WithLogger(discard)}, options...)...))
	t.Cleanup(func() {
		_ = limiter.Close()
		_ = client.Close()
	})
	return limiter
}

func (s *clusterSite) reader(t *testing.T) *core.Limiter {
	t.Helper()
	return core.New(core.NewRedis(s.Client(t, func(o *redis.ClusterOptions) { o.MaxRedirects = 100 }),
		core.WithPrefix(s.prefix), core.WithBudget(patient), core.WithLogger(discard)))
}

// Whatever the network between a cluster and its client does, no charge is repeated.
func TestNetworkOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	for _, test := range []struct {
		name  string
		fault faultproxy.Fault
	}{
		{"resets after the server has decided", faultproxy.Fault{CutReplies: true}},
		{"a reply cut short", faultproxy.Fault{Truncate: 3}},
		{"latency beyond the budget", faultproxy.Fault{Latency: 2 * budget}},
		{"replies that never come", faultproxy.Fault{LoseReplies: true}},
		{"nobody listens", faultproxy.Fault{Refuse: true}},
		{"resets of what has been charged", faultproxy.Fault{When: "evalsha", CutReplies: true}},
		{"answers cut short", faultproxy.Fault{When: "evalsha", Truncate: 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newClusterSite(t, cluster)
			l := begin(t, budget, s.limiter(t, budget), s.limiter(t, budget, core.WithBreaker(0, 0)))
			l.awaitNormal()
			s.set(test.fault)
			l.awaitFailures(outage)
			s.set(faultproxy.Fault{})
			l.awaitNormal()
			l.close(s.reader(t), 0)
			if l.seen("garbled") {
				t.Errorf("a broken connection was taken for an answer: %v", l.failures["garbled"])
			}
		})
	}
}

// While slots move from node to node, calls are answered, and no count is lost.
func TestSlotsMove(t *testing.T) {
	t.Parallel()
	s := newClusterSite(t, redistest.StartCluster(t))
	l := begin(t, patient, s.limiter(t, patient))
	l.awaitNormal()
	for round := range 2 {
		for _, a := range l.accounts {
			s.move(t, strings.ReplaceAll(a.key, " ", "%20"), round, func() { l.awaitAsked(2 * callers) })
		}
	}
	l.awaitNormal()
	l.close(s.reader(t), 0)
	if n := l.failed.Load(); n > 0 {
		t.Errorf("%d calls failed: %v", n, l.failures)
	}
}

// A call about two limits of a key, of which one has moved to another node and the other has not, is decided as ever: all
// are charged, or none is.
func TestCallAboutAKeyThatIsHalfMoved(t *testing.T) {
	t.Parallel()
	s := newClusterSite(t, redistest.StartCluster(t))
	limiter := s.limiter(t, patient, core.WithBreaker(0, 0))
	checks := []core.Check{
		{Key: "key", Limit: core.Leaky(10, core.PerDay(1)), Cost: 1},
		{Key: "key", Limit: core.GCRA(10, core.PerDay(1)), Cost: 1},
	}
	remaining := func(want int) {
		t.Helper()
		decisions, err := limiter.AllowAll(t.Context(), checks...)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range decisions {
			if d.Remaining != want {
				t.Errorf("%d of %s remain, want %d", d.Remaining, d.Limit, want)
			}
		}
		denied := []core.Check{checks[0], {Key: "key", Limit: checks[1].Limit, Cost: 10}}
		if decisions, err := limiter.AllowAll(t.Context(), denied...); err != nil || decisions[1].Allowed {
			t.Errorf("a call that does not fit: %+v, %v", decisions, err)
		}
	}
	remaining(9)
	left := 9
	s.move(t, "key", 0, func() {
		left--
		remaining(left)
	})
	remaining(left - 1)
}

// move moves the slot of a hash tag to the next node but some. It gives others time
// before each key, and before the slot has a new owner.
func (s *clusterSite) move(t *testing.T, tag string, some int, meanwhile func()) {
	t.Helper()
	ctx := t.Context()
	var nodes []*redis.Client
	var ids []string
	for _, node := range s.Nodes() {
		client := node.Client(t)
		nodes, ids = append(nodes, client), append(ids, client.ClusterMyID(ctx).Val())
	}
	slot := nodes[0].ClusterKeySlot(ctx, tag).Val()
	from := s.owner(t, slot, nodes)
	to := (from + 1 + some) % len(nodes)
	do := func(node int, words ...any) {
		t.Helper()
		if err := nodes[node].Do(ctx, words...).Err(); err != nil {
			t.Fatalf("%v: %v", words, err)
		}
	}
	do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[from])
	do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to])
	host, port, _ := strings.Cut(s.Nodes()[to].Addr(), ":")
	meanwhile()
	for {
		keys := nodes[from].ClusterGetKeysInSlot(ctx, int(slot), 1).Val()
		if len(keys) == 0 {
			break
		}
		do(from, "MIGRATE", host, port, keys[0], 0, 10_000)
		meanwhile()
	}
	for i := range nodes { // the new owner first
		do((to+i)%len(nodes), "CLUSTER", "SETSLOT", slot, "NODE", ids[to])
	}
}

// owner returns which node has a slot, as soon as all agree about that and about the
// epoch: a node that has not heard of the last move yet would give the next one the same
// epoch, and then the others might never agree.
func (s *clusterSite) owner(t *testing.T, slot int64, nodes []*redis.Client) (owner int) {
	t.Helper()
	await(t, "the nodes agree", func() error {
		owners, epochs := make(map[string]bool), make(map[string]bool)
		for _, node := range nodes {
			info, err := node.ClusterInfo(t.Context()).Result()
			if err != nil {
				return err
			}
			_, epoch, _ := strings.Cut(info, "cluster_current_epoch:")
			epoch, _, _ = strings.Cut(epoch, "\r\n")
			epochs[epoch] = true
			ranges, err := node.ClusterSlots(t.Context()).Result()
			if err != nil {
				return err
			}
			for _, r := range ranges {
				if int64(r.Start) <= slot && slot <= int64(r.End) {
					owners[r.Nodes[0].Addr] = true
					owner = slices.Index(s.Addrs(), r.Nodes[0].Addr)
				}
			}
		}
		if len(owners) != 1 || len(epochs) != 1 {
			return fmt.Errorf("slot %d is said to be on %v, in the epochs %v", slot, owners, epochs)
		}
		return nil
	})
	return owner
}

// When a master is gone, its replica takes its place; what has not reached it is lost,
// and never more is admitted than the limit twice.
func TestMasterIsReplacedByItsReplica(t *testing.T) {
	t.Parallel()
	s := newClusterSite(t, redistest.StartReplicatedCluster(t))
	l := begin(t, budget, s.limiter(t, budget), s.limiter(t, budget, core.WithBreaker(0, 0)))
	l.awaitNormal()
	s.Nodes()[0].Stop(t)
	l.awaitFailures(100)
	await(t, "the replica is a master", func() error {
		info := s.Replicas()[0].Client(t).Info(t.Context(), "replication").Val()
		if !strings.Contains(info, "role:master\r\n") {
			return fmt.Errorf("%q", info)
		}
		return nil
	})
	l.awaitNormal()
	l.close(s.reader(t), 1)
}
