package redisstore

import (
	"context"
	"crypto/tls"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/internal/dial"
)

const (
	defaultPrefix      = "ratelimit"
	defaultBudget      = 100 * time.Millisecond
	defaultInFlight    = 2
	defaultMostWaiting = 65_536

	defaultBreakerFailures = 5
	defaultBreakerPause    = 500 * time.Millisecond
)

// Defaults returns the Config of a client as it is without options.
func Defaults(client redis.UniversalClient) Config {
	return Config{
		Client:          client,
		Prefix:          defaultPrefix,
		Budget:          defaultBudget,
		InFlight:        defaultInFlight,
		MostWaiting:     defaultMostWaiting,
		BreakerFailures: defaultBreakerFailures,
		BreakerPause:    defaultBreakerPause,
		Logger:          slog.Default,
	}
}

// WarnOfClient logs which settings of a user's client can do harm.
func (r *Store) WarnOfClient() {
	logger := r.Logger()
	settings, known := r.topology.Settings()
	if settings.Retries > 0 {
		logger.Warn("core: the redis client repeats a call when the answer is late, so a request may be charged twice: set MaxRetries to -1")
	}
	if known && !settings.Deadlines {
		logger.Warn("core: the redis client ignores deadlines, which makes each call slower: set ContextTimeoutEnabled")
	}
	if known && settings.NoDialer {
		logger.Warn("core: in a crowd the redis client may read answers too late: set Dialer to core.Dialer(nil), or to core.Dialer(config) for TLS")
	}
}

// Settings are the options of a client that matter to a limiter.
type Settings struct {
	Retries   int  // how often the client repeats a command
	Redirects int  // how many redirections the client of a cluster follows
	Deadlines bool // it is told to end a call when its context does
	NoDialer  bool // it was given no dialer: its connections are go-redis' own
	Plain     bool // its dialer is one of core.Dialer that does not speak TLS
	TLS       *tls.Config
	Network   string
	Addresses []string
}

// Settings returns the settings of the client, if it is of a known kind.
func (t Topology) Settings() (s Settings, known bool) {
	switch {
	case t.Single != nil:
		o := t.Single.Options()
		return Settings{o.MaxRetries, 0, o.ContextTimeoutEnabled, dial.Default(o.Dialer), dial.Plain(o.Dialer), o.TLSConfig, o.Network, []string{o.Addr}}, true
	case t.Cluster != nil:
		o := t.Cluster.Options()
		return Settings{o.MaxRetries, o.MaxRedirects, o.ContextTimeoutEnabled, dial.Default(o.Dialer), dial.Plain(o.Dialer), o.TLSConfig, "tcp", o.Addrs}, true
	case t.Ring != nil:
		o := t.Ring.Options()
		addresses := slices.Collect(maps.Values(o.Addrs))
		return Settings{o.MaxRetries, 0, o.ContextTimeoutEnabled, dial.Default(o.Dialer), dial.Plain(o.Dialer), o.TLSConfig, "tcp", addresses}, true
	}
	return Settings{}, false
}

// HeedsDeadline reports whether the client is known to end a call when its context does. It may not while it connects:
// go-redis shakes hands for TLS without looking at the context, and hooks of the user's on a new connection are unknown.
func (t Topology) HeedsDeadline() bool {
	switch {
	case t.Single != nil:
		o := t.Single.Options()
		return o.ContextTimeoutEnabled && o.TLSConfig == nil && o.OnConnect == nil && o.CredentialsProvider == nil &&
			ownDialer(o.Dialer)
	case t.Cluster != nil:
		o := t.Cluster.Options()
		return o.ContextTimeoutEnabled && o.TLSConfig == nil && o.OnConnect == nil && o.CredentialsProvider == nil && ownDialer(o.Dialer)
	case t.Ring != nil:
		o := t.Ring.Options()
		return o.ContextTimeoutEnabled && o.TLSConfig == nil && o.OnConnect == nil && ownDialer(o.Dialer)
	}
	return false
}

// ownDialer reports whether a dialer is the client's own, which its options have when they were
// given none, or was made by core.Dialer: both heed deadlines.
func ownDialer(dialer dial.Func) bool {
	return dialer == nil || dial.Client(dialer) || dial.Made(dialer)
}

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
