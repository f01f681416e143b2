package core

import (
	"context"
	"time"

	"github.com/weir-go/ratelimit/core/internal/memory"
)

// Memory is a [Store] inside this process: for servers that run alone, for tests,
// and wherever a Redis server is more than the task needs. It gives the same
// answers as [Redis], decision for decision.
//
// It holds a bounded number of keys ([WithMaxKeys]). A key that is as good as new
// expires. At the bound a new key takes the place of a key that still admits
// requests, the one that would expire soonest, which then starts anew. A key that
// denies even one unit is never given up. If the store finds none to give up among
// 128, the call is an error.
//
// Its clock starts with the system's and then only moves forward.
type Memory struct {
	config memory.Config // with the options applied
	store  *memory.Store
}

const defaultMaxKeys = 1 << 20

// NewMemory returns an empty store. It starts no goroutine.
func NewMemory(options ...MemoryOption) *Memory {
	m := &Memory{config: memory.Config{MaxKeys: defaultMaxKeys, Clock: forwardClock()}}
	for _, option := range options {
		option.applyMemory(m)
	}
	m.store = memory.New(m.config)
	return m
}

// forwardClock returns a clock that agrees with the system's at first, and then follows
// the monotonic clock.
func forwardClock() clock {
	start := time.Now()
	began := start.UnixMicro()
	return func() int64 { return began + time.Since(start).Microseconds() }
}

// Decide implements [Store].
func (m *Memory) Decide(ctx context.Context, calls []Call) (answered int, err error) {
	return decideBy(ctx, m.store, calls)
}

// Settle implements [Store]. It settles everything or, if it finds no room, nothing.
func (m *Memory) Settle(ctx context.Context, settlements []Settlement) error {
	return settleBy(ctx, m.store, settlements)
}

// Reset implements [Store].
func (m *Memory) Reset(ctx context.Context, key string, limits []Limit) error {
	return m.store.Reset(ctx, key, specsOf(limits)) //nolint:wrapcheck // it is one of this package's
}

// Len returns how many keys the store holds, each counted under each of its limits. A key that has
// expired may be counted until later calls drop it.
func (m *Memory) Len() int { return m.store.Len() }

// Ping implements [Store]. It returns an error only after Close.
func (m *Memory) Ping(ctx context.Context) error {
	return m.store.Ping(ctx) //nolint:wrapcheck // it is one of this package's
}

// Close implements [Store]. It forgets every key. Calls after Close are errors.
func (m *Memory) Close() error {
	m.store.Close()
	return nil
}
