package core

import (
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/batch"
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/redisstore"
)

// redisStore is the store that [NewRedis] makes.
type redisStore struct {
	ownStore

	config redisstore.Config // with the options applied
	traces traces
	trace  Trace // all of them
	store  *redisstore.Store
}

// NewRedis returns a [Store] on a Redis or Valkey server: the one for a fleet. One script decides a
// [Call], atomically and on the server's clock. NewRedis sends nothing. It panics if the client is
// nil, if the client has a TLSConfig and a [Dialer] without it, and if an option does not suit it.
//
// It takes [WithPrefix], [WithBudget], [WithInFlight], [WithQueue], [WithBreaker], [WithLogger],
// [WithTrace] and [WithClock].
//
// # Waiters
//
// The first waiter for the same places in a process registers in the key that it waits for. The script that frees
// places keeps them for the waiter that came first in the fleet, and publishes that on a channel of its process. From its
// first waiter until half a minute after the last one, a process has a connection more, which subscribes to that channel.
// Without the permission to publish or subscribe, waiters poll: all are served, in an order that chance decides.
//
// # Keys in Redis
//
// A key is a prefix, the caller's key in braces, and the limit:
//
//	ratelimit:{ip:203.0.113.9}:leaky:10:1/s
//
// Its value has the type that the algorithm's literature suggests:
//
//   - leaky: a hash with "level" and "last_leak"
//   - token-bucket: a hash with "tokens" and "last_refill"
//   - shaping: a hash with "next_free"
//   - fixed-window: a hash with "count" and "start"
//   - calendar: a hash with "count", "start" and "end", behind which the capacity stands if the limit has debt
//   - sliding-window: a hash with "current", "previous" and "start"
//   - gcra: a string with the theoretical arrival time, or a hash that has it as "tat" while reservations are open
//   - sliding-log: a list of instants
//   - concurrent: a sorted set. It has a member for each holder: the score is the end of its lease, and the name ends in
//     "*5" if the holder has five places. The member "." has the latest token, negated. The waiters are in front of it.
//
// Instants are microseconds since 1970. Levels and tokens are in units so small that an event weighs a whole number: at
// 1/s an event weighs 1,000,000, one for each microsecond that it takes to drain.
//
// Every key has a time to live that covers its recovery. A key with places lives ten minutes longer, so that its token is
// remembered. A key of a calendar lives an eighth of its window longer, up to three hours, for the sake of servers with
// other rules of a time zone, and in debt a window and a quarter longer.
//
// The store replaces a key that is damaged (of another type, or with a value that no limit could have
// left), gives a key without a time to live one, and logs both.
//
// # Cluster and Ring
//
// All limits of one key are on one server, and a call about one key is one round trip. A call about several keys (an
// address and a user, say) goes to all their servers at once, and each decides its part. If one denies, a second round
// trip gives back the units that the others have charged. Such a call never admits more than the limits do, and the
// counts are exact again when it is answered. Until then, its charges can get another call denied that would have passed.
// Settlements of several keys are carried out on all servers at once.
//
// # Sharing round trips
//
// A call that comes alone is sent at once. While two batches are in flight to a server ([WithInFlight]; more to a distant
// one), calls wait, and are sent together in the next batch: one script run for all of them, or in a cluster one
// pipeline. Each call is still decided on its own. So under load a call takes a fraction of a round trip, and costs the
// server less than a script run of its own. When its context ends, a caller returns at once, unless it has sent a lone
// call itself: then it returns with the answer, or when the budget or its own deadline ends.
//
// # The client
//
// The client may be any [redis.UniversalClient]. [Open] makes one with the
// settings that suit a rate limiter; if you bring your own, set:
//
//   - MaxRetries: -1. A charge is not idempotent, and by default the client
//     repeats one that timed out. Then a request may be charged twice; never less
//     than once.
//   - ContextTimeoutEnabled: true. Without it the client ignores deadlines. The
//     budget of a call holds all the same, but each call is handed to another
//     goroutine. If the server does not answer, that goroutine stays until the
//     client's own timeouts end it. The same goes for TLS without [Dialer], since
//     go-redis shakes hands without looking at the deadline.
//   - Dialer: [Dialer](nil), or Dialer(config) for TLS. Without it, an answer that comes
//     in time may be read too late while thousands of goroutines want the processors. It
//     then counts as none.
//
// # Ping and Close
//
// Ping asks each master of a cluster and each shard of a ring, opens as many connections as calls use at
// once, and loads the scripts. It runs scripts rather than PING, so that it needs no other permissions
// than calls do.
//
// Close first waits for calls and settlements that were made before, as long as they may take. It closes
// the client only if [Open] or [OpenStore] made it.
//
// # Permissions
//
// The limiter's user needs no more than this on a server alone or behind Sentinel:
//
//	ACL SETUSER limiter reset on >secret ~ratelimit:* resetchannels &ratelimit:*
//	    +evalsha +eval +script|exists +script|load +time +get +set +unlink +hdel +hmget +hset +persist +pexpireat +pttl
//	    +llen +lindex +lrange +ltrim +rpush +lrem
//	    +zadd +zcard +zcount +zrange +zrem +zrevrank +zscore +publish +subscribe
//
// on every node of a cluster, where the client has to find the way:
//
//	ACL SETUSER limiter reset on >secret ~ratelimit:* resetchannels &ratelimit:*
//	    +evalsha +eval +script|exists +script|load +time +get +set +unlink +hdel +hmget +hset +persist +pexpireat +pttl
//	    +llen +lindex +lrange +ltrim +rpush +lrem
//	    +zadd +zcard +zcount +zrange +zrem +zrevrank +zscore +publish +subscribe
//	    +cluster|slots +asking +command
//
// and on every shard of a ring; the ring's client sends PING to see which shards are up:
//
//	ACL SETUSER limiter reset on >secret ~ratelimit:* resetchannels &ratelimit:*
//	    +evalsha +eval +script|exists +script|load +time +get +set +unlink +hdel +hmget +hset +persist +pexpireat +pttl
//	    +llen +lindex +lrange +ltrim +rpush +lrem
//	    +zadd +zcard +zcount +zrange +zrem +zrevrank +zscore +publish +subscribe
//	    +ping
//
// The sentinels are servers of their own, with users of their own:
//
//	ACL SETUSER limiter reset on >secret
//	    resetchannels &+switch-master &+replica-reconf-done
//	    +sentinel|get-master-addr-by-name +sentinel|sentinels +subscribe
//
// The pattern of the keys is that of [WithPrefix]. A URL with a database other than 0
// needs +select, and one with client_name needs +client|setname. A cluster's URL with
// read_only, or another routing to replicas, needs +readonly; a limiter has no use for
// that. go-redis introduces itself with CLIENT SETINFO. It does not mind a refusal, but
// ACL LOG keeps it: allow +client|setinfo (Redis 7.2 or newer), or set DisableIdentity.
// Package doctor can look at more with +info and, in a cluster, +cluster|info.
//
// # Encryption
//
// rediss:// speaks TLS and trusts the system's authorities. A URL has no room for
// another one. There are two ways to trust a private authority. On systems other than
// macOS and Windows, the environment variable SSL_CERT_FILE names a file with all
// authorities that the process trusts, instead of the system's. Or you bring a client of
// your own and set RootCAs in its TLSConfig, as an example below does.
//
// A certificate for the client goes into TLSConfig.Certificates. In a cluster the
// certificate of every node must be for the host that the URL names first.
func NewRedis(rdb redis.UniversalClient, options ...Option) Store {
	if rdb == nil {
		panic("core: NewRedis needs a client")
	}
	if settings, _ := redisstore.TopologyOf(rdb).Settings(); settings.TLS != nil && settings.Plain {
		panic("core: the redis client has a TLSConfig that its Dialer does not use: write core.Dialer(config) instead of core.Dialer(nil)")
	}
	r := newRedis(rdb, redisstore.TopologyOf(rdb).HeedsDeadline(), false, options)
	r.store.WarnOfClient()
	return r
}

// newRedis returns a store on a client. Close closes the client if it is owned.
func newRedis(client redis.UniversalClient, heedsDeadline, owned bool, options []Option) *redisStore {
	r := &redisStore{config: redisstore.Defaults(client)}
	r.config.Owned, r.config.HeedsDeadline = owned, heedsDeadline
	apply("NewRedis", options, ofRedis, r)
	r.trace = r.traces.told(r.config.Logger)
	if r.trace.Batch != nil {
		r.config.Batch = func(server string, report batch.Report) {
			r.trace.Batch(Batch{Server: server, Calls: report.Calls, Checks: report.Weight, Elapsed: report.Elapsed, Err: report.Err})
		}
	}
	if r.trace.Breaker != nil {
		r.config.Breaker = func(server string, state batch.State) { r.trace.Breaker(server, breakerStates[state]) }
	}
	if r.trace.Reclaimed != nil {
		r.config.Reclaimed = func(spec *exact.Spec) { r.trace.Reclaimed(limitOf(spec)) }
	}
	r.store = redisstore.New(r.config)
	r.Store = r.store
	return r
}

var breakerStates = [...]string{batch.Closed: "closed", batch.Open: "open", batch.HalfOpen: "half-open"}

// watchGiveBacks implements givingStore.
func (r *redisStore) watchGiveBacks(watch func(givenBack []call.Correction)) {
	r.store.WatchGiveBacks(watch)
}
