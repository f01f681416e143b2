package core

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/redisstore"
	"github.com/weir-go/ratelimit/internal/dial"
)

// A client that is set up for TLS never speaks to a server without it.
func TestADialerThatForgetsTLSPanics(t *testing.T) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	for name, c := range map[string]struct {
		config, given *tls.Config
		panics        bool
	}{
		"no TLS": {nil, nil, false}, "TLS": {config, config, false}, "TLS that is forgotten": {config, nil, true},
	} {
		for kind, client := range map[string]redis.UniversalClient{
			"a server":  redis.NewClient(&redis.Options{Addr: "localhost:1", TLSConfig: c.config, Dialer: Dialer(c.given)}),
			"a cluster": redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"localhost:1"}, TLSConfig: c.config, Dialer: Dialer(c.given)}),
			"a ring":    redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "localhost:1"}, TLSConfig: c.config, Dialer: Dialer(c.given)}),
		} {
			func() {
				defer func() {
					if panicked := recover() != nil; panicked != c.panics {
						t.Errorf("%s to %s: panics %t, want %t", name, kind, panicked, c.panics)
					}
				}()
				NewRedis(client, WithLogger(slog.New(slog.DiscardHandler)))
			}()
			_ = client.Close()
		}
	}
}

// A client with our dialer is known to heed deadlines, and one with a user's is not.
func TestDialersAreTold(t *testing.T) {
	own := func(context.Context, string, string) (net.Conn, error) { return nil, errors.ErrUnsupported }
	for name, c := range map[string]struct {
		dialer           dial.Func
		heeds, looksOnce bool
	}{
		"none":         {nil, true, true},
		"ours":         {Dialer(nil), true, false},
		"ours of Open": {dial.New(nil, time.Second), true, false},
		"the user's":   {own, false, false},
	} {
		client := redis.NewClient(&redis.Options{Addr: "localhost:1", ContextTimeoutEnabled: true, Dialer: c.dialer})
		settings, _ := redisstore.TopologyOf(client).Settings()
		if heeds := redisstore.TopologyOf(client).HeedsDeadline(); heeds != c.heeds || settings.NoDialer != c.looksOnce {
			t.Errorf("%s: heeds deadlines %t, looks once %t", name, heeds, settings.NoDialer)
		}
		_ = client.Close()
		cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"localhost:1"}, ContextTimeoutEnabled: true, Dialer: c.dialer})
		settings, _ = redisstore.TopologyOf(cluster).Settings()
		if heeds := redisstore.TopologyOf(cluster).HeedsDeadline(); heeds != c.heeds || settings.NoDialer != c.looksOnce {
			t.Errorf("%s, of a cluster: heeds deadlines %t, looks once %t", name, heeds, settings.NoDialer)
		}
		_ = cluster.Close()
	}
	if dial.Client(Dialer(nil)) {
		t.Error("our dialer passes for go-redis' own")
	}
}
