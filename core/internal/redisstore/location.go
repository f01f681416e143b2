package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/batch"
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/internal/dial"
)

// location says whether a cluster's client knows its servers yet. The zero value says that it does not.
type location struct {
	known atomic.Bool

	mu       sync.Mutex
	fetching *fetch // nil: no fetch is in flight
}

// fetch is an attempt to get the map of a cluster. It may outlast the calls that wait for it.
type fetch struct {
	began time.Time
	from  []string // the addresses of nodes
	done  chan struct{}
	err   error // when done is closed
}

// locate returns the client of the server that has a hash tag. It first fetches the map of a cluster,
// for which a call waits as for a connection.
func (r *Store) locate(ctx context.Context, tag string) (*redis.Client, error) {
	if r.topology.Cluster != nil && !r.location.known.Load() {
		if err := r.waitForMap(ctx, tag); err != nil {
			return nil, err
		}
	}
	client, err := r.topology.ServerOf(ctx, tag)
	return client, r.explainUnsent(nil, 0, err)
}

// waitForMap returns when the map of the cluster is known, or an error if it cannot be fetched. It waits for no longer than a
// budget in which nothing is heard of any node.
func (r *Store) waitForMap(ctx context.Context, tag string) error {
	f := r.fetchMap(tag)
	began := time.Now()
	alarm := time.NewTimer(r.untilSilent(f, began))
	defer alarm.Stop()
	for {
		select {
		case <-f.done:
			return f.err
		case <-ctx.Done():
			return call.Unsent(call.GivenUp, "core: the call was given up: %w", context.Cause(ctx))
		case <-alarm.C:
		}
		if left := r.untilSilent(f, began); left > 0 {
			alarm.Reset(left)
			continue
		}
		if time.Since(f.heard()) < r.Budget {
			return r.batchError(nil, nil, batch.ErrOverdue)
		}
		return call.Unsent(call.Unreachable,
			"core: no connection to the redis cluster, of which nothing was heard for %v: %w", r.Budget, context.DeadlineExceeded)
	}
}

// untilSilent returns for how long a call that has come at an instant may still wait for a fetch.
func (r *Store) untilSilent(f *fetch, came time.Time) time.Duration {
	return min(r.Budget-time.Since(f.heard()), r.Patience-time.Since(came))
}

// heard returns when one of the nodes that are known from the beginning was last known to be there, or when the fetch began.
func (f *fetch) heard() time.Time {
	last := f.began
	for _, address := range f.from {
		if heard := dial.SignOf(address).Heard(); heard.After(last) {
			last = heard
		}
	}
	return last
}

// fetchMap begins to fetch the map of the cluster, unless a fetch is in flight.
func (r *Store) fetchMap(tag string) *fetch {
	l := &r.location
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fetching != nil {
		return l.fetching
	}
	f := &fetch{began: time.Now(), from: r.topology.Cluster.Options().Addrs, done: make(chan struct{})}
	l.fetching = f
	go func() { // ends with the client's own timeouts, or with connectTimeout
		ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
		defer cancel()
		f.err = r.explainUnsent(nil, 0, unlessPanicked(ctx, func(ctx context.Context) error {
			_, err := r.topology.ServerOf(ctx, tag)
			return err
		}))
		l.known.Store(f.err == nil)
		l.mu.Lock()
		l.fetching = nil
		l.mu.Unlock()
		close(f.done)
	}()
	return f
}
