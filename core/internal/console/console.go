// Package console shows packages doctor and admin the hidden parts of a limiter's store.
package console

import (
	"context"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/redisstore"
)

// Of returns the store of a limiter, which is a *core.Limiter. Package core sets it.
var Of func(limiter any) Store

// Store is the store of a limiter.
type Store struct {
	// Own is the [core.Store], without the caches in front of it.
	Own any
	// Redis and Memory are set if it is one.
	Redis  *Redis
	Memory *Memory
}

// Redis is a store that [core.NewRedis] has made.
type Redis struct {
	Topology redisstore.Topology
	Prefix   string
	Budget   time.Duration
	// Closed is why the store cannot be used any more, or nil.
	Closed error
	// Read reads the name of a key, as [call.ParseName] does. It knows the algorithms.
	Read func(name string) (state call.NamedState, ok bool)
	// Bound runs a call to Redis within the budget, and explains its error.
	Bound func(ctx context.Context, call func(context.Context) error) error
	// Explain returns the error that core makes of one of the client.
	Explain func(ctx context.Context, err error) error
	// Repaired returns how many damaged keys the store has replaced, and how many it has given the time
	// to live that they lacked.
	Repaired func() int64
	// Name returns the name of the key that has the state of a caller's key under a limit, which is a
	// [core.Limit].
	Name func(key string, limit any) string
	// Now returns the time in microseconds of a test's clock, or is nil if the server's counts.
	Now func() int64
}

// Memory is a store that [core.NewMemory] has made.
type Memory struct {
	MaxKeys int
	// Len returns how many keys the store holds, each counted under each of its limits. A key that has
	// expired may be counted until later calls drop it.
	Len func() int
	// Pages is how many pages its keys are on.
	Pages int
	// Page returns the states on a page.
	Page func(ctx context.Context, page int) ([]call.NamedState, error)
	// Holders returns the holders of places of a key under a limit, which is a [core.Limit].
	Holders func(ctx context.Context, key string, limit any) ([]Holder, error)
	// Evict gives back all places of the holder with a name, and reports whether it had any.
	Evict func(ctx context.Context, key string, limit any, name string) (evicted bool, err error)
	// Banned returns the ban of a key under the limit of a core.Ban, and whether it is in force.
	Banned func(ctx context.Context, key string, limit any) (b exact.Banned, inForce bool, err error)
}

// Holder has places.
type Holder struct {
	// Name is the holder's name: see [call.HolderName].
	Name string
	// Places is how many it has.
	Places int
	// Until is when its lease ends, in microseconds since 1970.
	Until int64
}
