package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"strings"
	"sync"
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
// # Sharing round trips
//
// A question that comes alone is asked at once. Those that come while two calls are
// under way to a server ([WithFlights]) wait for one to end, and are asked together
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
type Redis struct {
	client redis.UniversalClient
	prefix string
	budget time.Duration
	clock  clock // nil: the server's
	logger func() *slog.Logger

	owned         bool // the client is closed with the store
	heedsDeadline bool
	sharded       atomic.Bool // different keys may be on different servers
	packs         bool        // keys of one server can share a script call

	scripts  [tasks][allSets]atomic.Pointer[script]
	replaced atomic.Int64
	warnings struct{ shadows, charged, damaged warning }

	mostFlights, maxWaiting int
	breakerFailures         int
	breakerPause            time.Duration
	trace                   Trace
	only                    *flights    // where there is one server
	servers                 sync.Map    // where there are several: flights by server
	swept                   sweeps      // of those that are not asked any more
	calls                   calls       // besides flights
	located                 atomic.Bool // a cluster's nodes are known
	unpackable              atomic.Bool // it has turned out that keys cannot share a call
	closed                  atomic.Bool
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
	r := newRedis(rdb, heedsDeadline(rdb), options)
	r.warnOfClient()
	return r
}

func newRedis(rdb redis.UniversalClient, heedsDeadline bool, options []RedisOption) *Redis {
	r := &Redis{
		client:          rdb,
		prefix:          defaultPrefix,
		budget:          defaultBudget,
		logger:          slog.Default,
		heedsDeadline:   heedsDeadline,
		packs:           packs(rdb),
		mostFlights:     defaultFlights,
		maxWaiting:      defaultMaxWaiting,
		breakerFailures: defaultBreakerFailures,
		breakerPause:    defaultBreakerPause,
	}
	r.sharded.Store(sharded(rdb))
	for _, option := range options {
		option.applyRedis(r)
	}
	r.only = r.newFlights(address(rdb))
	return r
}

// address returns the address of the one server that a client has, if it tells.
func address(rdb redis.UniversalClient) string {
	if client, ok := rdb.(*redis.Client); ok {
		return client.Options().Addr
	}
	return ""
}

// newFlights returns the flights to one server.
func (r *Redis) newFlights(server string) *flights {
	suspended := new(atomic.Bool)
	return &flights{
		server: server, fly: r.fly, traced: r.trace.Call,
		budget: r.budget, most: r.mostFlights, maxWaiting: r.maxWaiting, heeded: r.heedsDeadline,
		breaker: newBreaker(r.breakerFailures, r.breakerPause, func(state BreakerState) { r.reportBreaker(server, state, suspended) }),
		ended:   make(chan struct{}),
	}
}

// reportBreaker traces a change of state. It is logged when a server is suspended and
// when it is asked again; not each time that it is tried in between.
func (r *Redis) reportBreaker(server string, state BreakerState, suspended *atomic.Bool) {
	switch state {
	case BreakerOpen:
		if !suspended.Swap(true) {
			r.logger().Info("core: redis keeps failing and is not asked for a while",
				slog.String("server", server), slog.Duration("pause", r.breakerPause))
		}
	case BreakerClosed:
		suspended.Store(false)
		r.logger().Info("core: redis answers again", slog.String("server", server))
	case BreakerHalfOpen:
	}
	if r.trace.Breaker != nil {
		r.trace.Breaker(server, state)
	}
}

// warnOfClient logs what about a user's own client can do harm.
func (r *Redis) warnOfClient() {
	settings, known := settingsOf(r.client)
	if settings.retries > 0 {
		r.logger().Warn("core: the redis client repeats what it has sent when the answer is late, so a request may be charged twice: set MaxRetries to -1")
	}
	if known && !settings.deadlines {
		r.logger().Warn("core: the redis client ignores deadlines, which makes each question slower: set ContextTimeoutEnabled")
	}
}

// flightsTo returns the flights to the server that a caller's key is on.
func (r *Redis) flightsTo(ctx context.Context, key string) (*flights, error) {
	var scratch [256]byte
	var server any
	var err error
	switch client := r.client.(type) {
	case *redis.ClusterClient:
		server, err = r.nodeOf(ctx, client, string(appendSubject(scratch[:0], key)))
	case *redis.Ring:
		server, err = client.GetShardClientForKey(string(appendSubject(scratch[:0], key)))
		err = r.explain(ctx, ctx, err)
	default:
		return r.only, nil
	}
	if err != nil {
		return nil, err
	}
	return r.flightsAt(server), nil
}

// flightsAt returns the flights to one of several servers.
func (r *Redis) flightsAt(server any) *flights {
	found, ok := r.servers.Load(server)
	if !ok {
		r.sweep()
		found, _ = r.servers.LoadOrStore(server, r.newFlights(serverAddress(server)))
		if r.closed.Load() { // since before it was to be found
			found.(*flights).close() //nolint:forcetypeassert // the map holds nothing else
		}
	}
	f := found.(*flights) //nolint:forcetypeassert // the map holds nothing else
	if !f.wanted.Load() {
		f.wanted.Store(true)
	}
	return f
}

// forgotten is for how long a server has not been asked when it may be forgotten.
const forgotten = time.Minute

// sweeps is when servers were last looked through. The zero value is never.
type sweeps struct {
	mu   sync.Mutex
	last time.Time
}

// sweep forgets servers that have not been asked since the last sweep, a while ago: nodes
// come and go, each with an address of its own.
func (r *Redis) sweep() {
	r.swept.mu.Lock()
	defer r.swept.mu.Unlock()
	if time.Since(r.swept.last) < forgotten {
		return
	}
	r.swept.last = time.Now()
	r.servers.Range(func(server, found any) bool {
		f := found.(*flights) //nolint:forcetypeassert // the map holds nothing else
		if !f.wanted.Swap(false) && f.idle() {
			r.servers.Delete(server)
		}
		return true
	})
}

// serverAddress returns the address of what the flights to several servers are kept
// by: a node's address, or a shard's client.
func serverAddress(server any) string {
	if shard, ok := server.(*redis.Client); ok {
		return shard.Options().Addr
	}
	return server.(string) //nolint:forcetypeassert // there is nothing else
}

// nodeOf returns the address of the cluster's node that has a hash tag. The map of the
// cluster has to be fetched at first, which takes as long as it takes.
func (r *Redis) nodeOf(ctx context.Context, client *redis.ClusterClient, tag string) (address string, err error) {
	look := func(ctx context.Context) (string, error) {
		node, err := client.MasterForKey(ctx, tag)
		if err != nil {
			return "", err
		}
		return node.Options().Addr, nil
	}
	if r.located.Load() {
		address, err = look(ctx)
		return address, r.explain(ctx, ctx, err)
	}
	if address, err = r.within(ctx, look); err == nil {
		r.located.Store(true)
	}
	return address, err
}

// heedsDeadline reports whether a client is known to end a call when its context
// does. It may not while it connects: go-redis shakes hands for TLS without looking at
// it, and what its user has it do then is not known.
func heedsDeadline(rdb redis.UniversalClient) bool {
	switch client := rdb.(type) {
	case *redis.Client:
		o := client.Options()
		return o.ContextTimeoutEnabled && o.TLSConfig == nil && o.OnConnect == nil && o.CredentialsProvider == nil &&
			ownDialer(o.Dialer)
	case *redis.ClusterClient:
		o := client.Options()
		return o.ContextTimeoutEnabled && o.TLSConfig == nil && o.OnConnect == nil && o.CredentialsProvider == nil && o.Dialer == nil
	case *redis.Ring:
		o := client.Options()
		return o.ContextTimeoutEnabled && o.TLSConfig == nil && o.OnConnect == nil && o.Dialer == nil
	}
	return false
}

// ownDialer reports whether a dialer is the client's own, which its options have when
// they were given none. Its name is all that tells it from a user's.
func ownDialer(dialer any) bool {
	function := runtime.FuncForPC(reflect.ValueOf(dialer).Pointer())
	return function != nil && strings.Contains(function.Name(), "/go-redis/v9.")
}

// sharded reports whether a client spreads keys over several servers.
func sharded(rdb redis.UniversalClient) bool {
	switch rdb.(type) {
	case *redis.ClusterClient, *redis.Ring:
		return true
	}
	return false
}

// packs reports whether a script call may have keys that have nothing in common, as
// long as they are on one server. Of a client that is not known this cannot be said:
// it may be a cluster's in disguise.
func packs(rdb redis.UniversalClient) bool {
	switch rdb.(type) {
	case *redis.Client, *redis.Ring:
		return true
	}
	return false
}

// Decide implements [Store].
func (r *Redis) Decide(ctx context.Context, checks []Check, decisions []Decision) error {
	return r.ask(ctx, checks, decisions, nil, false)
}

// Reserve implements [Store].
func (r *Redis) Reserve(ctx context.Context, checks []Check, decisions []Decision, moments []Moment) error {
	return r.ask(ctx, checks, decisions, moments, false)
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

// askServer has the script decide groups whose keys are on one server, and returns
// the instant of the decision if that is wanted.
func (r *Redis) askServer(ctx context.Context, groups [][]ask, wantInstant bool) (at int64, err error) {
	if ctx.Err() != nil {
		return 0, failed(GivenUp, "core: the question was given up: %w", context.Cause(ctx))
	}
	flights, err := r.flightsTo(ctx, groups[0][0].check.Key)
	if err != nil {
		return 0, err
	}
	request := flights.newRequest()
	r.write(request, groups, wantInstant)
	if err := flights.ask(ctx, request); err != nil {
		return 0, err // the request may still be on its way, and is left to it
	}
	defer flights.free(request)
	if request.err != nil {
		return 0, request.err
	}
	return request.at, r.observed(groups, request.reply)
}

// write puts groups into a request.
func (r *Redis) write(request *request, groups [][]ask, wantInstant bool) {
	request.instant = wantInstant
	for _, group := range groups {
		for i := range group {
			a := &group[i]
			request.keys = append(request.keys, r.key(a.check))
			request.arguments = appendWords(request.arguments, a, i < len(group)-1)
			request.of |= a.check.Limit.algorithm.set()
			request.numbers += a.check.Limit.algorithm.observed()
			request.weight += a.weight()
		}
	}
}

// key returns the Redis key of a check.
func (r *Redis) key(c *Check) string {
	var scratch [256]byte
	return string(appendKey(scratch[:0], r.prefix, c.Key, &c.Limit, c.Shadow))
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

// fly takes a batch of questions to the server that they are for.
func (r *Redis) fly(ctx context.Context, batch []*request, words []any) ([]any, error) {
	if len(batch) > 1 && (!r.packs || r.unpackable.Load()) {
		return words, r.flyPipelined(ctx, batch)
	}
	return r.flyPacked(ctx, batch, words)
}

// flyPacked takes a batch of questions to a server as one script call.
func (r *Redis) flyPacked(ctx context.Context, batch []*request, words []any) ([]any, error) {
	script, call := r.call(words, decide, batch)
	reply, err := r.run(ctx, script, call)
	switch {
	case len(batch) == 1:
	case redis.HasErrorPrefix(err, "CROSSSLOT"): // a cluster behind a proxy
		r.unpackable.Store(true)
		return call, r.flyPipelined(ctx, batch)
	case err != nil && kindOf(err) == OutOfMemory: // nothing was charged, and who is refused needs no memory
		return call, r.flyPipelined(ctx, batch)
	}
	err = r.explain(context.Background(), ctx, err)
	return call, deliver(batch, reply, err)
}

// flyPipelined takes a batch of questions to the servers of a cluster, where keys
// cannot share a call, as a call each in one pipeline.
func (r *Redis) flyPipelined(ctx context.Context, batch []*request) error {
	commands, scripts := make([]*redis.StringCmd, len(batch)), make([]*script, len(batch))
	client := r.nearest(ctx, batch[0].keys[0])
	pipeline := client.Pipeline()
	for i := range batch {
		var call []any
		scripts[i], call = r.call(nil, decide, batch[i:i+1])
		call[0], call[1] = "evalsha", scripts[i].hash
		commands[i] = redis.NewStringCmd(ctx, call...)
		_ = pipeline.Process(ctx, commands[i])
	}
	execute(ctx, pipeline, commands)
	unknown, moved := client.Pipeline(), r.client.Pipeline()
	for i, command := range commands {
		again := unknown
		switch {
		case r.redirected(ctx, command.Err()):
			again = moved
		case !redis.HasErrorPrefix(command.Err(), "NOSCRIPT"):
			continue
		}
		call := command.Args()
		call[0], call[1] = "eval", scripts[i].source
		commands[i] = redis.NewStringCmd(ctx, call...)
		_ = again.Process(ctx, commands[i])
	}
	execute(ctx, unknown, commands)
	execute(ctx, moved, commands)
	var failure error // of the node, if all have failed
	answered := false
	for i, command := range commands {
		reply, err := command.Result()
		err = r.explain(context.Background(), ctx, err)
		err = deliver(batch[i:i+1], reply, err)
		failure, answered = err, answered || err == nil
	}
	if answered {
		return nil
	}
	return failure
}

// execute has a pipeline executed. If it has no connection, go-redis says so, but not to
// the commands.
func execute(ctx context.Context, pipeline redis.Pipeliner, commands []*redis.StringCmd) {
	if pipeline.Len() == 0 {
		return
	}
	_, err := pipeline.Exec(ctx)
	if _, replied := errors.AsType[redis.Error](err); err == nil || replied {
		return
	}
	for _, command := range commands {
		if command.Err() == nil && command.Val() == "" { // no script replies nothing
			command.SetErr(err)
		}
	}
}

// call appends the words of a script call for a batch to call, but for the first two.
func (r *Redis) call(call []any, does task, batch []*request) (*script, []any) {
	keys, of, instant := 0, set(0), false
	for _, request := range batch {
		keys += len(request.keys)
		of |= request.of
		instant = instant || request.instant
	}
	call = append(call, nil, nil, keys)
	for _, request := range batch {
		call = append(call, request.keys...)
	}
	for _, request := range batch {
		call = append(call, request.arguments...)
	}
	if instant {
		call = append(call, "at")
	}
	if r.clock != nil {
		call = append(call, r.clock())
	}
	return r.script(does, of), call
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
	const firstKey = 3 // after the name, the script and the number of keys
	command := redis.NewStringCmd(ctx, call...)
	_ = r.nearest(ctx, call[firstKey]).Process(ctx, command) // the command carries the error
	if r.redirected(ctx, command.Err()) {
		command = redis.NewStringCmd(ctx, call...)
		_ = r.client.Process(ctx, command)
	}
	return command.Result()
}

// caller is a client as far as script calls need it.
type caller interface {
	Process(ctx context.Context, command redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// nearest returns the client to give a script call for a key to: in a cluster that of
// the key's node. The cluster's own repeats a call when the connection breaks, whatever
// its MaxRetries, though the call may have been charged.
func (r *Redis) nearest(ctx context.Context, key any) caller {
	if cluster, ok := r.client.(*redis.ClusterClient); ok {
		if node, err := cluster.MasterForKey(ctx, key.(string)); err == nil { //nolint:forcetypeassert // as request has it
			return node
		}
	}
	return r.client
}

// redirected reports whether a node has refused a call because the key is, or is about
// to be, on another one. Then nothing was charged, and the cluster's client finds the
// way. After any failure but that it learns anew who has which slots.
func (r *Redis) redirected(ctx context.Context, err error) bool {
	cluster, ok := r.client.(*redis.ClusterClient)
	if !ok || err == nil || redis.HasErrorPrefix(err, "NOSCRIPT") {
		return false
	}
	cluster.ReloadState(ctx)
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") || redis.HasErrorPrefix(err, "TRYAGAIN")
}

// within runs a call to Redis within the store's budget, whatever the client does.
func (r *Redis) within(ctx context.Context, call func(context.Context) (string, error)) (string, error) {
	bounded, cancel := context.WithTimeout(ctx, r.budget)
	defer cancel()
	if r.heedsDeadline {
		reply, err := unlessPanicked(bounded, call)
		return reply, r.explain(ctx, bounded, err)
	}
	type result struct {
		reply string
		err   error
	}
	done := make(chan result, 1)
	go func() { // ends with the client's own timeouts
		reply, err := unlessPanicked(bounded, call)
		done <- result{reply, err}
	}()
	select {
	case answer := <-done:
		return answer.reply, r.explain(ctx, bounded, answer.err)
	case <-bounded.Done():
		return "", r.explain(ctx, bounded, bounded.Err())
	}
}

// unlessPanicked runs a call to Redis, and makes an error of its panic.
func unlessPanicked(ctx context.Context, call func(context.Context) (string, error)) (reply string, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = panicked(cause)
		}
	}()
	return call(ctx)
}

// panicked returns the error for the cause of a panic: hooks of the client, and traces,
// are not ours.
func panicked(cause any) error {
	return failed(Other, "core: the redis client or a trace panicked: %v", cause)
}

// observed reads the numbers of a reply for the asks they belong to.
func (r *Redis) observed(groups [][]ask, reply string) error {
	numbers := numberReader{rest: reply}
	for _, group := range groups {
		for i := range group {
			a, damaged := &group[i], false
			var seen [4]int64
			for j := range a.check.Limit.algorithm.observed() {
				seen[j], damaged = numbers.next()
			}
			a.usage = usage{seen[0], seen[1], seen[2], seen[3]}
			if damaged {
				r.reportDamage(a)
			}
		}
	}
	if numbers.wrong {
		return failed(Garbled, "core: redis replied %.100q, which is no answer to the question", reply)
	}
	return nil
}

// reportDamage counts and logs that a key held something no script of ours writes. If
// the question charges it, it has been replaced. Logs do not say whose it was.
func (r *Redis) reportDamage(a *ask) {
	if !a.charge {
		return
	}
	total := r.replaced.Add(1)
	r.warnings.damaged.log(r.logger(), "core: a redis key was damaged and has been replaced",
		slog.String("limit", a.check.Limit.Name()), slog.Int64("total", total))
}

// Replaced returns how many keys this store has found damaged (of another type,
// or with a value that no limit could have left) and replaced by new ones. That is also
// logged, no more than once in ten seconds.
func (r *Redis) Replaced() int64 { return r.replaced.Load() }

// Ping implements [Store]. Each master of a cluster or shard of a ring is asked.
// It runs scripts rather than PING, so that it needs no other permission than a
// question does.
func (r *Redis) Ping(ctx context.Context) error {
	if r.closed.Load() {
		return errClosed
	}
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

// Close implements [Store]. Questions that have been asked are answered first, and
// settlements are carried out, each as far as its budget allows. It closes the client only
// if [Open] made it.
func (r *Redis) Close() error {
	r.closed.Store(true)
	r.calls.close()
	var group sync.WaitGroup
	group.Go(func() { r.only.close() })
	r.servers.Range(func(_, f any) bool {
		group.Go(func() { f.(*flights).close() }) //nolint:forcetypeassert // the map holds nothing else
		return true
	})
	group.Wait()
	r.calls.drain(r.budget) // what questions over several servers give back comes after their flights
	if !r.owned {
		return nil
	}
	if err := r.client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("core: %w", err)
	}
	return nil
}
