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
	case *denialCache:
		return shownStore(store.store)
	case *redisStore:
		return console.Store{Own: store, Redis: store.shown()}
	case *memoryStore:
		return console.Store{Own: store, Memory: &console.Memory{
			MaxKeys: store.config.MaxKeys, Len: store.store.Len, Pages: store.store.Pages(), Page: store.store.Page,
		}}
	}
	return console.Store{Own: store}
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
	}
}
