package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
	"github.com/zeromicro/go-zero/core/limit"
	"github.com/zeromicro/go-zero/core/logx"
	zeroredis "github.com/zeromicro/go-zero/core/stores/redis"
)

const (
	floorName     = "bare EVALSHA"
	redisRateName = "redis_rate"
	redisRateAuto = "redis_rate, AutoPipeline"
)

// inRedis are all contenders that keep their state in Redis, and the floor.
func inRedis() []contender {
	return append(append([]contender{floor()}, ownInRedis()...), rivalsInRedis()...)
}

// rivalsInRedis are the limiters of others that keep their state in Redis.
func rivalsInRedis() []contender {
	return []contender{redisRate(), redisRateAutoPipeline(), ululeWindow(), throttledGCRA(), goZeroTokens(), goZeroPeriod(), httprateRedis()}
}

// floor is the least that a script call can cost. It limits nothing.
func floor() contender {
	return contender{
		name:      floorName,
		algorithm: "none: the script is `return 1`",
		note:      "It decides nothing; it is what one script call costs.",
		open: func(s *setup, _ quota) (Ask, error) {
			client := s.client()
			hash, err := client.ScriptLoad(context.Background(), "return 1").Result()
			return func(ctx context.Context, key string) (bool, error) {
				err := client.EvalSha(ctx, hash, []string{key}).Err()
				return err == nil, err
			}, err
		},
	}
}

func redisRate() contender {
	return contender{
		name:      redisRateName,
		algorithm: "GCRA",
		note:      "One limit a call, Redis only, no HTTP middleware of its own; time is a floating-point number of seconds.",
		open: func(s *setup, q quota) (Ask, error) {
			return redisRateAsk(redis_rate.NewLimiter(s.client()), q), nil
		},
	}
}

// redisRateAutoPipeline is redis_rate on a client that gathers the commands of several goroutines, as go-redis does it by
// itself: one line more for redis_rate's users.
func redisRateAutoPipeline() contender {
	return contender{
		name:      redisRateAuto,
		algorithm: "GCRA",
		note: "The same over `AutoPipeline()` of go-redis, with its defaults: a change of one line. go-redis calls it experimental; calls of " +
			"several goroutines share round trips.",
		open: func(s *setup, q quota) (Ask, error) {
			limiter, err := redisRatePiped(s)
			return redisRateAsk(limiter, q), err
		},
	}
}

// redisRatePiped returns a limiter over AutoPipeline, which ends with its client.
func redisRatePiped(s *setup) (*redis_rate.Limiter, error) {
	piped, err := s.client().AutoPipeline()
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	return redis_rate.NewLimiter(piped), nil
}

func redisRateAsk(limiter *redis_rate.Limiter, q quota) Ask {
	limit := redis_rate.Limit{Rate: q.n, Burst: q.n, Period: q.per}
	return func(ctx context.Context, key string) (bool, error) {
		result, err := limiter.Allow(ctx, key, limit)
		return err == nil && result.Allowed > 0, err
	}
}

func ululeWindow() contender {
	return contender{
		name:      "ulule/limiter",
		algorithm: "fixed window",
		note:      "Fixed window only, up to twice the limit across a boundary; one limit a call; denied requests are written, too.",
		open: func(s *setup, q quota) (Ask, error) {
			store, err := ululeredis.NewStoreWithOptions(s.client(), limiter.StoreOptions{Prefix: "ulule"})
			return ululeAsk(store, q), err
		},
	}
}

func ululeAsk(store limiter.Store, q quota) Ask {
	instance := limiter.New(store, limiter.Rate{Period: q.per, Limit: int64(q.n)})
	return func(ctx context.Context, key string) (bool, error) {
		state, err := instance.Get(ctx, key)
		return !state.Reached, err
	}
}

func throttledGCRA() contender {
	return contender{
		name:      "throttled",
		algorithm: "GCRA",
		note: "Two round trips, read, then compare and swap, and three for a new key; after ten lost swaps on a busy key the answer is an error; " +
			"one limit a call; time to live in whole seconds.",
		open: func(s *setup, q quota) (Ask, error) {
			store, err := goredisstore.NewCtx(s.client(), "throttled:")
			if err != nil {
				return nil, err
			}
			return throttledAsk(store, q)
		},
	}
}

func throttledAsk(store throttled.GCRAStoreCtx, q quota) (Ask, error) {
	limiter, err := throttledLimiter(store, q)
	return func(ctx context.Context, key string) (bool, error) {
		limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
		return !limited, err
	}, err
}

func throttledLimiter(store throttled.GCRAStoreCtx, q quota) (*throttled.GCRARateLimiterCtx, error) {
	return throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate:  throttled.PerDuration(q.n, q.per),
		MaxBurst: q.n - 1, // beyond the first
	})
}

// goZero returns go-zero's own client, which cannot be given: a wrapper of
// go-redis with the same pool, a circuit breaker, three retries and metrics. It
// lives as long as the process.
func goZero(s *setup) (*zeroredis.Redis, error) {
	logx.Disable()
	return zeroredis.NewRedis(zeroredis.RedisConf{
		Host: s.address, Type: zeroredis.NodeType, NonBlock: true, Protocol: 3, PingTimeout: time.Second,
	})
}

func goZeroTokens() contender {
	return contender{
		name:      "go-zero token",
		silent:    true,
		algorithm: "token bucket",
		note: "Whole tokens a second on the clock of each server, in whole seconds; one limiter object for each key; " +
			"says yes or no and nothing else; without Redis it goes on by itself and tells nobody; brings its own client.",
		open: func(s *setup, q quota) (Ask, error) {
			store, err := goZero(s)
			rate := max(1, int(float64(q.n)/q.per.Seconds()))
			var limiters sync.Map // one for each key, made at first sight
			return func(ctx context.Context, key string) (bool, error) {
				limiter, known := limiters.Load(key)
				if !known {
					limiter, _ = limiters.LoadOrStore(key, limit.NewTokenLimiter(rate, q.n, store, key))
				}
				return limiter.(*limit.TokenLimiter).AllowCtx(ctx), nil //nolint:forcetypeassert // nothing else is in there
			}, err
		},
	}
}

func goZeroPeriod() contender {
	return contender{
		name:      "go-zero period",
		algorithm: "fixed window",
		note:      "Fixed window of whole seconds; no remaining count and no time to retry; brings its own client.",
		open: func(s *setup, q quota) (Ask, error) {
			store, err := goZero(s)
			limiter := limit.NewPeriodLimit(int(q.per.Seconds()), q.n, store, "period:")
			return func(ctx context.Context, key string) (bool, error) {
				state, err := limiter.TakeCtx(ctx, key)
				return state == limit.Allowed || state == limit.HitQuota, err
			}, err
		},
	}
}
