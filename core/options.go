package core

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Option changes how a store or a [Limiter] works. The With… functions make it, and the comment of each
// says which functions take it. [NewRedis], [NewMemory], denialcache.New, [Lease] and [New] panic if they get one
// that does not suit them, and [Open] and [OpenStore] return an error. The zero Option changes nothing.
type Option struct {
	name string // of the function that makes it

	// Its change to each kind of part. The option does not suit a part if that is nil.
	redis   func(*redisStore)
	memory  func(*memoryStore)
	denials func(*denialCache)
	lease   func(*leaseStore)
	limiter func(*Limiter)
}

// suits names the functions that take the option, except [Open] and [OpenStore].
func (o *Option) suits() string {
	var names []string
	for _, taker := range []struct {
		takes bool
		name  string
	}{
		{o.redis != nil, "NewRedis"},
		{o.memory != nil, "NewMemory"},
		{o.denials != nil, "denialcache.New"},
		{o.lease != nil, "Lease"},
		{o.limiter != nil, "New"},
	} {
		if taker.takes {
			names = append(names, taker.name)
		}
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return strings.Join(names, "")
}

// apply applies options to the value that a function makes, for which change returns their change. It panics if an option
// has none.
func apply[T any](function string, options []Option, change func(*Option) func(*T), made *T) {
	for i := range options {
		o := &options[i]
		if own := change(o); own != nil {
			own(made)
		} else if o.name != "" {
			panic(fmt.Sprintf("core: %s is no option of %s: it suits %s", o.name, function, o.suits()))
		}
	}
}

func ofRedis(o *Option) func(*redisStore)    { return o.redis }
func ofMemory(o *Option) func(*memoryStore)  { return o.memory }
func ofDenials(o *Option) func(*denialCache) { return o.denials }
func ofLease(o *Option) func(*leaseStore)    { return o.lease }
func ofLimiter(o *Option) func(*Limiter)     { return o.limiter }

// WithPrefix sets the beginning of every key in Redis, which keeps several applications on one server apart. The default
// is "ratelimit". It panics if [ValidatePrefix] returns an error.
//
// It suits [NewRedis], [Open] and [OpenStore].
func WithPrefix(prefix string) Option {
	if err := ValidatePrefix(prefix); err != nil {
		panic(err.Error())
	}
	return Option{name: "WithPrefix", redis: func(r *redisStore) { r.config.Prefix = prefix }}
}

// ValidatePrefix returns an error if [WithPrefix] does not take a prefix: if it is empty, or has a
// brace (which would decide a key's cluster slot), white space or control bytes. Use it on a prefix
// that is not part of the program, such as one from a flag. It may be used by many goroutines at once.
func ValidatePrefix(prefix string) error {
	if prefix == "" || strings.ContainsFunc(prefix, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '{' || r == '}' }) {
		return fmt.Errorf("core: key prefix %q is empty or has a brace, white space or a control byte", prefix)
	}
	return nil
}

// WithBudget sets how long Redis may take to answer a call, from when it is sent. The default is 100ms. The budget holds
// even if the client's own timeouts are longer. While nothing is heard of Redis, no call waits for longer than the budget
// before it is sent either. While Redis answers, the time that a call waits in this process, for its turn or for a
// connection, has a bound of its own: [WithQueue]. A budget that is not positive panics.
//
// It suits [NewRedis], [Open] and [OpenStore].
func WithBudget(budget time.Duration) Option {
	if budget <= 0 {
		panic(fmt.Sprintf("core: budget %v is not positive", budget))
	}
	return Option{name: "WithBudget", redis: func(r *redisStore) { r.config.Budget = budget }}
}

// WithInFlight sets how many batches of checks may be in flight to one server at once, however small. The default is
// 2. Calls that come meanwhile share the next batch. More batches in flight take more of the server's
// time for the same checks; with only one, a slow batch holds up the next. Less than 1 panics.
//
// Beyond those, full batches are in flight: as many as the server answers in a round trip, so that one that is far away
// has something to do all the time, and as many as half of the client's connections.
//
// It suits [NewRedis], [Open] and [OpenStore].
func WithInFlight(n int) Option {
	if n < 1 {
		panic(fmt.Sprintf("core: %d batches in flight are less than 1", n))
	}
	return Option{name: "WithInFlight", redis: func(r *redisStore) { r.config.InFlight = n }}
}

// WithQueue bounds how many calls may wait in this process to be sent to one server, and how long
// each may wait while the server answers, or a connection to it is being opened. A call for which the queue has no
// room, or that waits longer, fails with [Overloaded]: the server is well. When nothing was heard of the server
// for a budget, calls fail with [Unreachable], however long they may wait. The default is 65,536 calls and ten times the
// budget: a server that answers within the budget has opened a connection by then. A number less than 1, or a time
// that is not positive, panics.
//
// It suits [NewRedis], [Open] and [OpenStore].
func WithQueue(most int, longest time.Duration) Option {
	if most < 1 || longest <= 0 {
		panic(fmt.Sprintf("core: a queue of %d calls for %v makes no sense", most, longest))
	}
	return Option{name: "WithQueue", redis: func(r *redisStore) { r.config.MostWaiting, r.config.Patience = most, longest }}
}

// WithBreaker sets after how many failures in a row the breaker of a server opens,
// and for how long. A failure is a batch of calls that was not answered, a connection that could not be opened, or a
// budget in which nothing was heard of the server while one was being opened. While the breaker is open, calls fail
// at once, with [Suspended]. After the pause one call tries the server, and if that succeeds the breaker closes. The
// pause is varied by a quarter, so that processes do not come back together. In a cluster or
// ring, each server has a breaker of its own. The default is 5 and 500ms; with 0
// failures there is no breaker. A negative number, or a pause that is not positive,
// panics.
//
// It suits [NewRedis], [Open] and [OpenStore].
func WithBreaker(failures int, pause time.Duration) Option {
	if failures < 0 || failures > 0 && pause <= 0 {
		panic(fmt.Sprintf("core: a breaker after %d failures for %v makes no sense", failures, pause))
	}
	return Option{name: "WithBreaker", redis: func(r *redisStore) { r.config.BreakerFailures, r.config.BreakerPause = failures, pause }}
}

// WithTrace sets a trace: its functions are called when something happens. Give it once: to [Open], or to the function
// that makes the innermost store. The parts around a store, from denialcache.New, [Lease] and [New], have the store's traces,
// too. A part may have several traces, each by an option of its own; an option that is given to several parts, or twice, counts
// once. The default is none.
//
// It suits [NewRedis], [NewMemory], denialcache.New, [Lease], [New], [Open] and [OpenStore].
func WithTrace(t Trace) Option {
	given := &t
	return Option{
		name:    "WithTrace",
		redis:   func(r *redisStore) { r.traces = r.traces.with(given) },
		memory:  func(m *memoryStore) { m.traces = m.traces.with(given) },
		denials: func(c *denialCache) { c.traces = c.traces.with(given) },
		lease:   func(l *leaseStore) { l.traces = l.traces.with(given) },
		limiter: func(l *Limiter) { l.traces = l.traces.with(given) },
	}
}

// WithLogger sets where a store of [NewRedis] and a [Limiter] report events that their callers cannot see: damaged keys
// that have been replaced, servers with open breakers, a client with options that can do harm, charges that could not be
// given back, functions of a [Trace] that have panicked, and the lines that go-redis writes, which go to the logger of
// the store that was made last. If the logger panics itself, that is contained, too. No warning is repeated within ten
// seconds, and none names a key. The default is [slog.Default] at the time of the report. A nil logger panics.
//
// It suits [NewRedis], denialcache.New, [Lease], [New], [Open] and [OpenStore].
func WithLogger(logger *slog.Logger) Option {
	if logger == nil {
		panic("core: WithLogger needs a logger: use slog.New(slog.DiscardHandler) for none")
	}
	own := func() *slog.Logger { return logger }
	return Option{
		name:    "WithLogger",
		redis:   func(r *redisStore) { r.config.Logger = own },
		denials: func(c *denialCache) { c.logger = own },
		lease:   func(l *leaseStore) { l.logger = own },
		limiter: func(l *Limiter) { l.logger = own },
	}
}

// WithMaxKeys bounds how many keys a store of [NewMemory] holds, each under each of its
// limits. The default is 1,048,576. A bound less than 1 panics.
//
// It suits [NewMemory], [Open] and [OpenStore].
func WithMaxKeys(n int) Option {
	if n < 1 {
		panic(fmt.Sprintf("core: a bound of %d keys is less than 1", n))
	}
	return Option{name: "WithMaxKeys", memory: func(m *memoryStore) { m.config.MaxKeys = n }}
}

// WithClock replaces the store's clock in tests. Do not use it in production, where a store
// of [NewRedis] reads the server's clock, and those of [NewMemory] and denialcache.New a
// monotonic one. Keys are kept for an hour longer than they need, since their time to live
// runs in real time. A nil function panics.
//
// It suits [NewRedis], [NewMemory], denialcache.New, [Open] and [OpenStore].
func WithClock(now func() time.Time) Option {
	if now == nil {
		panic("core: WithClock needs a function")
	}
	c := func() int64 { return now().UnixMicro() }
	return Option{
		name:    "WithClock",
		redis:   func(r *redisStore) { r.config.Clock = c },
		memory:  func(m *memoryStore) { m.config.Clock, m.config.Slack = c, time.Hour.Microseconds() },
		denials: func(d *denialCache) { d.denials.Follow(c) },
	}
}
