package redisstore_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/redisstore"
)

// Whether a client may be relied on to heed deadlines is seen by its options.
func TestWhoHeedsDeadlines(t *testing.T) {
	for name, c := range map[string]struct {
		options redis.Options
		want    bool
	}{
		"by itself":          {redis.Options{}, false},
		"told to":            {redis.Options{ContextTimeoutEnabled: true}, true},
		"with TLS":           {redis.Options{ContextTimeoutEnabled: true, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}}, false},
		"with a dialer":      {redis.Options{ContextTimeoutEnabled: true, Dialer: (&net.Dialer{}).DialContext}, false},
		"with credentials":   {redis.Options{ContextTimeoutEnabled: true, CredentialsProvider: func() (string, string) { return "", "" }}, false},
		"with a greeting":    {redis.Options{ContextTimeoutEnabled: true, OnConnect: func(context.Context, *redis.Conn) error { return nil }}, false},
		"over a Unix socket": {redis.Options{ContextTimeoutEnabled: true, Network: "unix", Addr: "/nowhere"}, true},
	} {
		client := redis.NewClient(&c.options)
		if got := redisstore.TopologyOf(client).HeedsDeadline(); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
		_ = client.Close()
	}
}
