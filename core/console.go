package core

import (
	"context"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/console"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/holder"
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
	case *denialCache:
		return shownStore(store.store)
	case *leaseStore:
		return shownStore(store.store)
	case *redisStore:
		return console.Store{Own: store, Redis: store.shown()}
	case *memoryStore:
		return console.Store{Own: store, Memory: &console.Memory{
			MaxKeys: store.config.MaxKeys, Len: store.store.Len, Pages: store.store.Pages(), Page: store.store.Page,
			Holders: store.shownHolders, Evict: store.evict,
		}}
	}
	return console.Store{Own: store}
}

// specBehind returns the spec of what is a Limit.
func specBehind(limit any) *exact.Spec { return limit.(Limit).spec } //nolint:forcetypeassert // consoles give nothing else

func (m *memoryStore) shownHolders(ctx context.Context, key string, limit any) ([]console.Holder, error) {
	held, err := m.store.Held(ctx, key, specBehind(limit))
	shown := make([]console.Holder, len(held))
	for i, h := range held {
		shown[i] = console.Holder{Name: holder.Name(h.Holder), Places: h.Places, Until: h.Until}
	}
	return shown, err //nolint:wrapcheck // it is one of this package's
}

func (m *memoryStore) evict(ctx context.Context, key string, limit any, name string) (evicted bool, err error) {
	spec := specBehind(limit)
	held, err := m.store.Held(ctx, key, spec)
	for _, h := range held {
		if holder.Name(h.Holder) == name {
			return true, m.store.Settle(ctx, []call.Correction{{ //nolint:wrapcheck // it is one of this package's
				Correction: exact.Correction{Events: -h.Places, Holder: h.Holder}, Key: key, Spec: spec,
			}})
		}
	}
	return false, err //nolint:wrapcheck // it is one of this package's
}

func (r *redisStore) shown() *console.Redis {
	return &console.Redis{
		Topology: r.store.Topology(), Prefix: r.config.Prefix, Budget: r.config.Budget, Bound: r.store.Bound,
		Read: func(name string) (keyspace.State, bool) {
			state, ok := keyspace.Parse(r.config.Prefix, name)
			_, known := exact.AlgorithmNamed(state.Algorithm)
			return state, ok && known
		},
		Explain: func(ctx context.Context, err error) error { return r.store.Explain(ctx, ctx, err) },
		Closed:  r.store.Closed(), Repaired: r.store.Repaired,
		Name: func(key string, limit any) string { return r.store.Name(key, specBehind(limit)) },
		Now:  r.config.Clock,
	}
}
