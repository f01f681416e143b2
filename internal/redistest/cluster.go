package redistest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/internal/dial"
)

const (
	masters = 3
	slots   = 16384
	// busOffset is how far above its port a node talks to the others. Redis 7
	// can be told another port; 6.2 cannot.
	busOffset = 10000
)

// Cluster is a Redis Cluster of three masters that share the slots evenly, and
// perhaps a replica of each.
type Cluster struct {
	nodes, replicas []*Server
}

// StartCluster starts a cluster and waits until every node says that it is
// complete, which takes some seconds. It ends with the test. Without a server
// program it does as [Start] does.
func StartCluster(tb testing.TB) *Cluster {
	tb.Helper()
	return startCluster(tb, endsWith(tb))
}

// endsWith ends a node with a test.
func endsWith(tb testing.TB) func(node *Server) {
	return func(node *Server) { tb.Cleanup(func() { node.end(tb) }) }
}

// StartReplicatedCluster does as [StartCluster] does, and gives each master a replica
// that takes its place when it is gone for some seconds: long enough that no node is taken
// for gone which only waits for a busy processor.
func StartReplicatedCluster(tb testing.TB) *Cluster {
	tb.Helper()
	arguments := []string{"--cluster-node-timeout", "2500", "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"}
	cluster := startCluster(tb, endsWith(tb), arguments...)
	for range masters {
		cluster.replicas = append(cluster.replicas, startNode(tb, endsWith(tb), arguments...))
	}
	ctx, cancel := patiently(tb)
	defer cancel()
	for i, replica := range cluster.replicas {
		if err := replicate(ctx, replica.Client(tb), cluster.nodes[i].Client(tb)); err != nil {
			tb.Fatal(err)
		}
	}
	for _, node := range cluster.nodes {
		client := node.Client(tb)
		if err := poll(ctx, func() error { return knowsReplicas(ctx, client) }); err != nil {
			tb.Fatal(err)
		}
	}
	return cluster
}

// replicate makes a node the replica of another, and returns when it follows.
func replicate(ctx context.Context, replica, master *redis.Client) error {
	host, port, err := net.SplitHostPort(master.Options().Addr)
	if err != nil {
		return fmt.Errorf("redistest: adding a replica: %w", err)
	}
	id, err := master.ClusterMyID(ctx).Result()
	if err != nil {
		return fmt.Errorf("redistest: adding a replica: %w", err)
	}
	if err := replica.ClusterMeet(ctx, host, port).Err(); err != nil {
		return fmt.Errorf("redistest: adding a replica: %w", err)
	}
	if err := poll(ctx, func() error { return replica.ClusterReplicate(ctx, id).Err() }); err != nil {
		return fmt.Errorf("redistest: adding a replica: %w", err)
	}
	return poll(ctx, func() error { return follows(ctx, replica) })
}

// knowsReplicas returns nil when a node knows a replica of every master.
func knowsReplicas(ctx context.Context, node *redis.Client) error {
	known, err := node.ClusterNodes(ctx).Result()
	if err != nil {
		return fmt.Errorf("redistest: asking a node: %w", err)
	}
	if strings.Count(known, "slave ") != masters || strings.Contains(known, "fail") || strings.Contains(known, "handshake") {
		return fmt.Errorf("redistest: a node does not know all replicas: %q", known)
	}
	return nil
}

// startCluster starts a cluster, and hands each node to keep as soon as it runs: who keeps it
// ends it.
func startCluster(tb testing.TB, keep func(node *Server), arguments ...string) *Cluster {
	tb.Helper()
	cluster := &Cluster{}
	for range masters {
		cluster.nodes = append(cluster.nodes, startNode(tb, keep, arguments...))
	}
	ctx, cancel := patiently(tb)
	defer cancel()
	clients := make([]*redis.Client, masters)
	for i, node := range cluster.nodes {
		clients[i] = node.Client(tb)
	}
	if err := join(ctx, clients); err != nil {
		tb.Fatal(err)
	}
	for _, client := range clients {
		if err := poll(ctx, func() error { return complete(ctx, client) }); err != nil {
			tb.Fatal(err)
		}
	}
	return cluster
}

func startNode(tb testing.TB, keep func(node *Server), arguments ...string) *Server {
	tb.Helper()
	node, err := start(plan{
		prepare: alone(append([]string{"--cluster-enabled", "yes", "--cluster-announce-ip", loopback}, arguments...)),
		offsets: []int{busOffset},
	})
	if err != nil {
		giveUp(tb, err)
	}
	keep(node)
	return node
}

// join deals the slots to the nodes and introduces every node to the others.
func join(ctx context.Context, clients []*redis.Client) error {
	for i, client := range clients {
		// Epochs that differ from the start spare the nodes a quarrel about them.
		if err := client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return fmt.Errorf("redistest: joining a cluster: %w", err)
		}
		first, next := i*slots/len(clients), (i+1)*slots/len(clients)
		if err := client.ClusterAddSlotsRange(ctx, first, next-1).Err(); err != nil {
			return fmt.Errorf("redistest: joining a cluster: %w", err)
		}
	}
	for i, client := range clients {
		for _, other := range clients[i+1:] {
			host, port, err := net.SplitHostPort(other.Options().Addr)
			if err != nil {
				return fmt.Errorf("redistest: joining a cluster: %w", err)
			}
			if err := client.ClusterMeet(ctx, host, port).Err(); err != nil {
				return fmt.Errorf("redistest: joining a cluster: %w", err)
			}
		}
	}
	return nil
}

// complete returns nil when a node knows an owner for every slot and serves.
func complete(ctx context.Context, client *redis.Client) error {
	info, err := client.ClusterInfo(ctx).Result()
	if err != nil {
		return fmt.Errorf("redistest: asking a node: %w", err)
	}
	for _, line := range []string{
		"cluster_state:ok\r\n",
		fmt.Sprintf("cluster_slots_ok:%d\r\n", slots),
		fmt.Sprintf("cluster_size:%d\r\n", masters),
	} {
		if !strings.Contains(info, line) {
			return fmt.Errorf("redistest: the cluster is not complete: %q lacks %q", info, line)
		}
	}
	return nil
}

// Nodes returns the three masters, in the order of their slots.
func (c *Cluster) Nodes() []*Server { return slices.Clone(c.nodes) }

// Replicas returns the replicas of the masters, in the same order. There are none but
// in a cluster from [StartReplicatedCluster].
func (c *Cluster) Replicas() []*Server { return slices.Clone(c.replicas) }

// Addrs returns the addresses of the masters, in the order of their slots.
func (c *Cluster) Addrs() []string {
	addresses := make([]string, len(c.nodes))
	for i, node := range c.nodes {
		addresses[i] = node.Addr()
	}
	return addresses
}

// URL returns the addresses in the form that redis.ParseClusterURL takes.
func (c *Cluster) URL() string {
	addresses := c.Addrs()
	return "redis://" + addresses[0] + "?addr=" + strings.Join(addresses[1:], "&addr=")
}

// Client returns a client of the cluster, closed with the test. The opts change
// the client's options before it is made.
func (c *Cluster) Client(tb testing.TB, opts ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	tb.Helper()
	options := &redis.ClusterOptions{Addrs: c.Addrs(), ContextTimeoutEnabled: true, MaxRetries: -1}
	for _, change := range opts {
		change(options)
	}
	if options.Dialer == nil { // as core.Open has it
		options.Dialer = dial.New(options.TLSConfig, options.DialTimeout)
	}
	client := redis.NewClusterClient(options)
	tb.Cleanup(func() { closeClient(tb, client) })
	return client
}

// Calls returns how often a command was called on all nodes together; see
// [Server.Calls].
func (c *Cluster) Calls(tb testing.TB, command string) int {
	tb.Helper()
	calls := 0
	for _, node := range c.nodes {
		calls += node.Calls(tb, command)
	}
	return calls
}
