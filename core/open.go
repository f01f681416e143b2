package core

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
)

// Open returns a Limiter on the store that a URL names. It talks to nobody, so it
// succeeds while Redis is down; ask [Limiter.Ping] to know.
//
//	memory:                                        a Memory store in this process
//	redis://user:password@localhost:6379/0         one server
//	rediss://localhost:6379                        the same with TLS; see "Encryption" in the package documentation
//	unix:///run/redis.sock?db=0                    over a Unix socket
//	redis://host1:6379?addr=host2:6379             a cluster: at least one "addr"
//	redis://host1:26379?master_name=main           Sentinel: "master_name", and more
//	                                               sentinels as "addr"
//
// Other query parameters are those of go-redis, such as pool_size=20 or
// dial_timeout=1s; see its ParseURL, ParseClusterURL and ParseFailoverURL. In a
// Sentinel URL the user and password are the sentinels'; those of the servers
// are the parameters "username" and "password".
//
// The options are those of [NewRedis]. One that is a [LimiterOption], too, as that of
// [WithTrace] is, goes for the Limiter as well, and in memory for that alone; the others
// mean nothing to a Memory store.
//
// The client heeds deadlines, and never repeats a question that may have been
// charged, unless max_retries says so. In a cluster, go-redis also follows
// redirections with what max_redirects allows. Close closes the client.
func Open(rawURL string, options ...RedisOption) (*Limiter, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		// The error would repeat the URL, and the password in it.
		return nil, errors.New("core: the store's URL is malformed: write /, ?, #, @ and : in a user or password as %2F, %3F, %23, %40 and %3A")
	}
	switch u.Scheme {
	case "memory":
		if u.Host != "" || u.Path != "" || u.Opaque != "" || u.RawQuery != "" {
			return nil, fmt.Errorf("core: nothing may follow %q in a store's URL", "memory:")
		}
		return New(NewMemory(), forLimiter(options)...), nil
	case "redis", "rediss", "unix":
		if u.Opaque != "" || u.Scheme != "unix" && u.Host == "" {
			return nil, fmt.Errorf("core: a store's URL names a host after %s://", u.Scheme)
		}
		client, err := dial(rawURL, u.Query())
		if err != nil {
			return nil, fmt.Errorf("core: the store's URL: %w", err)
		}
		store := newRedis(client, true, options)
		store.owned = true
		return New(store, forLimiter(options)...), nil
	}
	return nil, fmt.Errorf("core: a store's URL starts with memory:, redis://, rediss:// or unix://, not with %q", u.Scheme)
}

// forLimiter returns which of some options are a Limiter's, too.
func forLimiter(options []RedisOption) []LimiterOption {
	var own []LimiterOption
	for _, option := range options {
		if of, ok := option.(LimiterOption); ok {
			own = append(own, of)
		}
	}
	return own
}

// dial returns the client that a Redis URL describes.
func dial(rawURL string, query url.Values) (redis.UniversalClient, error) {
	switch {
	case query.Has("master_name"):
		if query.Get("master_name") == "" {
			return nil, errors.New("master_name is empty")
		}
		options, err := redis.ParseFailoverURL(rawURL)
		if err != nil {
			return nil, err
		}
		options.ContextTimeoutEnabled = true
		options.MaxRetries = retries(options.MaxRetries)
		options.Dialer = dialer(options.TLSConfig, options.DialTimeout)
		return redis.NewFailoverClient(options), nil
	case query.Has("addr"):
		options, err := redis.ParseClusterURL(rawURL)
		if err != nil {
			return nil, err
		}
		options.ContextTimeoutEnabled = true
		options.MaxRetries = retries(options.MaxRetries)
		options.Dialer = dialer(options.TLSConfig, options.DialTimeout)
		return redis.NewClusterClient(options), nil
	}
	options, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	options.ContextTimeoutEnabled = true
	options.MaxRetries = retries(options.MaxRetries)
	options.Dialer = dialer(options.TLSConfig, options.DialTimeout)
	return redis.NewClient(options), nil
}

// dialer returns what dials for TLS. The client's own shakes hands without looking at
// the deadline. Without TLS it is nil, and the client's own is used.
func dialer(config *tls.Config, timeout time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	if config == nil {
		return nil
	}
	if timeout <= 0 {
		timeout = 5 * time.Second // as go-redis has it
	}
	d := &tls.Dialer{NetDialer: &net.Dialer{KeepAlive: 5 * time.Minute}, Config: config}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return d.DialContext(ctx, network, address) //nolint:wrapcheck // go-redis reads it
	}
}

// retries returns what go-redis understands by a number of retries: to it, 0 means
// its default.
func retries(asked int) int {
	if asked == 0 {
		return -1
	}
	return asked
}
