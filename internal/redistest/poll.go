package redistest

import (
	"context"
	"errors"
	"testing"
	"time"
)

const (
	// patience is how long anything may take before the test fails. It is long
	// because a busy machine is no reason to fail, and a success never waits.
	patience = 60 * time.Second
	interval = 5 * time.Millisecond
)

// poll asks until the answer is nil, or the context ends: then it returns the
// last answer. The first call is asked at once.
func poll(ctx context.Context, ask func() error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		answer := ask()
		if answer == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(answer, ctx.Err())
		case <-ticker.C:
		}
	}
}

// patiently returns a context that ends when patience does. Unlike the test's own
// it still serves while the test cleans up.
func patiently(tb testing.TB) (context.Context, context.CancelFunc) {
	tb.Helper()
	return context.WithTimeout(context.WithoutCancel(tb.Context()), patience)
}
