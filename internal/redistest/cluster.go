package redistest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

const (
	masters = 3
	slots   = 16384
	// busOffset is how far above its port a node talks to the others. Redis 7
	// can be told another port; 6.2 cannot.
	busOffset = 10000
)

// Cluster is a Redis Cluster of three masters that share the slots evenly,
// without replicas.
type Cluster struct {
	nodes []*Server
}

// StartCluster starts a cluster and waits until every node says that it is
// complete, which takes some seconds. It ends with the test. Without a server
// program it does as [Start] does.
func StartCluster(tb testing.TB) *Cluster {
	tb.Helper()
	cluster := &Cluster{}
	for range masters {
		cluster.nodes = append(cluster.nodes, startNode(tb))
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

func startNode(tb testing.TB) *Server {
	tb.Helper()
	node, err := start(plan{
		prepare: alone([]string{"--cluster-enabled", "yes", "--cluster-announce-ip", loopback}),
		offsets: []int{busOffset},
	})
	if err != nil {
		giveUp(tb, err)
	}
	tb.Cleanup(func() { node.end(tb) })
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

// Addrs returns the addresses of the nodes, in the order of their slots.
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
	options := &redis.ClusterOptions{Addrs: c.Addrs()}
	for _, change := range opts {
		change(options)
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
