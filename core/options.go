package core

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
)

// OpenOption is an option of [Open] and [OpenStore]: each [RedisOption], [MemoryOption] and
// [LimiterOption] is one.
type OpenOption interface {
	madeBy() string // the function that makes it, as in "WithClock"
}

// RedisOption changes how a [Redis] store works.
type RedisOption interface {
	OpenOption
	applyRedis(*redisStore)
}

// MemoryOption changes how a [Memory] store works.
type MemoryOption interface {
	OpenOption
	applyMemory(*memoryStore)
}

// LimiterOption changes how a [Limiter] works.
type LimiterOption interface {
	OpenOption
	applyLimiter(*Limiter)
}

// DenialCacheOption changes how a [DenialCache] works.
type DenialCacheOption interface{ applyDenialCache(*denialCache) }

// StoreOption is an option of every store: a [RedisOption], a [MemoryOption] and a
// [DenialCacheOption].
type StoreOption interface {
	RedisOption
	MemoryOption
	DenialCacheOption
}

type redisOption struct {
	name  string
	apply func(*redisStore)
}

func (o redisOption) madeBy() string           { return o.name }
func (o redisOption) applyRedis(r *redisStore) { o.apply(r) }

type memoryOption struct {
	name  string
	apply func(*memoryStore)
}

func (o memoryOption) madeBy() string             { return o.name }
func (o memoryOption) applyMemory(m *memoryStore) { o.apply(m) }

// WithPrefix sets what every key in Redis starts with, which keeps several
// applications on one server apart. The default is "ratelimit". It panics if the
// prefix is empty, or has a brace (which would decide a key's cluster slot), white
// space or control bytes.
func WithPrefix(prefix string) RedisOption {
	if prefix == "" || strings.ContainsFunc(prefix, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '{' || r == '}' }) {
		panic(fmt.Sprintf("core: key prefix %q is empty or has a brace, white space or a control byte", prefix))
	}
	return redisOption{"WithPrefix", func(r *redisStore) { r.config.Prefix = prefix }}
}

// WithBudget sets how long Redis may take to answer a call, from when it is sent. The default is
// 100ms. The budget holds whatever the client's own timeouts are. The time that a call waits in this
// process, for its turn or for a connection, has a bound of its own: [WithQueue]. A budget that is
// not positive panics.
func WithBudget(budget time.Duration) RedisOption {
	if budget <= 0 {
		panic(fmt.Sprintf("core: budget %v is not positive", budget))
	}
	return redisOption{"WithBudget", func(r *redisStore) { r.config.Budget = budget }}
}

// WithInFlight sets how many batches of checks may be in flight to one server at once. The default is
// 2. Calls that come meanwhile share the next batch. More batches in flight take more of the server's
// time for the same checks; with only one, a slow batch holds up the next. Less than 1 panics.
func WithInFlight(n int) RedisOption {
	if n < 1 {
		panic(fmt.Sprintf("core: %d batches in flight are less than 1", n))
	}
	return redisOption{"WithInFlight", func(r *redisStore) { r.config.InFlight = n }}
}

// WithQueue bounds how many calls may wait in this process to be sent to one server, and how long
// each may wait. A call for which the queue has no room, or that waits longer, fails with
// [Overloaded], or with [Unreachable] if that is because there is no connection or the server does
// not answer. The default is 65,536 calls and ten times the budget: a server that answers within the
// budget has opened a connection by then. A number less than 1, or a time that is not positive,
// panics.
func WithQueue(most int, longest time.Duration) RedisOption {
	if most < 1 || longest <= 0 {
		panic(fmt.Sprintf("core: a queue of %d calls for %v makes no sense", most, longest))
	}
	return redisOption{"WithQueue", func(r *redisStore) { r.config.MostWaiting, r.config.Patience = most, longest }}
}

// WithBreaker sets after how many failed calls in a row the breaker of a server opens,
// and for how long. While it is open, calls fail at once, with [Suspended]. After the
// pause one call tries the server, and if that succeeds the breaker closes. The pause is
// varied by a quarter, so that processes do not come back together. In a cluster or
// ring, each server has a breaker of its own. The default is 5 and 500ms; with 0
// failures there is no breaker. A negative number, or a pause that is not positive,
// panics.
func WithBreaker(failures int, pause time.Duration) RedisOption {
	if failures < 0 || failures > 0 && pause <= 0 {
		panic(fmt.Sprintf("core: a breaker after %d failures for %v makes no sense", failures, pause))
	}
	return redisOption{"WithBreaker", func(r *redisStore) { r.config.BreakerFailures, r.config.BreakerPause = failures, pause }}
}

// TraceOption is an option of everything that can be traced: a [RedisOption], a
// [DenialCacheOption] and a [LimiterOption].
type TraceOption interface {
	RedisOption
	DenialCacheOption
	LimiterOption
}

// WithTrace sets a trace, whose functions are called when something happens. Give it to
// each part that it should cover. A part may have several traces, each by an option of its
// own. The default is none.
func WithTrace(t Trace) TraceOption { return t }

func (Trace) madeBy() string { return "WithTrace" }

func (t Trace) applyRedis(r *redisStore)        { r.trace = r.trace.and(t) }
func (t Trace) applyDenialCache(c *denialCache) { c.trace = c.trace.and(t) }
func (t Trace) applyLimiter(l *Limiter)         { l.trace = l.trace.and(t) }

// LoggerOption is an option of everything that logs: a [RedisOption] and a [LimiterOption].
type LoggerOption interface {
	RedisOption
	LimiterOption
}

// WithLogger sets where a [Redis] store and a [Limiter] report what their callers cannot see: damaged
// keys that have been replaced, servers whose breakers are open, a client whose options can do harm,
// and charges that could not be given back. No warning is repeated within ten seconds, and none names
// a key. The default is [slog.Default] at the time of the report. A nil logger panics.
func WithLogger(logger *slog.Logger) LoggerOption {
	if logger == nil {
		panic("core: WithLogger needs a logger: use slog.New(slog.DiscardHandler) for none")
	}
	return loggerOption{func() *slog.Logger { return logger }}
}

type loggerOption struct{ logger func() *slog.Logger }

func (loggerOption) madeBy() string { return "WithLogger" }

func (o loggerOption) applyRedis(r *redisStore) { r.config.Logger = o.logger }
func (o loggerOption) applyLimiter(l *Limiter)  { l.background.logger = o.logger }

// WithMaxKeys bounds how many keys a [Memory] store holds, each under each of its
// limits. The default is 1,048,576. A bound less than 1 panics.
func WithMaxKeys(n int) MemoryOption {
	if n < 1 {
		panic(fmt.Sprintf("core: a bound of %d keys is less than 1", n))
	}
	return memoryOption{"WithMaxKeys", func(m *memoryStore) { m.config.MaxKeys = n }}
}

// WithClock replaces the store's clock in tests. Do not use it in production, where
// [Redis] reads the server's clock, and [Memory] and [DenialCache] a monotonic one. Keys
// are kept for an hour longer than they need, since their time to live runs in real time.
// A nil function panics.
func WithClock(now func() time.Time) StoreOption {
	if now == nil {
		panic("core: WithClock needs a function")
	}
	return clock(func() int64 { return now().UnixMicro() })
}

// clock returns microseconds since 1970.
type clock func() int64

func (clock) madeBy() string { return "WithClock" }

func (c clock) applyRedis(r *redisStore) { r.config.Clock = c }
func (c clock) applyMemory(m *memoryStore) {
	m.config.Clock, m.config.Slack = c, time.Hour.Microseconds()
}

// applyDenialCache makes the cache forget everything when the clock is turned back. The
// default clock never is.
func (c clock) applyDenialCache(d *denialCache) {
	var latest atomic.Int64
	d.clock = func() int64 {
		now := c()
		if latest.Swap(now) > now {
			d.denials.InvalidateAll()
		}
		return now
	}
}
