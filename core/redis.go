package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/batch"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/topology"
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
// # Sharing round trips
//
// A question that comes alone is asked at once. Those that come while two calls are
// under way to a server ([WithInFlight]) wait for one to end, and are asked together
// in the next one: one script call with all of them in it, or in a cluster one
// pipeline. Each is still decided on its own. So under load a check takes a fraction
// of a round trip, and the server's work for each is less than for a call of its own.
// A caller whose context ends leaves at once, unless it carries the call of a lone
// question itself: then it leaves with the answer, or when the budget or its own
// deadline ends.
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
//     question's budget holds all the same, at the price of handing each question to
//     another goroutine, which stays behind when the server does not answer until the
//     client's own timeouts end it. So does one for TLS, since go-redis shakes hands
//     without looking at the deadline.
//   - Dialer: [Dialer](nil), or Dialer(config) for TLS. Without it, an answer that came in
//     time may be read too late while thousands of goroutines want the processors, and counts
//     as none.
type Redis struct {
	topology topology.Topology
	prefix   string
	budget   time.Duration
	patience time.Duration // how long a call may wait until it is sent; 0: queueBudgets
	clock    clock         // nil: the server's
	logger   func() *slog.Logger

	owned         bool // the client is closed with the store
	heedsDeadline bool
	sharded       atomic.Bool // different keys may be on different servers

	scripts  [tasks][allSets]atomic.Pointer[script]
	repaired atomic.Int64
	warnings struct{ shadows, charged, repaired, hooks warning }

	inFlight, maxWaiting int
	breakerFailures      int
	breakerPause         time.Duration
	trace                Trace
	only                 *server // nil: there are several
	servers              servers
	location             location
	calls                calls // besides those in lanes
	givenBack            giveBacks
	unpackable           atomic.Bool // it has turned out that keys cannot share a call
	closed               atomic.Bool
}

const (
	defaultPrefix = "ratelimit"
	defaultBudget = 100 * time.Millisecond

	defaultBreakerFailures = 5
	defaultBreakerPause    = 500 * time.Millisecond
)

// NewRedis returns a store on a client. It talks to nobody. It panics if the client is nil, or has a
// TLSConfig and a [Dialer] that was not given it.
func NewRedis(rdb redis.UniversalClient, options ...RedisOption) *Redis {
	if rdb == nil {
		panic("core: NewRedis needs a client")
	}
	if settings, _ := topology.Of(rdb).Settings(); settings.TLS != nil && settings.Plain {
		panic("core: the redis client has a TLSConfig that its Dialer does not use: write core.Dialer(config) instead of core.Dialer(nil)")
	}
	r := newRedis(rdb, topology.Of(rdb).HeedsDeadline(), options)
	r.warnOfClient()
	return r
}

func newRedis(rdb redis.UniversalClient, heedsDeadline bool, options []RedisOption) *Redis {
	r := &Redis{
		topology:        topology.Of(rdb),
		prefix:          defaultPrefix,
		budget:          defaultBudget,
		logger:          slog.Default,
		heedsDeadline:   heedsDeadline,
		inFlight:        defaultInFlight,
		maxWaiting:      defaultMaxWaiting,
		breakerFailures: defaultBreakerFailures,
		breakerPause:    defaultBreakerPause,
	}
	for _, option := range options {
		option.applyRedis(r)
	}
	if r.patience == 0 {
		r.patience = queueBudgets * r.budget
	}
	r.sharded.Store(r.topology.Sharded())
	if !r.topology.Sharded() {
		r.only = r.newServer(r.topology.Single)
	}
	return r
}

// warnOfClient logs what about a user's own client can do harm.
func (r *Redis) warnOfClient() {
	settings, known := r.topology.Settings()
	if settings.Retries > 0 {
		r.logger().Warn("core: the redis client repeats what it has sent when the answer is late, so a request may be charged twice: set MaxRetries to -1")
	}
	if known && !settings.Deadlines {
		r.logger().Warn("core: the redis client ignores deadlines, which makes each question slower: set ContextTimeoutEnabled")
	}
	if known && settings.NoDialer {
		r.logger().Warn("core: in a crowd the redis client may read answers too late: set Dialer to core.Dialer(nil), or to core.Dialer(config) for TLS")
	}
}

// Decide implements [Store].
func (r *Redis) Decide(ctx context.Context, checks []Check, decisions []Decision) error {
	return r.ask(ctx, checks, decisions, nil, false)
}

// Reserve implements [Store].
func (r *Redis) Reserve(ctx context.Context, checks []Check, decisions []Decision, moments []Moment) error {
	return r.ask(ctx, checks, decisions, moments, false)
}

// reserveInOrder implements orderedStore. In a cluster or ring, whose parts are charged one by one,
// the first call is asked if it is about several keys.
func (r *Redis) reserveInOrder(ctx context.Context, calls [][]Check, decisions [][]Decision, moments [][]Moment) (granted int, denied bool, err error) {
	q := newQuestion(calls[0], false)
	defer q.free()
	if len(calls) == 1 || severalKeys(calls[0]) && r.topology.Single == nil || meet(q.groups) {
		if err := r.Reserve(ctx, calls[0], decisions[0], moments[0]); err != nil {
			return 0, false, err
		}
		granted, denied = countPassed(calls[:1], decisions)
		return granted, denied, nil
	}
	first := &q.groups[0][0]
	if costs := firstCosts(calls); slices.Min(costs) != slices.Max(costs) {
		first.costs = costs
	}
	told, err := r.askReply(ctx, q.groups, true, len(calls))
	if err != nil {
		return 0, false, err
	}
	for i, checks := range calls {
		first.check, first.cost = &calls[i][0], calls[0][0].Units() // advance changes the cost
		if err := r.observed(q.groups, told.text, i); err != nil {
			return 0, false, err
		}
		for _, group := range q.groups {
			pass := passed(group)
			answer(group, decisions[i], pass, false)
			charged(group, pass, moments[i])
		}
		for j := range moments[i] {
			moments[i][j].At = told.at
		}
		if !passedAll(checks, decisions[i]) {
			return i, true, nil
		}
	}
	return len(calls), false, nil
}

// Peek implements [Store].
func (r *Redis) Peek(ctx context.Context, checks []Check, decisions []Decision) error {
	return r.ask(ctx, checks, decisions, nil, true)
}

func (r *Redis) ask(ctx context.Context, checks []Check, decisions []Decision, at []Moment, peek bool) error {
	q := newQuestion(checks, peek)
	defer q.free()
	several := severalKeys(checks)
	var err error
	if !several || !r.sharded.Load() {
		var decided int64
		decided, err = r.askServer(ctx, q.groups, at != nil)
		for i := range at {
			at[i].At = decided
		}
	}
	if several && redis.HasErrorPrefix(err, "CROSSSLOT") { // a cluster in disguise
		r.sharded.Store(true)
	}
	if several && r.sharded.Load() {
		err = r.askParts(ctx, q.groups, at)
	}
	if err != nil {
		return err
	}
	for _, group := range q.groups {
		pass := passed(group)
		answer(group, decisions, pass, peek)
		if at != nil {
			charged(group, pass, at)
		}
	}
	return nil
}

// askServer has the script decide groups whose keys are on one server, and returns the instant of
// the decision if that is wanted.
func (r *Redis) askServer(ctx context.Context, groups [][]ask, wantInstant bool) (at int64, err error) {
	told, err := r.askReply(ctx, groups, wantInstant, 1)
	if err != nil {
		return 0, err
	}
	return told.at, r.observed(groups, told.text, told.place)
}

// toldReply is a reply, and which of those who have asked the same it is for.
type toldReply struct {
	reply

	place int
}

// askReply has the script decide groups whose keys are on one server, so many times.
func (r *Redis) askReply(ctx context.Context, groups [][]ask, wantInstant bool, times int) (toldReply, error) {
	if ctx.Err() != nil {
		return toldReply{}, r.batchError(nil, nil, context.Cause(ctx))
	}
	s, err := r.serverOf(ctx, groups[0][0].check.Key)
	if err != nil {
		return toldReply{}, err
	}
	call := s.checks.NewCall()
	r.write(&call.Question, groups, wantInstant, times)
	switch err := s.checks.Do(ctx, call); {
	case errors.Is(err, batch.ErrLeft):
		r.giveBackLater(s, call, groups, times)
		return toldReply{}, failed(GivenUp, "core: the call was given up: %w", context.Cause(ctx))
	case err != nil:
		s.checks.Free(call)
		return toldReply{}, err
	}
	defer s.checks.Free(call)
	if call.Err != nil {
		return toldReply{}, r.unlessTimeIsUp(ctx, call.Err)
	}
	return toldReply{call.Answer, call.Place}, nil
}

// giveBackLater gives back what a call has charged whose caller has left, when it is answered. The
// caller's checks are theirs again meanwhile.
func (r *Redis) giveBackLater(s *server, call *requestCall, groups [][]ask, times int) {
	r.calls.follow()
	own := copied(groups)
	go func() { // ends within the patience and the budget
		defer r.calls.end()
		s.checks.Wait(call)
		defer s.checks.Free(call)
		if call.Err != nil {
			return
		}
		for i := times - 1; i >= 0; i-- { // the last one first, as queues want it
			if first := &own[0][0]; first.costs != nil {
				first.cost = first.costs[0]
			}
			if r.observed(own, call.Answer.text, call.Place+i) != nil {
				return
			}
			for _, group := range own {
				if passed(group) {
					r.giveBack(context.Background(), group, call.Answer.at)
				}
			}
		}
	}()
}

// write puts groups into a request that asks them so many times.
func (r *Redis) write(q *request, groups [][]ask, wantInstant bool, times int) {
	q.empty()
	q.instant, q.times, q.alike = wantInstant, times, times == 1 && !meet(groups)
	for _, group := range groups {
		for i := range group {
			a := &group[i]
			q.keys = append(q.keys, r.key(a.check))
			q.arguments = appendCheck(q.arguments, a, i < len(group)-1)
			q.of |= setOf(a.check.Limit.spec.Algorithm)
			q.numbers += a.check.Limit.spec.Algorithm.Observed()
			q.weight++
			if a.charge && a.check.Limit.spec.Algorithm.Logs() {
				q.logged += a.costOf(times)
			}
		}
	}
}

// key returns the Redis key of a check.
func (r *Redis) key(c *Check) string {
	var scratch [256]byte
	return string(appendKey(scratch[:0], r.prefix, c.Key, c.spec()))
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

// within runs a call to Redis within the store's budget, whatever the client does.
func (r *Redis) within(ctx context.Context, call func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, r.budget)
	defer cancel()
	if r.heedsDeadline {
		return r.explainCall(ctx, bounded, unlessPanicked(bounded, call))
	}
	done := make(chan error, 1)
	go func() { done <- unlessPanicked(bounded, call) }() // ends with the client's own timeouts
	select {
	case err := <-done:
		return r.explainCall(ctx, bounded, err)
	case <-bounded.Done():
		return r.explainCall(ctx, bounded, bounded.Err())
	}
}

// unlessPanicked runs a call to Redis, and makes an error of its panic: hooks of the client are not
// ours.
func unlessPanicked(ctx context.Context, call func(context.Context) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = failed(Other, "core: the redis client or a hook of it panicked: %v", cause)
		}
	}()
	return call(ctx)
}

// observed reads the numbers of a reply for the asks they belong to. Of a call that was asked
// several times this is one, with a place among them.
func (r *Redis) observed(groups [][]ask, text string, place int) error {
	numbers := numberReader{rest: text}
	for _, group := range groups {
		for i := range group {
			a, mark := &group[i], byte(unmarked)
			var seen [4]int64
			for j := range a.check.Limit.spec.Algorithm.Observed() {
				seen[j], mark = numbers.next()
			}
			a.usage = exact.Usage{Used: seen[0], Second: seen[1], Third: seen[2], Fourth: seen[3]}
			if mark != unmarked && place == 0 {
				r.reportRepair(a, mark)
			}
		}
		if place > 0 {
			advance(group, place)
		}
	}
	if numbers.wrong {
		return garbled(text)
	}
	return nil
}

// reportRepair counts and logs that a key held something no script of ours writes, or had no time
// to live. If the call charges it, it has been repaired. Logs do not say whose it was.
func (r *Redis) reportRepair(a *ask, mark byte) {
	if !a.charge {
		return
	}
	message := "core: a redis key was damaged and has been replaced"
	if mark == renewed {
		message = "core: a redis key had no time to live and has one now"
	}
	total := r.repaired.Add(1)
	r.contain(func() {
		r.warnings.repaired.log(r.logger(), message, slog.String("limit", a.check.Limit.Name()), slog.Int64("total", total))
	})
}

// Repaired returns how many keys this store has found damaged (of another type, or with a value
// that no limit could have left) and replaced, or without a time to live and given one. That is
// also logged, no more than once in ten seconds.
func (r *Redis) Repaired() int64 { return r.repaired.Load() }

// Ping implements [Store]. Each master of a cluster or shard of a ring is asked. It opens as many
// connections as calls use at once, and loads the scripts. It runs scripts rather than PING, so
// that it needs no other permission than a call does.
func (r *Redis) Ping(ctx context.Context) error {
	if r.closed.Load() {
		return errClosed
	}
	return r.explainCall(ctx, ctx, r.topology.Each(ctx, r.warm))
}

// warm has a server know the scripts, and opens the connections that calls use.
func (r *Redis) warm(ctx context.Context, server redis.UniversalClient) error {
	if err := r.load(ctx, server); err != nil {
		return err
	}
	client, ok := server.(*redis.Client)
	if !ok {
		return nil
	}
	var group sync.WaitGroup
	connections := make([]*redis.Conn, min(r.inFlight+inFlightSettlements, client.Options().PoolSize))
	failures := make([]error, len(connections))
	for i := range connections {
		connections[i] = client.Conn() // keeps its connection until it is closed, so that each has another one
		group.Go(func() { failures[i] = touch(ctx, connections[i]) })
	}
	group.Wait()
	for i, connection := range connections {
		_ = connection.Close()
		if errors.Is(failures[i], redis.ErrPoolTimeout) || errors.Is(failures[i], redis.ErrPoolExhausted) {
			failures[i] = nil // the client's other users have them, and they are open
		}
	}
	return errors.Join(failures...)
}

// load makes a server load the scripts of the single algorithms and of every mix that this store
// has been asked about. Without keys a script decides nothing.
func (r *Redis) load(ctx context.Context, client redis.Cmdable) error {
	for a := range exact.All() {
		r.script(decide, setOf(a))
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

// Close implements [Store]. Calls that have been asked are answered first, and settlements are
// carried out, as far as their time allows. It closes the client only if [Open] made it.
func (r *Redis) Close() error {
	r.closed.Store(true)
	r.calls.close()
	r.eachServer(func(s *server) { s.checks.Close() })
	r.calls.drain(r.patience + r.budget) // what they give back comes after their checks
	r.eachServer(func(s *server) { s.settlements.Close() })
	if !r.owned {
		return nil
	}
	if err := r.topology.Client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("core: %w", err)
	}
	return nil
}

// eachServer calls a function for each server that has been asked, for all at once.
func (r *Redis) eachServer(do func(*server)) {
	var group sync.WaitGroup
	if r.only != nil {
		group.Go(func() { do(r.only) })
	}
	r.servers.byAddress.Range(func(_, s any) bool {
		group.Go(func() { do(s.(*server)) }) //nolint:forcetypeassert // the map holds nothing else
		return true
	})
	group.Wait()
}
