package redisstore

import (
	"crypto/tls"
	"maps"
	"slices"

	"github.com/weir-go/ratelimit/internal/dial"
)

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
