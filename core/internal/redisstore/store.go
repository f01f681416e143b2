// Package redisstore decides calls and carries out corrections on Redis: on a server, a cluster or a
// ring, through batches that share round trips. A Store may be used by many goroutines at once.
package redisstore

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
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/failure"
	"github.com/weir-go/ratelimit/core/internal/keyspace"
	"github.com/weir-go/ratelimit/core/internal/script"
	"github.com/weir-go/ratelimit/core/internal/topology"
	"github.com/weir-go/ratelimit/core/internal/warning"
)

// Config says how a store works. All fields but Patience, Clock, Call and Breaker are needed.
type Config struct {
	// Client is the client to ask, and Owned says that Close closes it.
	Client redis.UniversalClient
	Owned  bool
	// HeedsDeadline says that the client returns when a context ends.
	HeedsDeadline bool
	// Prefix is what every key starts with.
	Prefix string
	// Budget is how long Redis may take for an answer, from when a call is sent.
	Budget time.Duration
	// Patience is how long a call may wait until it is sent. The default is ten budgets.
	Patience time.Duration
	// InFlight is how many batches of checks may be under way to a server, and MostWaiting how many
	// calls may wait for that.
	InFlight, MostWaiting int
	// A server that fails BreakerFailures times in a row is not asked for a BreakerPause. 0 failures
	// are none.
	BreakerFailures int
	BreakerPause    time.Duration
	// Clock returns the time in microseconds since 1970. The default is the server's clock.
	Clock func() int64
	// Logger returns where to report what callers cannot see.
	Logger func() *slog.Logger
	// Batch is told of each batch of checks that has ended. The default is to tell nobody.
	Batch func(server string, report batch.Report)
	// Breaker is told when a server is suspended, tried and asked again. The default is to tell
	// nobody.
	Breaker func(server string, state batch.State)
}

// Store is a store on Redis. It is made by [New].
type Store struct {
	Config

	topology topology.Topology
	sharded  atomic.Bool // different keys may be on different servers

	scripts  [script.Tasks][script.Sets]atomic.Pointer[script.Script]
	repaired atomic.Int64
	warnings struct{ shadows, charged, repaired, hooks warning.Warning }

	only       *server // nil: there are several
	servers    servers
	location   location
	calls      calls // besides those in lanes
	givenBack  watchers
	unpackable atomic.Bool // it has turned out that keys cannot share a script call
	closed     atomic.Bool
}

// New returns a store. It talks to nobody.
func New(config Config) *Store {
	r := &Store{Config: config, topology: topology.Of(config.Client)}
	if r.Patience == 0 {
		r.Patience = queueBudgets * r.Budget
	}
	r.sharded.Store(r.topology.Sharded())
	if !r.topology.Sharded() {
		r.only = r.newServer(r.topology.Single)
	}
	return r
}

// Topology returns how the client spreads keys over servers.
func (r *Store) Topology() topology.Topology { return r.topology }

// Closed returns the error of calls to a store that is closed, or nil if it is not.
func (r *Store) Closed() error {
	if r.closed.Load() {
		return failure.ErrClosed
	}
	return nil
}

// Decide decides some calls, one after the other at one instant, until one is denied. It returns how
// many it has answered, at least the first: the others differ from it in the cost of their first check
// alone. A call that is asked several times comes alone.
func (r *Store) Decide(ctx context.Context, calls []*call.Call) (answered int, err error) {
	first := calls[0]
	switch {
	case first.Times > 1 && !r.asksTogether(first):
		first.Times = 1 // as many as that are granted for certain
		fallthrough
	case first.Times == 1 && (len(calls) == 1 || !r.asksTogether(first)):
		return 1, r.decideOne(ctx, first)
	case first.Times > 1:
		return 1, r.decideTimes(ctx, first)
	}
	return r.decideInOrder(ctx, calls)
}

// asksTogether reports whether a call can be asked several times in one script call.
func (r *Store) asksTogether(c *call.Call) bool {
	return len(c.Groups) == 1 && !call.Meet(c.Groups) && (r.topology.Single != nil || !severalKeys(c.Checks))
}

// decideOne decides one call.
func (r *Store) decideOne(ctx context.Context, c *call.Call) error {
	several := severalKeys(c.Checks)
	var err error
	if !several || !r.sharded.Load() {
		err = r.askServer(ctx, c.Groups, c.Settled)
	}
	if several && redis.HasErrorPrefix(err, "CROSSSLOT") { // a cluster in disguise
		r.sharded.Store(true)
	}
	if several && r.sharded.Load() {
		err = r.askParts(ctx, c.Groups)
	}
	if err != nil {
		return err
	}
	for _, group := range c.Groups {
		call.Decide(group)
	}
	return nil
}

// decideTimes decides a call that is asked several times.
func (r *Store) decideTimes(ctx context.Context, c *call.Call) error {
	told, err := r.ask(ctx, c.Groups, true, c.Times)
	if err != nil {
		return err
	}
	if err := r.observe(c.Groups, told.Text, 0); err != nil {
		return err
	}
	group := c.Groups[0]
	c.Granted = call.Granted(group, c.Times)
	call.Multiply(group, max(1, c.Granted))
	call.Decide(group)
	setInstant(group, told.At)
	return nil
}

// decideInOrder decides calls whose first checks may have different costs.
func (r *Store) decideInOrder(ctx context.Context, calls []*call.Call) (answered int, err error) {
	groups := calls[0].Groups
	costs := make([]int, len(calls))
	for i, c := range calls {
		costs[i] = c.Groups[0][0].Cost
	}
	if slices.Min(costs) != slices.Max(costs) {
		groups[0][0].Costs = costs
	}
	told, err := r.ask(ctx, groups, true, len(calls))
	if err != nil {
		return 0, err
	}
	for i, c := range calls {
		group := c.Groups[0]
		group[0].Costs = groups[0][0].Costs
		if err := r.observe(c.Groups, told.Text, i); err != nil {
			return 0, err
		}
		setInstant(group, told.At)
		if !call.Decide(group) {
			return i + 1, nil
		}
	}
	return len(calls), nil
}

// setInstant notes when a group was decided.
func setInstant(group []call.Check, at int64) {
	for i := range group {
		group[i].Charged.At = at
	}
}

// severalKeys reports whether checks are about more than one key.
func severalKeys(checks []call.Check) bool {
	for i := range checks {
		if checks[i].Key != checks[0].Key {
			return true
		}
	}
	return false
}

// askServer has the script decide groups whose keys are on one server, and notes what it has observed.
func (r *Store) askServer(ctx context.Context, groups [][]call.Check, wantInstant bool) error {
	told, err := r.ask(ctx, groups, wantInstant, 1)
	if err != nil {
		return err
	}
	for _, group := range groups {
		setInstant(group, told.At)
	}
	return r.observe(groups, told.Text, told.place)
}

// toldReply is a reply, and which of those who have asked the same it is for.
type toldReply struct {
	script.Reply

	place int
}

// ask has the script decide groups whose keys are on one server, so many times.
func (r *Store) ask(ctx context.Context, groups [][]call.Check, wantInstant bool, times int) (toldReply, error) {
	if ctx.Err() != nil {
		return toldReply{}, r.batchError(nil, nil, context.Cause(ctx))
	}
	s, err := r.serverOf(ctx, groups[0][0].Key)
	if err != nil {
		return toldReply{}, err
	}
	c := s.checks.NewCall()
	c.Question.SetChecks(groups, times, wantInstant, r.key)
	switch err := s.checks.Do(ctx, c); {
	case errors.Is(err, batch.ErrLeft):
		r.giveBackLater(s, c, groups, times)
		return toldReply{}, failure.Sent(failure.GivenUp, "core: the call was given up: %w", context.Cause(ctx))
	case err != nil:
		s.checks.Free(c)
		return toldReply{}, err
	}
	defer s.checks.Free(c)
	if c.Err != nil {
		return toldReply{}, r.unlessTimeIsUp(ctx, c.Err)
	}
	return toldReply{c.Answer, c.Place}, nil
}

// giveBackLater gives back what a call has charged whose caller has left, when it is answered. The
// caller's checks are theirs again meanwhile.
func (r *Store) giveBackLater(s *server, c *requestCall, groups [][]call.Check, times int) {
	r.calls.follow()
	own := call.Copy(groups)
	go func() { // ends within the patience and the budget
		defer r.calls.end()
		s.checks.Wait(c)
		defer s.checks.Free(c)
		if c.Err != nil {
			return
		}
		for i := times - 1; i >= 0; i-- { // the last one first, as queues want it
			if first := &own[0][0]; first.Costs != nil {
				first.Cost = first.Costs[0]
			}
			if r.observe(own, c.Answer.Text, c.Place+i) != nil {
				return
			}
			for _, group := range own {
				setInstant(group, c.Answer.At)
				if call.Decide(group) {
					r.giveBack(context.Background(), group)
				}
			}
		}
	}()
}

// key returns the Redis key of a check.
func (r *Store) key(c *call.Check) string { return r.keyOf(c.Key, c.Spec) }

// keyOf returns the Redis key of the state that a caller's key has under a spec.
func (r *Store) keyOf(key string, spec *exact.Spec) string {
	var scratch [256]byte
	return string(appendKey(scratch[:0], r.Prefix, key, spec))
}

// script returns the script of a task for a set of algorithms, assembled once.
func (r *Store) script(does script.Task, of script.Set) *script.Script {
	slot := &r.scripts[does][of]
	if s := slot.Load(); s != nil {
		return s
	}
	s := script.New(of, r.Clock != nil, does)
	slot.Store(s) // whoever else assembled it has the same
	return s
}

// Bound runs a call to Redis within the store's budget, whatever the client does.
func (r *Store) Bound(ctx context.Context, call func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, r.Budget)
	defer cancel()
	if r.HeedsDeadline {
		return r.Explain(ctx, bounded, unlessPanicked(bounded, call))
	}
	done := make(chan error, 1)
	go func() { done <- unlessPanicked(bounded, call) }() // ends with the client's own timeouts
	select {
	case err := <-done:
		return r.Explain(ctx, bounded, err)
	case <-bounded.Done():
		return r.Explain(ctx, bounded, bounded.Err())
	}
}

// unlessPanicked runs a call to Redis, and makes an error of its panic: hooks of the client are not
// ours.
func unlessPanicked(ctx context.Context, call func(context.Context) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = failure.Sent(failure.Other, "core: the redis client or a hook of it panicked: %v", cause)
		}
	}()
	return call(ctx)
}

// observe notes what a reply has observed of the checks in groups. Of a call that was asked several
// times this is the one at a place.
func (r *Store) observe(groups [][]call.Check, text string, place int) error {
	return script.Observe(groups, text, place, r.reportRepair) //nolint:wrapcheck // it is explained there
}

// reportRepair counts and logs that a key held something no script of ours writes, or had no time
// to live. If the call charges it, it has been repaired. Logs do not say whose it was.
func (r *Store) reportRepair(c *call.Check, mark script.Mark) {
	if !c.Charge {
		return
	}
	message := "core: a redis key was damaged and has been replaced"
	if mark == script.Renewed {
		message = "core: a redis key had no time to live and has one now"
	}
	total := r.repaired.Add(1)
	r.contain(func() {
		r.warnings.repaired.Log(r.Logger(), message, slog.String("limit", c.Spec.Label()), slog.Int64("total", total))
	})
}

// Repaired returns how many keys this store has found damaged (of another type, or with a value
// that no limit could have left) and replaced, or without a time to live and given one. That is
// also logged, no more than once in ten seconds.
func (r *Store) Repaired() int64 { return r.repaired.Load() }

// Ping reports whether Redis can answer. Each master of a cluster or shard of a ring is asked. It opens as many
// connections as calls use at once, and loads the scripts. It runs scripts rather than PING, so
// that it needs no other permission than a call does.
func (r *Store) Ping(ctx context.Context) error {
	if r.closed.Load() {
		return failure.ErrClosed
	}
	return r.Explain(ctx, ctx, r.topology.Each(ctx, r.warm))
}

// warm has a server know the scripts, and opens the connections that calls use.
func (r *Store) warm(ctx context.Context, server redis.UniversalClient) error {
	if err := r.load(ctx, server); err != nil {
		return err
	}
	client, ok := server.(*redis.Client)
	if !ok {
		return nil
	}
	var group sync.WaitGroup
	connections := make([]*redis.Conn, min(r.InFlight+inFlightSettlements, client.Options().PoolSize))
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
func (r *Store) load(ctx context.Context, client redis.Cmdable) error {
	for a := range exact.All() {
		r.script(script.Decide, script.SetOf(a))
	}
	pipeline := client.Pipeline()
	var known []*script.Script
	var replies []*redis.Cmd
	for does := range r.scripts {
		for of := range r.scripts[does] {
			if s := r.scripts[does][of].Load(); s != nil {
				known, replies = append(known, s), append(replies, pipeline.EvalSha(ctx, s.Hash, nil))
			}
		}
	}
	if _, err := pipeline.Exec(ctx); err != nil && !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return err
	}
	for i, reply := range replies {
		err := reply.Err()
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			err = client.Eval(ctx, known[i].Source, nil).Err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Close closes the store. Calls that have been asked are answered first, and settlements are
// carried out, as far as their time allows. It closes the client only if the store owns it.
func (r *Store) Close() error {
	r.closed.Store(true)
	r.calls.close()
	r.eachServer(func(s *server) { s.checks.Close() })
	r.calls.drain(r.Patience + r.Budget) // what they give back comes after their checks
	r.eachServer(func(s *server) { s.settlements.Close() })
	if !r.Owned {
		return nil
	}
	if err := r.topology.Client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("core: %w", err)
	}
	return nil
}

// eachServer calls a function for each server that has been asked, for all at once.
func (r *Store) eachServer(do func(*server)) {
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

// appendKey appends the Redis key of a state: see package keyspace.
func appendKey(b []byte, prefix, key string, spec *exact.Spec) []byte {
	b = keyspace.AppendTag(b, prefix, key)
	b = spec.AppendIdentity(b)
	if spec.IsShadow() {
		b = append(b, keyspace.Shadow...)
	}
	return b
}
