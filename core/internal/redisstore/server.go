package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/batch"
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/script"
	"github.com/weir-go/ratelimit/internal/dial"
)

const (
	// inFlightSettlements is how many batches of settlements may be in flight to one server, however small, and
	// inFlightPlaces how many of places that are renewed or given back.
	inFlightSettlements = 1
	inFlightPlaces      = 1
	// fullBatch is the greatest weight of a batch: Redis decides it in about a millisecond, in several script runs: see mostKeys.
	fullBatch = 256
	// queueBudgets is how many budgets a call may wait until it is sent, by default: a server that
	// answers within the budget has opened a connection by then, which takes up to seven round
	// trips.
	queueBudgets = 10
	// connectTimeout bounds how long a connection is being opened, if the client does not.
	connectTimeout = 30 * time.Second
)

type (
	lane         = batch.Lane[script.Request, script.Reply]
	requestCall  = batch.Call[script.Request, script.Reply]
	requestGroup = batch.Group[script.Request, script.Reply]
)

// server is one server as a store sees it. Checks, settlements, and places that are renewed or given back have a lane each, so
// that none delays another: they take a part of the connections each. They share a breaker.
type server struct {
	address     string                       // if it is known
	client      atomic.Pointer[redis.Client] // nil: it is not known
	breaker     *batch.Breaker
	checks      *lane
	settlements *lane
	places      *lane
	sending     atomic.Int32 // batches that are being sent or answered
	clock       func() int64 // the estimate of its clock, in microseconds
	ahead       atomic.Int64 // by how many microseconds that is ahead of this process's
	wanted      atomic.Bool  // it has been used since the last sweep; see servers.sweep
}

// newServer returns a server. Its client may be nil.
func (r *Store) newServer(client *redis.Client) *server {
	s := new(server)
	s.clock = r.newClock(s)
	s.client.Store(client)
	if client != nil {
		s.address = client.Options().Addr
	}
	suspended := new(atomic.Bool)
	s.breaker = batch.NewBreaker(r.BreakerFailures, r.BreakerPause, func(state batch.State) {
		r.reportBreaker(s.address, state, suspended)
	})
	config := batch.Config[script.Request, script.Reply]{
		Fail:    func(ctx *batch.Context, err error) error { return r.batchError(ctx, s, err) },
		Outcome: outcomeOf, Weight: (*script.Request).Weight,
		Budget: r.Budget, Patience: r.Patience, InFlight: r.InFlight, MostWaiting: r.MostWaiting,
		Full: fullBatch, Heeds: r.HeedsDeadline, Breaker: s.breaker,
		Ready: s.ready, Connect: func(ctx context.Context) error { return r.connect(ctx, s) }, ConnectTimeout: connectTimeout,
		Heard: dial.SignOf(s.address).Heard, // if the client has a dialer of ours, and does not hide the address, as one that asks sentinels does
	}
	checks, settlements := config, config
	checks.MostInFlight = func() int { return s.connections() * 3 / 8 }
	checks.Send = sender{r, s, script.Decide}.send
	checks.Hash, checks.Same = (*script.Request).Hash, script.Same
	if r.Batch != nil {
		checks.Report = func(report batch.Report) { r.reportBatch(s, report) }
	}
	settlements.Send = sender{r, s, script.Settle}.send
	settlements.Outcome = outcomeOfSettlement
	settlements.InFlight = inFlightSettlements
	settlements.Gather = true
	settlements.MostInFlight = checks.MostInFlight
	places := settlements
	places.InFlight = inFlightPlaces
	places.MostInFlight = func() int { return s.connections() / 4 }
	s.checks, s.settlements, s.places = batch.New(checks), batch.New(settlements), batch.New(places)
	return s
}

// connections returns how many connections there may be, or 0 if that is not known.
func (s *server) connections() int {
	client := s.client.Load()
	if client == nil {
		return 0
	}
	return client.Options().PoolSize
}

// ready reports whether the client has an idle connection, if others are about to take one each.
func (s *server) ready(others int) bool {
	client := s.client.Load()
	return client == nil || int(client.PoolStats().IdleConns) > others
}

// busy reports whether all connections of the client are in use, some of them by the client's other
// users. mine is how many batches of this store may hold one.
func (s *server) busy(mine int) bool {
	client := s.client.Load()
	if client == nil {
		return false
	}
	size, stats := client.Options().PoolSize, client.PoolStats()
	return stats.IdleConns == 0 && int(stats.TotalConns) >= size && mine < size
}

// idle reports whether no call waits for the server and no batch is in flight.
func (s *server) idle() bool {
	for _, l := range [...]*lane{s.checks, s.settlements, s.places} {
		if waiting, inFlight := l.Load(); waiting+inFlight > 0 {
			return false
		}
	}
	return true
}

// close closes all lanes.
func (s *server) close() {
	var group sync.WaitGroup
	group.Go(s.checks.Close)
	group.Go(s.closeCorrections)
	group.Wait()
}

// closeCorrections closes the lanes for settlements and for places.
func (s *server) closeCorrections() {
	var group sync.WaitGroup
	group.Go(s.settlements.Close)
	group.Go(s.places.Close)
	group.Wait()
}

// laneOf returns the lane of some corrections.
func (s *server) laneOf(list []call.Correction) *lane {
	if slices.ContainsFunc(list, func(c call.Correction) bool { return !c.Hurries() }) {
		return s.settlements
	}
	return s.places
}

// caller is the part of a client that script runs need.
type caller interface {
	Process(ctx context.Context, command redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// caller returns the client that sends a batch. In a cluster it is the node's own: the cluster's client repeats a call
// when the connection breaks, for all values of MaxRetries, though the call may have been charged.
func (r *Store) caller(s *server) caller {
	if client := s.client.Load(); client != nil {
		return client
	}
	return r.topology.Client
}

// connect opens a connection to a server, which its pool keeps.
func (r *Store) connect(ctx context.Context, s *server) error {
	connection := s.client.Load().Conn()
	defer func() { _ = connection.Close() }()
	err := touch(ctx, connection)
	if err != nil && r.topology.Cluster != nil {
		r.topology.Cluster.ReloadState(ctx) // another node may have its slots now
	}
	return r.explainUnsent(s, int(s.sending.Load()), err)
}

// touch opens a connection: any reply will do. TIME needs no other permission than a check.
func touch(ctx context.Context, connection *redis.Conn) error {
	err := connection.Time(ctx).Err()
	if _, replied := errors.AsType[redis.Error](err); replied {
		return nil
	}
	return err
}

// reportBatch tells of a batch of checks.
func (r *Store) reportBatch(s *server, report batch.Report) {
	r.contain(func() { r.Batch(s.address, report) })
}

// reportBreaker reports a change of state. It logs when the breaker of a server opens and when it closes,
// but not the trials in between.
func (r *Store) reportBreaker(address string, state batch.State, suspended *atomic.Bool) {
	r.contain(func() {
		switch state {
		case batch.Open:
			if !suspended.Swap(true) {
				r.Logger().Info("core: redis keeps failing and is not asked for a while",
					slog.String("server", address), slog.Duration("pause", r.BreakerPause))
			}
		case batch.Closed:
			suspended.Store(false)
			r.Logger().Info("core: redis answers again", slog.String("server", address))
		case batch.HalfOpen:
		}
	})
	if r.Breaker != nil {
		r.contain(func() { r.Breaker(address, state) })
	}
}

// contain calls a hook or a logger of the user's. It recovers from a panic and logs it, so that the
// store goes on working.
func (r *Store) contain(hook func()) {
	defer func() {
		if cause := recover(); cause != nil {
			defer func() { _ = recover() }() // it may be the logger itself
			r.warnings.hooks.Log(r.Logger(), "core: a trace or a logger panicked", slog.Any("cause", cause))
		}
	}()
	hook()
}

// servers are the servers of a cluster or ring, by their addresses.
type servers struct {
	byAddress sync.Map // of *server

	mu    sync.Mutex
	swept time.Time
}

// forgotten is how long a server must have been unused before it is forgotten.
const forgotten = time.Minute

// serverOf returns the server that a caller's key is on.
func (r *Store) serverOf(ctx context.Context, key string) (*server, error) {
	if r.only != nil {
		return r.only, nil
	}
	var scratch [256]byte
	client, err := r.locate(ctx, string(call.AppendSubject(scratch[:0], key)))
	if err != nil {
		return nil, err
	}
	return r.serverAt(client), nil
}

// serverAt returns one of several servers, by its client.
func (r *Store) serverAt(client *redis.Client) *server {
	address := client.Options().Addr
	found, ok := r.servers.byAddress.Load(address)
	if !ok {
		r.servers.sweep()
		found, _ = r.servers.byAddress.LoadOrStore(address, r.newServer(client))
		if r.closed.Load() { // since before it was to be found
			found.(*server).close() //nolint:forcetypeassert // the map holds nothing else
		}
	}
	s := found.(*server) //nolint:forcetypeassert // the map holds nothing else
	if s.client.Load() != client {
		s.client.Store(client)
	}
	if !s.wanted.Load() {
		s.wanted.Store(true)
	}
	return s
}

// sweep forgets servers that have not been asked since the last sweep, a while ago: nodes come and
// go, each with an address of its own.
func (s *servers) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.swept) < forgotten {
		return
	}
	s.swept = time.Now()
	s.byAddress.Range(func(address, found any) bool {
		one := found.(*server) //nolint:forcetypeassert // the map holds nothing else
		if !one.wanted.Swap(false) && one.idle() {
			s.byAddress.Delete(address)
		}
		return true
	})
}
