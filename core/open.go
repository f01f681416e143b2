package core

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"

	"github.com/weir-go/ratelimit/core/internal/redisstore"
	"github.com/weir-go/ratelimit/internal/dial"
)

// Open returns a Limiter on the store that a URL names. It sends nothing, so it
// succeeds while Redis is down; call [Limiter.Ping] to know.
//
//	memory:                                        a store in this process, as NewMemory makes it
//	redis://user:password@localhost:6379/0         one server
//	rediss://localhost:6379                        the same with TLS; see "Encryption" at NewRedis
//	unix:///run/redis.sock?db=0                    over a Unix socket
//	redis://host1:6379?addr=host2:6379             a cluster: at least one "addr"
//	redis://host1:26379?master_name=main           Sentinel: "master_name", and more
//	                                               sentinels as "addr"
//
// Other query parameters are those of go-redis, such as pool_size=50 (the default is ten for each processor and at least
// 32) or dial_timeout=1s; see its ParseURL, ParseClusterURL and ParseFailoverURL. In a Sentinel URL the user and password
// are the sentinels'; those of the servers are the parameters "username" and "password".
//
// The options are those of [NewMemory], [NewRedis] and [New]. One that the store of the URL has no use for, such as
// [WithBudget] for memory: or [WithMaxKeys] for Redis, has no effect: the same options serve a URL for development
// and one for production.
//
// The client heeds deadlines, and never repeats a call that may have been charged,
// unless max_retries says so. In a cluster, go-redis also follows as many
// redirections as max_redirects allows. Close closes the client.
//
// An error says why the URL is wrong and never repeats a password.
func Open(rawURL string, options ...Option) (*Limiter, error) {
	store, err := OpenStore(rawURL, options...)
	if err != nil {
		return nil, err
	}
	return New(store, optionsFor(options, ofLimiter)...), nil
}

// OpenStore returns the store that a URL names, so that another store can stand between it and the
// Limiter:
//
//	store, err := core.OpenStore("redis://localhost:6379")
//	if err != nil {
//		return err
//	}
//	limiter := core.New(denialcache.New(store, 10_000))
//	defer limiter.Close()
//
// The URL, the options and the errors are those of [Open]. OpenStore accepts an option of a Limiter,
// so that one list serves both, but a store has no use for it: give it to [New], too.
// Close of the store, or of the Limiter on it, closes the client.
func OpenStore(rawURL string, options ...Option) (Store, error) {
	u, err := redisstore.ParseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("core: the store's URL %w", err)
	}
	if u.Scheme == "memory" {
		return NewMemory(optionsFor(options, ofMemory)...), nil
	}
	client, err := redisstore.ClientOf(rawURL, u.Query())
	if err != nil {
		return nil, fmt.Errorf("core: the store's URL: %w", err)
	}
	return newRedis(client, true, true, optionsFor(options, ofRedis)), nil
}

// optionsFor returns the options that have a change.
func optionsFor[T any](options []Option, change func(*Option) func(*T)) []Option {
	return slices.DeleteFunc(slices.Clone(options), func(o Option) bool { return change(&o) == nil })
}

// Dialer returns a dial function for the Dialer option of your own client, which you give to [NewRedis].
// config is for TLS, nil for none. [Open] uses a Dialer by itself.
//
// Its connections still read an answer that has arrived when their deadline has passed. When thousands
// of requests arrive at once, more goroutines want to run than there are processors. One of them may
// wait longer than the budget until it reads an answer that Redis has sent within a millisecond. Other
// connections give up then, and the calls count as not answered. With TLS, Dialer shakes hands within
// the caller's deadline; go-redis' own dialer does not.
//
// A client with a Dialer ignores the TLSConfig of its options, so give that configuration to Dialer.
// [NewRedis] panics if it sees that this was forgotten, before a password is sent in the clear. It cannot
// see into a client that asks sentinels.
//
// The function may be used by many goroutines at once. A dial takes five seconds at most. It returns no error, since
// go-redis would answer an error by dialing four times more: instead, the first use of a connection that could not be
// opened fails, with the reason. The store also knows from a Dialer's connections when a server was last heard of, so
// that only calls to a distant server wait for it.
func Dialer(config *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	return dial.New(config, 0)
}
