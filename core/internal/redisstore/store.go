// Package redisstore decides calls and carries out corrections on Redis: on a server, a cluster or a
// ring, through batches that share round trips. A Store may be used by many goroutines at once.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/batch"
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/script"
)

// Config says how a store works. All fields but Patience, Clock, Call and Breaker are needed.
type Config struct {
	// Client is the client to ask, and Owned says that Close closes it.
	Client redis.UniversalClient
	Owned  bool
	// HeedsDeadline says that the client returns when a context ends.
	HeedsDeadline bool
	// Prefix begins every key.
	Prefix string
	// Budget is how long Redis may take for an answer, from when a call is sent.
	Budget time.Duration
	// Patience is how long a call may wait until it is sent. The default is ten budgets.
	Patience time.Duration
	// InFlight is how many batches of checks may be in flight to a server, and MostWaiting how many
	// calls may wait for that.
	InFlight, MostWaiting int
	// A server that fails BreakerFailures times in a row is not asked for a BreakerPause. 0 failures
	// are none.
	BreakerFailures int
	BreakerPause    time.Duration
	// Clock returns the time in microseconds since 1970. The default is the server's clock.
	Clock func() int64
	// Logger returns the logger for events that callers cannot see.
	Logger func() *slog.Logger
	// Batch is called for each batch of checks that has ended. It may be nil.
	Batch func(server string, report batch.Report)
	// Breaker is called when a server is suspended, tried and asked again. It may be nil.
	Breaker func(server string, state batch.State)
	// Reclaimed is called when places have been taken from holders that have let their leases end, and when reservations
	// were given back because their time was over. It may be nil.
	Reclaimed func(*exact.Spec)
}

// Store is a store on Redis. It is made by [New].
type Store struct {
	Config

	topology Topology
	sharded  atomic.Bool // different keys may be on different servers

	scripts  [script.Tasks][exact.Count + 1]atomic.Pointer[script.Script]
	repaired atomic.Int64
	warnings struct{ shadows, charged, repaired, hooks, wakes call.Warning }

	only       *server // nil: there are several
	servers    servers
	location   location
	calls      calls         // besides those in lanes
	beside     chan struct{} // has one for each request that is sent beside the lanes
	givenBack  watchers
	unpackable atomic.Bool // it has turned out that keys cannot share a script call
	closed     atomic.Bool
	ending     chan struct{}                  // is closed with the store
	lines      *func() *slog.Logger           // which logs the lines of the client, see lines
	marked     func(*call.Check, script.Mark) // reportMark
}

// New returns a store. It sends nothing.
func New(config Config) *Store {
	r := &Store{Config: config, topology: TopologyOf(config.Client), beside: make(chan struct{}, mostBeside), ending: make(chan struct{})}
	r.marked = r.reportMark
	if r.Patience == 0 {
		r.Patience = queueBudgets * r.Budget
	}
	r.sharded.Store(r.topology.Sharded())
	if !r.topology.Sharded() {
		r.only = r.newServer(r.topology.Single)
	}
	r.takeLines()
	return r
}

// Topology returns how the client spreads keys over servers.
func (r *Store) Topology() Topology { return r.topology }

// Closed returns the error of calls to a store that is closed, or nil if it is not.
func (r *Store) Closed() error {
	if r.closed.Load() {
		return call.ErrClosed
	}
	return nil
}

// Bound runs a call to Redis within the store's budget, also if the client ignores deadlines.
func (r *Store) Bound(ctx context.Context, do func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, r.Budget)
	defer cancel()
	if r.HeedsDeadline {
		return r.Explain(ctx, bounded, unlessPanicked(bounded, do))
	}
	done := make(chan error, 1)
	go func() { done <- unlessPanicked(bounded, do) }() // ends with the client's own timeouts
	select {
	case err := <-done:
		return r.Explain(ctx, bounded, err)
	case <-bounded.Done():
		return r.Explain(ctx, bounded, bounded.Err())
	}
}

// unlessPanicked runs a call to Redis, and makes an error of its panic: hooks of the client are not
// ours.
func unlessPanicked(ctx context.Context, do func(context.Context) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = call.Sent(call.Other, "core: the redis client or a hook of it panicked: %v", cause)
		}
	}()
	return do(ctx)
}

// reportMark reports a script's mark of a key.
func (r *Store) reportMark(c *call.Check, mark script.Mark) {
	switch {
	case mark != script.Reclaimed:
		r.reportRepair(c, mark)
	case r.Reclaimed != nil && !c.Shadow():
		r.contain(func() { r.Reclaimed(c.Spec) })
	}
}

// reportRepair counts and logs that a key held a value that no script of ours writes, or had no time to live. If the call
// charges it, it has been repaired. Logs do not name the key.
func (r *Store) reportRepair(c *call.Check, mark script.Mark) {
	if !c.Mends() {
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

// Close closes the store. Calls that have been asked are answered first, and settlements are
// carried out, as far as their time allows. It closes the client only if the store owns it.
func (r *Store) Close() error {
	if !r.closed.Swap(true) {
		close(r.ending)
	}
	defer r.leaveLines()
	r.calls.close()
	r.eachServer(func(s *server) { s.checks.Close() })
	r.calls.drain(r.Patience + r.Budget) // these give back units after their checks
	r.eachServer((*server).closeCorrections)
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

// Name returns the Redis key of the state that a caller's key has under a spec.
func (r *Store) Name(key string, spec *exact.Spec) string { return call.Name(r.Prefix, key, spec) }

// calls counts the calls in flight that batches do not count: calls that take several batches, and calls that take none.
// The zero value counts nothing.
type calls struct {
	mu     sync.Mutex
	open   int
	closed bool
	ended  chan struct{} // closed when the last call has ended after close
}

// begin counts a call in, unless no more may begin.
func (c *calls) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return call.ErrClosed
	}
	c.open++
	return nil
}

// follow counts in a call that follows from an earlier one, even after close.
func (c *calls) follow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
	if c.closed && c.ended == nil {
		c.ended = make(chan struct{})
	}
}

// end counts a call out.
func (c *calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if c.open == 0 && c.ended != nil {
		close(c.ended)
		c.ended = nil
	}
}

// close lets no more calls begin.
func (c *calls) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.open > 0 && c.ended == nil {
		c.ended = make(chan struct{})
	}
}

// drain returns when the calls that began before close have ended, or the budget is used
// up.
func (c *calls) drain(budget time.Duration) {
	c.mu.Lock()
	ended := c.ended
	c.mu.Unlock()
	if ended == nil {
		return
	}
	patience := time.NewTimer(budget)
	defer patience.Stop()
	select {
	case <-ended:
	case <-patience.C:
	}
}
