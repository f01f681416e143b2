package console

import (
	"context"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/memory"
	"github.com/weir-go/ratelimit/core/internal/redisstore"
)

// SpecOf returns the spec of a limit, which is a core.Limit. Package core sets it.
var SpecOf func(limit any) *exact.Spec

// OfMemory returns the console's view of a store in memory.
func OfMemory(m *memory.Store) *Memory {
	return &Memory{
		MaxKeys: m.MaxKeys, Len: m.Len, Pages: m.Pages(), Page: m.Page,
		Holders: func(ctx context.Context, key string, limit any) ([]Holder, error) {
			held, err := m.Held(ctx, key, SpecOf(limit))
			shown := make([]Holder, len(held))
			for i, h := range held {
				shown[i] = Holder{Name: call.HolderName(h.Holder), Places: h.Places, Until: h.Until}
			}
			return shown, err
		},
		Banned: func(ctx context.Context, key string, limit any) (exact.Banned, bool, error) {
			return m.Banned(ctx, key, SpecOf(limit))
		},
		Evict: func(ctx context.Context, key string, limit any, name string) (evicted bool, err error) {
			spec := SpecOf(limit)
			held, err := m.Held(ctx, key, spec)
			for _, h := range held {
				if call.HolderName(h.Holder) == name {
					return true, m.Settle(ctx, []call.Correction{{
						Correction: exact.Correction{Events: -h.Places, Holder: h.Holder}, Key: key, Spec: spec,
					}})
				}
			}
			return false, err
		},
	}
}

// OfRedis returns the console's view of a store on Redis.
func OfRedis(r *redisstore.Store) *Redis {
	return &Redis{
		Topology: r.Topology(), Prefix: r.Prefix, Budget: r.Budget, Bound: r.Bound,
		Read: func(name string) (call.NamedState, bool) {
			state, ok := call.ParseName(r.Prefix, name)
			_, known := exact.AlgorithmNamed(state.Algorithm)
			return state, ok && known
		},
		Explain: func(ctx context.Context, err error) error { return r.Explain(ctx, ctx, err) },
		Closed:  r.Closed(), Repaired: r.Repaired,
		Name: func(key string, limit any) string { return r.Name(key, SpecOf(limit)) },
		Now:  r.Clock,
	}
}
