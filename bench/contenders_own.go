package main

import (
	"context"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
)

// The names of this project's contenders.
const (
	leakyName         = "ratelimit leaky"
	gcraName          = "ratelimit GCRA"
	fixedWindowName   = "ratelimit fixed window"
	slidingWindowName = "ratelimit sliding window"
	memoryName        = "ratelimit Memory"
)

// ownInRedis are this project's limits on its Redis store.
func ownInRedis() []contender {
	return []contender{
		own(leakyName, leaky, onRedis),
		own(gcraName, gcra, onRedis),
		own(fixedWindowName, fixedWindow, onRedis),
		own(slidingWindowName, slidingWindow, onRedis),
	}
}

// ownForDenials are the contenders that are asked about one key that is denied.
func ownForDenials() []contender {
	return []contender{
		own(leakyName, leaky, onRedis),
		own(leakyName+", denials cached", leaky, func(s *setup) core.Store { return denialcache.New(onRedis(s), 10_000) }),
	}
}

// ownInMemory are this project's limits inside the process.
func ownInMemory() []contender {
	return []contender{own(memoryName, leaky, onMemory)}
}

// own makes a contender of a limit and a store.
func own(name string, limit func(quota) core.Limit, store func(*setup) core.Store) contender {
	return contender{
		name:      name,
		algorithm: limit(quota{1, time.Second}).Algorithm(),
		note:      ownNote(name),
		own:       true,
		open: func(s *setup, q quota) (Ask, error) {
			limiter, l := ownLimiter(s, store), limit(q)
			if err := l.Validate(); err != nil {
				return nil, err
			}
			return func(ctx context.Context, key string) (bool, error) {
				decision, err := limiter.Allow(ctx, key, l)
				return decision.Allowed, err
			}, nil
		},
	}
}

// ownNote is the note about a contender of this project's.
func ownNote(name string) string {
	switch name {
	case fixedWindowName:
		return "Up to twice the limit across a boundary."
	case slidingWindowName:
		return "An estimate: the window before counts as if it had been filled evenly."
	case memoryName:
		return "One process only. Keeps at most 1,048,576 keys."
	}
	return "Exact, in whole numbers; several limits in one call, all or none."
}

// ownLimiter returns a limiter that ends with the setup.
func ownLimiter(s *setup, store func(*setup) core.Store) *core.Limiter {
	opened := store(s)
	s.atEnd(opened.Close)
	limiter := core.New(opened)
	s.atEnd(limiter.Close)
	return limiter
}

// onRedis is the store as it comes, but for its budget: a call that a busy machine takes long for is measured, and does not fail.
func onRedis(s *setup) core.Store { return core.NewRedis(s.client(), core.WithBudget(time.Minute)) }

// onMemory is the store inside the process, with room for a million keys.
func onMemory(*setup) core.Store { return core.NewMemory() }

func leaky(q quota) core.Limit         { return core.Leaky(q.n, core.Per(q.n, q.per)) }
func gcra(q quota) core.Limit          { return core.GCRA(q.n, core.Per(q.n, q.per)) }
func fixedWindow(q quota) core.Limit   { return core.FixedWindow(q.n, q.per) }
func slidingWindow(q quota) core.Limit { return core.SlidingWindow(q.n, q.per) }
func slidingLog(q quota) core.Limit    { return core.SlidingLog(q.n, q.per) }
