// Package inspect shows the store of a limiter to the packages for consoles, admin and doctor. Package core sets its
// functions, which programs have no use for.
package inspect

import (
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/memory"
	"github.com/weir-go/ratelimit/core/internal/redisstore"
)

// Store is a store without the caches in front of it.
type Store struct {
	// Own is the store, a core.Store. It is on Redis or in memory, or of another kind.
	Own    any
	Redis  *redisstore.Store // nil: it is not on Redis
	Memory *memory.Store     // nil: it is not in memory
}

var (
	// StoreOf returns the store of a *core.Limiter.
	StoreOf func(limiter any) Store
	// SpecOf returns the spec of a core.Limit.
	SpecOf func(limit any) *exact.Spec
)
