package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is a [Store] on a Redis or Valkey server: the one for a fleet. A question
// is one script call, decided atomically and on the server's clock.
//
// # What it leaves in Redis
//
// A key is a prefix, the caller's key in braces, and the limit:
//
//	ratelimit:{ip:203.0.113.9}:leaky:10:1/s
//
// Its value has the type that the algorithm's literature suggests: a hash for
// leaky ("level", "last_leak"), token-bucket ("tokens", "last_refill"), shaping
// ("next_free"), fixed-window ("count", "start") and sliding-window ("current",
// "previous", "start"); a string with the theoretical arrival time for gcra; a
// list of instants for sliding-log. Instants are microseconds since 1970. Levels
// and tokens are in units of which an event weighs a whole number: at 1/s an
// event weighs 1,000,000, one for each microsecond that it takes to drain. Every
// key has a time to live that covers its recovery.
//
// # Cluster and Ring
//
// All limits of one key are on one server, and a question about one key is one
// round trip. A question about several keys (an address and a user, say) is asked
// of all servers at once, each deciding its part; if one refuses, what the others
// have charged is given back in a second round trip. It never admits more than
// the limits do, and the counts are exact again when the question is answered. In
// between, its charges can get another question refused that would have passed.
//
// # The client
//
// The client may be any [redis.UniversalClient]. [Open] makes one with the
// settings that suit a rate limiter; if you bring your own, set:
//
//   - MaxRetries: -1. A charge is not idempotent, and by default the client
//     repeats one that timed out. Then a request may be charged twice; never less
//     than once.
//   - ContextTimeoutEnabled: true. Without it the client ignores deadlines; a
//     question's budget holds all the same, at the price of a goroutine that stays
//     behind until the client's own timeouts end it.
type Redis struct {
	client redis.UniversalClient
	prefix string
	budget time.Duration
	clock  clock // nil: the server's
	logger func() *slog.Logger

	owned         bool // the client is closed with the store
	heedsDeadline bool
	sharded       bool // different keys may be on different servers

	scripts  [tasks][allSets]atomic.Pointer[script]
	replaced atomic.Int64
}

const (
	defaultPrefix = "ratelimit"
	defaultBudget = 100 * time.Millisecond
)

// NewRedis returns a store on a client. It talks to nobody. A nil client panics.
func NewRedis(rdb redis.UniversalClient, options ...RedisOption) *Redis {
	if rdb == nil {
		panic("core: NewRedis needs a client")
	}
	r := &Redis{
		client:        rdb,
		prefix:        defaultPrefix,
		budget:        defaultBudget,
		logger:        slog.Default,
		heedsDeadline: heedsDeadline(rdb),
		sharded:       sharded(rdb),
	}
	for _, option := range options {
		option.applyRedis(r)
	}
	return r
}

// heedsDeadline reports whether a client is known to end a call when its context
// does. go-redis shakes hands for TLS without looking at it.
func heedsDeadline(rdb redis.UniversalClient) bool {
	switch client := rdb.(type) {
	case *redis.Client:
		return client.Options().ContextTimeoutEnabled && client.Options().TLSConfig == nil
	case *redis.ClusterClient:
		return client.Options().ContextTimeoutEnabled && client.Options().TLSConfig == nil
	case *redis.Ring:
		return client.Options().ContextTimeoutEnabled && client.Options().TLSConfig == nil
	}
	return false
}

// sharded reports whether a client spreads keys over several servers.
func sharded(rdb redis.UniversalClient) bool {
	switch rdb.(type) {
	case *redis.ClusterClient, *redis.Ring:
		return true
	}
	return false
}

// Decide implements [Store].
func (r *Redis) Decide(ctx context.Context, checks []Check, decisions []Decision) error {
	return r.ask(ctx, checks, decisions, false)
}

// Peek implements [Store].
func (r *Redis) Peek(ctx context.Context, checks []Check, decisions []Decision) error {
	return r.ask(ctx, checks, decisions, true)
}

func (r *Redis) ask(ctx context.Context, checks []Check, decisions []Decision, peek bool) error {
	groups := questions(checks, peek)
	var err error
	if r.sharded && severalKeys(checks) {
		err = r.askParts(ctx, groups)
	} else {
		_, err = r.askServer(ctx, groups, false)
	}
	if err != nil {
		return err
	}
	for _, group := range groups {
		answer(group, decisions, peek)
	}
	return nil
}

// askServer has the script decide groups whose keys are on one server, and returns
// the instant of the decision if that is wanted.
func (r *Redis) askServer(ctx context.Context, groups [][]ask, wantInstant bool) (at int64, err error) {
	call, of := r.newCall(groups)
	if wantInstant {
		call = append(call, "at")
	}
	call = r.appendClock(call)
	reply, err := r.within(ctx, func(ctx context.Context) (string, error) {
		return r.run(ctx, r.script(decide, of), call)
	})
	if err != nil {
		return 0, err
	}
	return r.observed(groups, reply, wantInstant)
}

const (
	// callHead is how many words stand before the keys in a call: EVALSHA, the
	// script, and the number of keys.
	callHead = 3
	// callEach is how many words there are for each check, its key included.
	callEach = 8
)

// newCall returns the words of a script call, but for the first two and the last,
// and the set of algorithms that it needs.
func (r *Redis) newCall(groups [][]ask) (call []any, of set) {
	keys := 0
	for _, group := range groups {
		keys += len(group)
	}
	call = make([]any, callHead, callHead+keys*callEach+len(groups)+2)
	call[2] = keys
	for _, group := range groups {
		call, of = r.appendKeys(call, group, of)
	}
	for _, group := range groups {
		call = append(call, len(group))
		for i := range group {
			call = group[i].appendDecide(call)
		}
	}
	return call, of
}

// appendKeys appends the keys of a group, and adds its algorithms to a set.
func (r *Redis) appendKeys(call []any, group []ask, of set) ([]any, set) {
	var scratch [256]byte
	for i := range group {
		c := group[i].check
		call = append(call, string(appendKey(scratch[:0], r.prefix, c.Key, &c.Limit, c.Shadow)))
		of |= c.Limit.algorithm.set()
	}
	return call, of
}

func (r *Redis) appendClock(call []any) []any {
	if r.clock != nil {
		call = append(call, r.clock())
	}
	return call
}

// script returns the script of a task for a set of algorithms, assembled once.
func (r *Redis) script(does task, of set) *script {
	slot := &r.scripts[does][of]
	if s := slot.Load(); s != nil {
		return s
	}
	s := newScript(of, r.clock != nil, does)
	slot.Store(s) // whoever else assembled it has the same
	return s
}

// run calls a script by its hash, and with its source if the server does not know
// it: at first, and again after a restart, a flush or a failover.
func (r *Redis) run(ctx context.Context, s *script, call []any) (string, error) {
	call[0], call[1] = "evalsha", s.hash
	reply, err := r.process(ctx, call)
	if !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return reply, err
	}
	call[0], call[1] = "eval", s.source
	return r.process(ctx, call)
}

func (r *Redis) process(ctx context.Context, call []any) (string, error) {
	command := redis.NewStringCmd(ctx, call...)
	_ = r.client.Process(ctx, command) // the command carries the error
	return command.Result()
}

// within runs a call to Redis within the store's budget, whatever the client does.
func (r *Redis) within(ctx context.Context, call func(context.Context) (string, error)) (string, error) {
	bounded, cancel := context.WithTimeout(ctx, r.budget)
	defer cancel()
	if r.heedsDeadline {
		reply, err := call(bounded)
		return reply, r.explain(ctx, bounded, err)
	}
	type result struct {
		reply string
		err   error
	}
	done := make(chan result, 1)
	go func() { // ends with the client's own timeouts
		reply, err := call(bounded)
		done <- result{reply, err}
	}()
	select {
	case answer := <-done:
		return answer.reply, r.explain(ctx, bounded, answer.err)
	case <-bounded.Done():
		return "", r.explain(ctx, bounded, bounded.Err())
	}
}

// explain says whose time was up if a call failed because of that. The client
// reports it in several ways.
func (r *Redis) explain(asked, bounded context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case asked.Err() != nil:
		return fmt.Errorf("core: the question was given up: %w", context.Cause(asked))
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("core: redis has not answered within %v: %w", r.budget, err)
	case bounded.Err() != nil || isTimeout(err):
		return fmt.Errorf("core: redis has not answered within %v: %w: %w", r.budget, context.DeadlineExceeded, err)
	}
	return fmt.Errorf("core: redis: %w", err)
}

// isTimeout reports whether a socket's deadline has passed, which it may do a
// moment before the context's.
func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// observed hands the numbers of a reply to the asks they belong to, and returns
// the instant of the decision if the reply has it.
func (r *Redis) observed(groups [][]ask, reply string, hasInstant bool) (at int64, err error) {
	numbers := numberReader{rest: reply}
	for _, group := range groups {
		for i := range group {
			for j := range group[i].check.Limit.algorithm.observed() {
				group[i].usage[j] = numbers.next()
			}
		}
	}
	if hasInstant {
		at = numbers.next()
	}
	if !numbers.ended() {
		r.reportReplaced(groups, numbers.next())
	}
	if numbers.wrong || !numbers.ended() {
		return 0, fmt.Errorf("core: redis replied %.100q, which is no answer to the question", reply)
	}
	return at, nil
}

// numberReader reads the whole numbers in a text that spaces separate.
type numberReader struct {
	rest  string
	wrong bool // there was something else, or nothing
}

func (n *numberReader) next() int64 {
	text, rest, _ := strings.Cut(n.rest, " ")
	number, err := strconv.ParseInt(text, 10, 64)
	n.rest, n.wrong = rest, n.wrong || err != nil
	return number
}

func (n *numberReader) ended() bool { return n.rest == "" }

// reportReplaced counts and logs keys that held something no script of ours writes.
func (r *Redis) reportReplaced(groups [][]ask, keys int64) {
	total := r.replaced.Add(keys)
	subjects := make([]string, 0, len(groups))
	for _, group := range groups {
		for i := range group {
			c := group[i].check
			subjects = append(subjects, string(appendKey(nil, r.prefix, c.Key, &c.Limit, c.Shadow)))
		}
	}
	r.logger().Warn("core: redis keys were damaged and have been replaced",
		slog.Int64("replaced", keys), slog.Int64("total", total), slog.Any("among", subjects))
}

// Replaced returns how many keys this store has found damaged (of another type,
// or with a value that no limit could have left) and replaced by new ones. Each
// time is also logged.
func (r *Redis) Replaced() int64 { return r.replaced.Load() }

// Reset implements [Store].
func (r *Redis) Reset(ctx context.Context, key string, limits []Limit) error {
	call := make([]any, 1, 1+2*len(limits))
	call[0] = "del"
	for i := range limits {
		for _, shadow := range [...]bool{false, true} {
			call = append(call, string(appendKey(nil, r.prefix, key, &limits[i], shadow)))
		}
	}
	_, err := r.within(ctx, func(ctx context.Context) (string, error) {
		command := redis.NewIntCmd(ctx, call...)
		_ = r.client.Process(ctx, command)
		return "", command.Err()
	})
	return err
}

// Ping implements [Store]. Each master of a cluster or shard of a ring is asked.
// It runs scripts rather than PING, so that it needs no other permission than a
// question does.
func (r *Redis) Ping(ctx context.Context) error {
	warm := func(ctx context.Context, client *redis.Client) error { return r.warm(ctx, client) }
	var err error
	switch client := r.client.(type) {
	case *redis.ClusterClient:
		err = client.ForEachMaster(ctx, warm)
	case *redis.Ring:
		err = client.ForEachShard(ctx, warm)
	default:
		err = r.warm(ctx, client)
	}
	return r.explain(ctx, ctx, err)
}

// warm makes a server load the scripts of the single algorithms and of every mix
// that this store has been asked about. Without keys a script decides nothing.
func (r *Redis) warm(ctx context.Context, client redis.Cmdable) error {
	for a := none + 1; a < algorithms; a++ {
		r.script(decide, a.set())
	}
	pipeline := client.Pipeline()
	var known []*script
	var replies []*redis.Cmd
	for does := range r.scripts {
		for of := range r.scripts[does] {
			if s := r.scripts[does][of].Load(); s != nil {
				known, replies = append(known, s), append(replies, pipeline.EvalSha(ctx, s.hash, nil))
			}
		}
	}
	if _, err := pipeline.Exec(ctx); err != nil && !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return err
	}
	for i, reply := range replies {
		err := reply.Err()
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			err = client.Eval(ctx, known[i].source, nil).Err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Close implements [Store]. It closes the client only if [Open] made it.
func (r *Redis) Close() error {
	if !r.owned {
		return nil
	}
	if err := r.client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("core: %w", err)
	}
	return nil
}
