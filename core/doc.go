// Package core decides whether something may happen now.
//
// A [Limit] is an algorithm with its numbers, a key says whose traffic it is,
// and a [Limiter] answers, for the whole fleet, whether one more unit fits:
//
//	limiter, err := core.Open("redis://localhost:6379")
//	if err != nil {
//		return err
//	}
//	decision, err := limiter.Allow(ctx, "user:42", core.Leaky(10, core.PerSecond(1)))
//
// A denial is a [Decision], not an error; an error means that the question
// could not be answered.
//
// State lives in a [Store]: [Redis], where a Lua script decides atomically on
// the server's clock in one round trip, or [Memory], the same arithmetic inside
// this process. Both keep the same laws, which package storetest states as
// properties. In short: in no interval passes more than the algorithm's own
// definition allows, nothing is refused that the definition admits, the numbers
// in a Decision are exact, a denial costs nothing, and several checks asked
// together are all charged or none.
//
// # Numbers
//
// No algorithm here uses floating point. Time is counted in microseconds, and
// levels in units chosen for each limit so that nothing is rounded: with N
// events per P microseconds, reduced by their common divisor, an event weighs
// P' units and N' units drain each microsecond. Where that does not fit below
// 2^53, milliseconds are used instead, and where those do not fit either,
// [Limit.Validate] refuses the limit and says why.
//
// # Permissions
//
// The limiter's user needs no more than this on a server alone or behind Sentinel:
//
//	ACL SETUSER limiter reset on >secret ~ratelimit:* resetchannels
//	    +evalsha +eval +time +get +set +del +hmget +hset +pexpireat +pttl
//	    +llen +lindex +lrange +ltrim +rpush +lrem
//
// on every node of a cluster, where the client has to find the way:
//
//	ACL SETUSER limiter reset on >secret ~ratelimit:* resetchannels
//	    +evalsha +eval +time +get +set +del +hmget +hset +pexpireat +pttl
//	    +llen +lindex +lrange +ltrim +rpush +lrem
//	    +cluster|slots +asking +command
//
// and on every shard of a ring, whose client looks by PING who is up:
//
//	ACL SETUSER limiter reset on >secret ~ratelimit:* resetchannels
//	    +evalsha +eval +time +get +set +del +hmget +hset +pexpireat +pttl
//	    +llen +lindex +lrange +ltrim +rpush +lrem
//	    +ping
//
// The sentinels are servers of their own, with users of their own:
//
//	ACL SETUSER limiter reset on >secret
//	    resetchannels &+switch-master &+replica-reconf-done
//	    +sentinel|get-master-addr-by-name +sentinel|sentinels +subscribe
//
// The pattern of the keys is that of [WithPrefix]. A URL with a database other than 0
// needs +select; one with client_name +client|setname; a cluster's with read_only, or
// another routing to replicas, which is of no use to a limiter, +readonly. go-redis
// introduces itself with CLIENT SETINFO and does not mind a refusal, but ACL LOG keeps
// it: allow +client|setinfo (Redis 7.2 or newer), or set DisableIdentity. Where
// package doctor should see more than a limiter has to, allow +info and, in a
// cluster, +cluster|info.
//
// # Encryption
//
// rediss:// speaks TLS, and believes the authorities that the system does. A URL has
// no room for another one. There are two ways to have a private authority believed. On
// systems other than macOS and Windows the environment variable SSL_CERT_FILE names a
// file with all authorities that the process believes, instead of the system's. Or you
// bring a client of your own and set RootCAs in its TLSConfig, as an example of
// [NewRedis] does.
//
// A certificate for the client goes into TLSConfig.Certificates. In a cluster the
// certificate of every node must be for the host that the URL names first.
//
// # Is it well set up?
//
// Package doctor looks, and says what to do. Package admin lists keys, and says in words
// how they stand.
package core
