package core

import (
	"context"

	"github.com/weir-go/ratelimit/core/internal/console"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/keyspace"
)

func init() { //nolint:gochecknoinits // doctor and admin see in this way what is nobody else's business
	console.Of = func(limiter any) console.Store {
		return shownStore(limiter.(*Limiter).store) //nolint:forcetypeassert // they give nothing else
	}
}

// shownStore returns what consoles may see of a store.
func shownStore(store Store) console.Store {
	switch store := store.(type) {
	case *DenialCache:
		return shownStore(store.store)
	case *Redis:
		return console.Store{Own: store, Redis: store.shown()}
	case *Memory:
		return console.Store{Own: store, Memory: &console.Memory{MaxKeys: store.maxKeys, Pages: len(store.shards), Page: store.page}}
	}
	return console.Store{Own: store}
}

func (r *Redis) shown() *console.Redis {
	shown := &console.Redis{
		Topology: r.topology, Prefix: r.prefix, Budget: r.budget, Bound: r.within,
		Read: func(name string) (keyspace.State, bool) {
			state, ok := keyspace.Parse(r.prefix, name)
			_, known := exact.AlgorithmNamed(state.Algorithm)
			return state, ok && known
		},
		Explain: func(ctx context.Context, err error) error { return r.explainCall(ctx, ctx, err) },
	}
	if r.closed.Load() {
		shown.Closed = errClosed
	}
	return shown
}

// page returns the states in a shard.
func (m *Memory) page(ctx context.Context, place int) (states []keyspace.State, err error) {
	if err := m.ready(ctx); err != nil {
		return nil, err
	}
	now := m.clock()
	s := &m.shards[place]
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.entries {
		if e.full <= now {
			continue
		}
		state := keyspace.State{Limit: key.Identity.Label(), Algorithm: key.Identity.Algorithm.String(), Shadow: key.Identity.IsShadow()}
		state.Key, state.Hashed = keyspace.Restore(key.Subject)
		states = append(states, state)
	}
	return states, nil
}
