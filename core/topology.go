package core

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/internal/dial"
)

// topology is how a client spreads keys over servers. At most one of single, cluster and ring is
// set; none of them is for a client of a kind that is not known, which may hide a cluster.
type topology struct {
	client  redis.UniversalClient
	single  *redis.Client // of one server, or of the master that sentinels name
	cluster *redis.ClusterClient
	ring    *redis.Ring
}

func topologyOf(client redis.UniversalClient) topology {
	t := topology{client: client}
	switch client := client.(type) {
	case *redis.Client:
		t.single = client
	case *redis.ClusterClient:
		t.cluster = client
	case *redis.Ring:
		t.ring = client
	}
	return t
}

// sharded reports whether different keys may be on different servers.
func (t topology) sharded() bool { return t.cluster != nil || t.ring != nil }

// packs reports whether a script call may have keys that have nothing in common, as long as they
// are on one server.
func (t topology) packs() bool { return t.single != nil || t.ring != nil }

// serverOf returns the client of the server that has a hash tag, where there are several servers.
// A cluster's client fetches the map of the cluster first, if it has none.
func (t topology) serverOf(ctx context.Context, tag string) (*redis.Client, error) {
	if t.cluster != nil {
		return t.cluster.MasterForKey(ctx, tag)
	}
	return t.ring.GetShardClientForKey(tag)
}

// each calls a function for each server that has keys, for several at once, and returns the first
// error.
func (t topology) each(ctx context.Context, do func(ctx context.Context, server redis.UniversalClient) error) error {
	one := func(ctx context.Context, server *redis.Client) error { return do(ctx, server) }
	switch {
	case t.cluster != nil:
		return t.cluster.ForEachMaster(ctx, one)
	case t.ring != nil:
		return t.ring.ForEachShard(ctx, one)
	}
	return do(ctx, t.client)
}

// heedsDeadline reports whether the client is known to end a call when its context does. It may
// not while it connects: go-redis shakes hands for TLS without looking at the context, and what
// its user has it do then is not known.
func (t topology) heedsDeadline() bool {
	switch {
	case t.single != nil:
		o := t.single.Options()
		return o.ContextTimeoutEnabled && o.TLSConfig == nil && o.OnConnect == nil && o.CredentialsProvider == nil &&
			ownDialer(o.Dialer)
	case t.cluster != nil:
		o := t.cluster.Options()
		return o.ContextTimeoutEnabled && o.TLSConfig == nil && o.OnConnect == nil && o.CredentialsProvider == nil && ownDialer(o.Dialer)
	case t.ring != nil:
		o := t.ring.Options()
		return o.ContextTimeoutEnabled && o.TLSConfig == nil && o.OnConnect == nil && ownDialer(o.Dialer)
	}
	return false
}

// ownDialer reports whether a dialer is the client's own, which its options have when they were
// given none, or was made by [Dialer]: both heed deadlines.
func ownDialer(dialer dial.Func) bool {
	return dialer == nil || dial.Client(dialer) || dial.Made(dialer)
}
