package redistest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestClusterServesEverySlotAndEndsWithItsTest(t *testing.T) {
	var cluster *Cluster
	t.Run("serves", func(t *testing.T) {
		cluster = StartCluster(t)
		client := cluster.Client(t)
		for i := range 100 {
			roundTrip(t, client, fmt.Sprintf("key%d", i))
		}
		if got := cluster.Calls(t, "set"); got < 100 {
			t.Errorf("Calls(set) = %d, want at least 100", got)
		}
		for i, node := range cluster.Nodes() {
			if cluster.Addrs()[i] != node.Addr() {
				t.Errorf("Addrs()[%d] = %s, want %s", i, cluster.Addrs()[i], node.Addr())
			}
			if keys := node.Client(t).DBSize(t.Context()).Val(); keys == 0 {
				t.Errorf("node %s has none of 100 keys", node.Addr())
			}
		}
	})
	if cluster == nil {
		t.Skip("no cluster was started")
	}
	for _, node := range cluster.Nodes() {
		if err := dead(node); err != nil {
			t.Error(err)
		}
	}
}

func TestClusterURLNamesEveryNode(t *testing.T) {
	cluster := &Cluster{nodes: []*Server{{address: "127.0.0.1:1"}, {address: "127.0.0.1:2"}, {address: "127.0.0.1:3"}}}
	options, err := redis.ParseClusterURL(cluster.URL())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(options.Addrs, " "), strings.Join(cluster.Addrs(), " "); got != want {
		t.Errorf("%s names %s, want %s", cluster.URL(), got, want)
	}
}
