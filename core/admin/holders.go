package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/inspect"
	"github.com/weir-go/ratelimit/core/internal/memory"
	"github.com/weir-go/ratelimit/core/internal/redisstore"
)

// Holder is one call of one process that has places of a key under a [core.Concurrent] limit.
type Holder struct {
	// Name is the name that the holder has in the store, which [Evict] takes.
	Name string
	// Host is the end of the name of the holder's host, 10 bytes at most.
	Host string
	// Since is when the holder asked for the places, on its own clock.
	Since time.Time
	// Until is when its lease ends unless it is renewed, on the store's clock.
	Until time.Time
	// Places is how many it has.
	Places int
}

// Holders returns the holders of places of a key under a [core.Concurrent] limit, in the order in which their leases end.
// Of a named limit the numbers do not matter. The places of shadow checks are not listed.
//
// The key is the one that the limiter was asked about: keyfuncs.RemoteIP makes it "ip:203.0.113.9", for example. Another
// key has no holders, which is no error. [List] shows the keys that there are.
//
// On Redis a script reads a sorted set, 250 holders at a time. It needs no permission beyond those of calls, and the
// store's budget bounds each page. Holders that come or go meanwhile may be listed or not. A
// store of your own is an error. For the errors of the limiter's store see [core.FailureOf].
//
// Holders may be called by many goroutines at once. A nil limiter panics.
func Holders(ctx context.Context, limiter *core.Limiter, key string, limit core.Places) ([]Holder, error) {
	if err := validateHeld(key, limit); err != nil {
		return nil, err
	}
	var holders []Holder
	var err error
	switch store := inspect.StoreOf(limiter); {
	case store.Redis != nil:
		holders, err = holdersInRedis(ctx, store.Redis, key, inspect.SpecOf(limit))
	case store.Memory != nil:
		holders, err = holdersInMemory(ctx, store.Memory, key, inspect.SpecOf(limit))
	default:
		return nil, fmt.Errorf("admin: a %T cannot list its holders", store.Own)
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(holders, func(a, b Holder) int { return cmp.Or(a.Until.Compare(b.Until), strings.Compare(a.Name, b.Name)) })
	return holders, nil
}

// holderOf returns the holder with a name, which has some places until an instant in microseconds.
func holderOf(name string, places int, until int64) Holder {
	host, since, _ := call.ParseHolder(name) // a name that another program has written is no error
	return Holder{Name: name, Host: host, Since: since, Until: time.UnixMicro(until), Places: places}
}

// holdersInMemory returns the holders of a key.
func holdersInMemory(ctx context.Context, store *memory.Store, key string, spec *exact.Spec) ([]Holder, error) {
	held, err := store.Held(ctx, key, spec)
	holders := make([]Holder, len(held))
	for i, h := range held {
		holders[i] = holderOf(call.HolderName(h.Holder), h.Places, h.Until)
	}
	return holders, err
}

// Evict takes away all places of the holder with a name, as [Holders] lists it, and reports whether it had any. Others
// can take the places at once. The holder learns of it at its next renewal, which is refused; until then its work goes
// on.
//
// A name that no holder can have is an error. The other errors are those of [Holders]. Evict may be called
// by many goroutines at once. A nil limiter panics.
func Evict(ctx context.Context, limiter *core.Limiter, key string, limit core.Places, name string) (evicted bool, err error) {
	if err := validateHeld(key, limit); err != nil {
		return false, err
	}
	if _, _, ok := call.ParseHolder(name); !ok {
		return false, fmt.Errorf("admin: %q is no name of a holder", name)
	}
	switch store := inspect.StoreOf(limiter); {
	case store.Redis != nil:
		gone, err := runIn(ctx, store.Redis, evicting, store.Redis.Name(key, inspect.SpecOf(limit)), name).Int()
		return gone > 0, err
	case store.Memory != nil:
		return evictInMemory(ctx, store.Memory, key, inspect.SpecOf(limit), name)
	default:
		return false, fmt.Errorf("admin: a %T cannot evict its holders", store.Own)
	}
}

// evictInMemory gives back all places of the holder with a name, and reports whether it had any.
func evictInMemory(ctx context.Context, store *memory.Store, key string, spec *exact.Spec, name string) (evicted bool, err error) {
	held, err := store.Held(ctx, key, spec)
	for _, h := range held {
		if call.HolderName(h.Holder) == name {
			return true, store.Settle(ctx, []call.Correction{{
				Correction: exact.Correction{Events: -h.Places, Holder: h.Holder}, Key: key, Spec: spec,
			}})
		}
	}
	return false, err
}

// validateHeld returns the reason why a key cannot have holders under a limit, if there is one.
func validateHeld(key string, limit core.Places) error {
	if key == "" {
		return errors.New("admin: the key is empty")
	}
	return limit.Validate()
}

const (
	// listing returns a page of the members with leases that have not ended, with their ends. The page begins at an
	// instant, and skips a number of members.
	listing = `
local now = tonumber(ARGV[1])
if not now then
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
end
local from, skip = tonumber(ARGV[2]), ARGV[3]
if from <= now then
  from, skip = now + 1, '0'
end
return redis.call('ZRANGE', KEYS[1], string.format('%d', from), '+inf', 'BYSCORE', 'LIMIT', skip, ARGV[4], 'WITHSCORES')`

	// evicting removes all places of a holder, and returns whether there were any. concurrent.lua explains the "*" in
	// names.
	evicting = `
local gone, places = redis.call('ZREM', KEYS[1], ARGV[1]), tonumber(string.match(ARGV[1], '%*(%d+)$'))
local further = redis.call('ZSCORE', KEYS[1], '*')
if gone > 0 and places and further then
  redis.call('ZADD', KEYS[1], string.format('%d', further - places + 1), '*')
end
return gone`
)

// pageOfHolders is how many holders a script run lists at most, so that it does not hold Redis up.
const pageOfHolders = 250

// runIn runs a script on a key of Redis.
func runIn(ctx context.Context, store *redisstore.Store, script, name string, arguments ...any) *redis.Cmd {
	if closed := store.Closed(); closed != nil {
		return failed(ctx, closed)
	}
	done := redis.NewCmd(ctx, append([]any{"eval", script, "1", name}, arguments...)...)
	if err := store.Bound(ctx, func(ctx context.Context) error { return store.Topology().Client.Process(ctx, done) }); err != nil {
		return failed(ctx, err)
	}
	return done
}

// failed returns a command that has failed. The one that was sent may still be in flight.
func failed(ctx context.Context, err error) *redis.Cmd {
	command := redis.NewCmd(ctx)
	command.SetErr(err)
	return command
}

// holdersInRedis returns the holders of a key, each once, page by page.
func holdersInRedis(ctx context.Context, store *redisstore.Store, key string, spec *exact.Spec) (holders []Holder, err error) {
	now := ""
	if store.Clock != nil {
		now = strconv.FormatInt(store.Clock(), 10)
	}
	listed := make(map[string]bool) // a holder that has renewed its lease comes again
	for from, skip := int64(0), 0; ; {
		members, err := runIn(ctx, store, listing, store.Name(key, spec), now, from, skip, pageOfHolders).StringSlice()
		if err != nil {
			return nil, err
		}
		for i := 0; i+1 < len(members); i += 2 {
			ends, err := strconv.ParseFloat(members[i+1], 64)
			if err != nil {
				return nil, fmt.Errorf("admin: the lease of %q ends at %q", members[i], members[i+1])
			}
			if until := int64(ends); until == from {
				skip++
			} else {
				from, skip = until, 1
			}
			if name := members[i]; !listed[name] && !strings.HasPrefix(name, kept) {
				listed[name] = true
				holders = append(holders, holderOf(name, call.HolderPlaces(name), int64(ends)))
			}
		}
		if len(members) < 2*pageOfHolders {
			return holders, nil
		}
	}
}

// kept stands in front of the name of a waiter that has places kept for it.
const kept = "+"
