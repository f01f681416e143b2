package call

import (
	"context"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Store keeps states and decides calls. It may be used by many goroutines at once. core.Store documents the methods.
type Store interface {
	Decide(ctx context.Context, calls []*Call) (answered int, err error)
	Settle(ctx context.Context, list []Correction) error
	Reset(ctx context.Context, key string, specs []*exact.Spec) error
	Ping(ctx context.Context) error
	Close() error
}
