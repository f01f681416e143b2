package main

import (
	"context"
	"time"

	"github.com/weir-go/ratelimit/core"
)

const (
	threeAtOnceName    = leakyName + ", three in one call"
	threeRedisRateName = redisRateName + ", three calls"
	threePipedName     = redisRateAuto + ", three calls"
)

// threeQuotas are three limits that a request meets: a second's, a minute's and an
// hour's. None of them denies a check here.
func threeQuotas() [3]quota {
	return [3]quota{{1000, time.Second}, {60_000, time.Minute}, {3_600_000, time.Hour}}
}

// threeLimits are the ways to ask three limits about one request.
func threeLimits() []contender {
	return []contender{
		own(leakyName, leaky, onRedis),
		{
			name:      threeAtOnceName,
			algorithm: "leaky",
			own:       true,
			open: func(s *setup, _ quota) (Ask, error) {
				limiter := ownLimiter(s, onRedis)
				var limits [3]core.Limit
				for i, q := range threeQuotas() {
					limits[i] = leaky(q)
				}
				return func(ctx context.Context, key string) (bool, error) {
					decisions, err := limiter.AllowAll(ctx,
						core.Check{Key: key, Limit: limits[0], Cost: 1},
						core.Check{Key: key, Limit: limits[1], Cost: 1},
						core.Check{Key: key, Limit: limits[2], Cost: 1},
					)
					if err != nil {
						return false, err
					}
					return decisions[0].Allowed && decisions[1].Allowed && decisions[2].Allowed, nil
				}, nil
			},
		},
		threeCalls(floor()),
		threeCalls(redisRate()),
		threeCalls(redisRateAutoPipeline()),
		threeCalls(ululeWindow()),
		threeCalls(throttledGCRA()),
	}
}

// threeCalls asks a contender three times, until it denies. The charges of the first limits
// then stay.
func threeCalls(c contender) contender {
	open := c.open
	c.name += ", three calls"
	c.open = func(s *setup, _ quota) (Ask, error) {
		var asks [3]Ask
		for i, q := range threeQuotas() {
			ask, err := open(s, q)
			if err != nil {
				return nil, err
			}
			asks[i] = ask
		}
		return func(ctx context.Context, key string) (bool, error) {
			for i, suffix := range [...]string{":second", ":minute", ":hour"} {
				if admitted, err := asks[i](ctx, key+suffix); err != nil || !admitted {
					return false, err
				}
			}
			return true, nil
		}, nil
	}
	return c
}
