package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Topology is how a client spreads keys over servers. At most one of Single, Cluster and Ring is
// set. None of them is set for a client of an unknown kind, which may hide a cluster.
type Topology struct {
	Client  redis.UniversalClient
	Single  *redis.Client // of one server, or of the master that sentinels name
	Cluster *redis.ClusterClient
	Ring    *redis.Ring
}

// TopologyOf returns the topology of a client.
func TopologyOf(client redis.UniversalClient) Topology {
	t := Topology{Client: client}
	switch client := client.(type) {
	case *redis.Client:
		t.Single = client
	case *redis.ClusterClient:
		t.Cluster = client
	case *redis.Ring:
		t.Ring = client
	}
	return t
}

// Sharded reports whether different keys may be on different servers.
func (t Topology) Sharded() bool { return t.Cluster != nil || t.Ring != nil }

// Packs reports whether a script call may have keys that have nothing in common, as long as they
// are on one server.
func (t Topology) Packs() bool { return t.Single != nil || t.Ring != nil }

// ServerOf returns the client of the server that has a hash tag, where there are several servers.
// A cluster's client fetches the map of the cluster first, if it has none.
func (t Topology) ServerOf(ctx context.Context, tag string) (*redis.Client, error) {
	if t.Cluster != nil {
		return t.Cluster.MasterForKey(ctx, tag)
	}
	return t.Ring.GetShardClientForKey(tag)
}

// Each calls a function for each server that has keys, for several at once, and returns the first
// error.
func (t Topology) Each(ctx context.Context, do func(ctx context.Context, server redis.UniversalClient) error) error {
	one := func(ctx context.Context, server *redis.Client) error { return do(ctx, server) }
	switch {
	case t.Cluster != nil:
		return t.Cluster.ForEachMaster(ctx, one)
	case t.Ring != nil:
		return t.Ring.ForEachShard(ctx, one)
	}
	return do(ctx, t.Client)
}
