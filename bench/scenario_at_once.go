package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
)

// The names of the contenders for places.
const (
	placesName    = "ratelimit, a place taken and given back"
	acquireName   = "ratelimit, a place taken"
	renewName     = "ratelimit, 128 places renewed"
	semaphoreName = "redis-semaphore's algorithm"
	lockName      = "redislock, n = 1"
)

// twenty at once, for half a minute, is the limit of every contender for places.
var twenty = quota{20, 30 * time.Second}

// atOnce shows the cost of limiting how much is in progress at once.
func (b *bench) atOnce(ctx context.Context) ([]comparison, error) {
	const goroutines = 128
	b.report("at most n at once")
	names := namesOf("user:", b.names)
	contenders := []contender{checkBeside(), places(), placesTaken(), renewals(), semaphore(), lock()}
	entries, err := b.with(ctx, contenders, twenty, func(entries []*entry) error {
		return b.turns(goroutines, names).take(ctx, b.meter, entries)
	})
	if err != nil {
		return nil, err
	}
	oneKey, err := b.atOnceOnOneKey(ctx)
	if err != nil {
		return nil, err
	}
	sizes, err := b.placeSizes(ctx)
	if err != nil {
		return nil, err
	}
	return []comparison{{
		slug:  "at-once",
		title: "At most n at once, " + callers(goroutines),
		text: fmt.Sprintf("Each goroutine takes a place under one of %s keys, at random, and gives it back at once: two calls of Redis. "+
			"The first row is a plain check, which is one call. Where places are only taken, their leases of a tenth of a second end by themselves. "+
			"The algorithm of redis-semaphore trusts the clocks of its clients. "+
			"Redis grows by %s, %s and %s for a key with 10, 100 and 1,000 holders; above 128 members a sorted set is no longer packed.",
			showRate(float64(b.names)), showBytes(sizes[0]), showBytes(sizes[1]), showBytes(sizes[2])),
		entries: entries,
		columns: append([]column{
			figure("times/s", perSecond, showRate),
			against(leakyName, perSecond),
			against(semaphoreName, perSecond),
		}, costs("client")...),
		plots: []plotted{{"at-once", "times per second", perSecond, leakyName}},
	}, oneKey}, nil
}

// checkBeside is a plain check to compare with, which denies nothing.
func checkBeside() contender {
	c := own(leakyName, leaky, onRedis)
	ask := c.open
	c.open = func(s *setup, _ quota) (Ask, error) { return ask(s, roomiest) }
	return c
}

// ownPlaces makes a contender that is about places of this project's limits.
func ownPlaces(name string, ask func(limiter *core.Limiter, store core.Store, q quota) Ask) contender {
	return contender{name: name, algorithm: "concurrent", own: true, open: func(s *setup, q quota) (Ask, error) {
		store := onRedis(s)
		s.atEnd(store.Close)
		return ask(core.New(store), store, q), nil
	}}
}

func places() contender {
	return ownPlaces(placesName, func(limiter *core.Limiter, _ core.Store, q quota) Ask {
		limit := core.Concurrent(q.n, q.per)
		return func(ctx context.Context, key string) (bool, error) {
			r, err := limiter.Reserve(ctx, core.Check{Key: key, Limit: limit})
			if err != nil || !r.Allowed() {
				return false, err
			}
			return true, r.Cancel(ctx)
		}
	})
}

func placesTaken() contender {
	return ownPlaces(acquireName, func(limiter *core.Limiter, _ core.Store, q quota) Ask {
		limit := core.Concurrent(q.n, 100*time.Millisecond)
		return func(ctx context.Context, key string) (bool, error) {
			r, err := limiter.Reserve(ctx, core.Check{Key: key, Limit: limit})
			return err == nil && r.Allowed(), err
		}
	})
}

// renewals renews 128 places of as many keys at once, which were taken for it when it was first asked
// about a key.
func renewals() contender {
	return ownPlaces(renewName, func(_ *core.Limiter, store core.Store, _ quota) Ask {
		limit := core.Concurrent(20, 10*time.Minute)
		var held sync.Map // the settlements of a name
		return func(ctx context.Context, name string) (bool, error) {
			name = name[len(name)-1:]
			all, known := held.Load(name)
			if !known {
				taken := make([]core.Settlement, 128)
				for i := range taken {
					key := fmt.Sprint(name, " ", rand.Text())
					check := core.Check{Key: key, Limit: limit}
					calls := []core.Call{{Checks: []core.Check{check}, Decisions: make([]core.Decision, 1), Receipts: make([]core.Receipt, 1)}}
					if _, err := store.Decide(ctx, calls); err != nil {
						return false, err
					}
					taken[i] = core.Settlement{Check: check, Receipt: calls[0].Receipts[0], Renew: true}
				}
				all, _ = held.LoadOrStore(name, taken)
			}
			renewed := append([]core.Settlement(nil), all.([]core.Settlement)...) //nolint:forcetypeassert // nothing else is in there
			return true, store.Settle(ctx, renewed)
		}
	})
}

// takeScript is how redis-semaphore takes a place: now is the client's.
const takeScript = `
redis.call('zremrangebyscore', KEYS[1], '-inf', ARGV[4] - ARGV[3])
if redis.call('zcard', KEYS[1]) < tonumber(ARGV[1]) then
  redis.call('zadd', KEYS[1], ARGV[4], ARGV[2])
  redis.call('pexpire', KEYS[1], ARGV[3])
  return 1
end
return 0`

func semaphore() contender {
	return contender{name: semaphoreName, algorithm: "sorted set", open: func(s *setup, q quota) (Ask, error) {
		client, take := s.client(), redis.NewScript(takeScript)
		return func(ctx context.Context, key string) (bool, error) {
			id := rand.Text()
			taken, err := take.Run(ctx, client, []string{"semaphore:" + key}, q.n, id, q.per.Milliseconds(), time.Now().UnixMilli()).Int()
			if err != nil || taken == 0 {
				return false, err
			}
			return true, client.ZRem(ctx, "semaphore:"+key, id).Err()
		}, nil
	}}
}

func lock() contender {
	return contender{name: lockName, algorithm: "lock", open: func(s *setup, q quota) (Ask, error) {
		client := redislock.New(s.client())
		return func(ctx context.Context, key string) (bool, error) {
			held, err := client.Obtain(ctx, "lock:"+key, q.per, nil)
			if errors.Is(err, redislock.ErrNotObtained) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			return true, held.Release(ctx)
		}, nil
	}}
}

// placeSizes returns by how many bytes a key with 10, 100 and 1,000 holders makes Redis grow.
func (b *bench) placeSizes(ctx context.Context) (sizes []float64, err error) {
	for _, holders := range []int{10, 100, 1000} {
		keys := max(1, b.sized/5/holders)
		taking := ownPlaces(acquireName, func(_ *core.Limiter, store core.Store, q quota) Ask {
			return func(ctx context.Context, key string) (bool, error) { // without renewals
				checks := []core.Check{{Key: key, Limit: core.Concurrent(1000, q.per)}}
				_, err := store.Decide(ctx, []core.Call{{Checks: checks, Decisions: make([]core.Decision, 1), Receipts: make([]core.Receipt, 1)}})
				return err == nil, err
			}
		})
		_, err := b.with(ctx, []contender{taking}, twenty, func(entries []*entry) error {
			ask := entries[0].ask
			if err := all(ctx, taking, ask, namesOf("warm:", min(1000, b.sized))); err != nil {
				return err
			}
			size, err := b.growth(ctx, keys, func() error {
				return all(ctx, taking, ask, slices.Repeat(namesOf("user:", keys), holders))
			})
			sizes = append(sizes, size)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return sizes, nil
}

// atOnceOnOneKey shows how many callers get places under one key.
func (b *bench) atOnceOnOneKey(ctx context.Context) (comparison, error) {
	const goroutines = 128
	b.report("at most n at once, one key")
	entries, err := b.with(ctx, []contender{checkBeside(), places(), semaphore(), lock()}, twenty, func(entries []*entry) error {
		return b.turns(goroutines, []string{"everybody"}).take(ctx, b.meter, entries)
	})
	return comparison{
		slug:  "at-once-one-key",
		title: "At most n at once under one key, " + callers(goroutines),
		text: "All want one of the 20 places of one key, or the one lock, and give it back at once. Who gets none is denied, and asks again: that is one " +
			"call, and no place taken. The first row is a plain check, of which none is denied.",
		entries: entries,
		columns: append([]column{
			figure("places taken/s", admittedPerSecond, showRate),
			against(semaphoreName, admittedPerSecond),
			figure("answers/s", perSecond, showRate),
			against(leakyName, perSecond),
			against(semaphoreName, perSecond),
			against(lockName, perSecond),
		}, costs("client")...),
		plots: []plotted{{"at-once-one-key", "answers per second", perSecond, semaphoreName}},
	}, err
}
