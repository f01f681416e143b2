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
	"github.com/weir-go/ratelimit/core/internal/console"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/holder"
)

// Holder is somebody who has places of a key under a [core.Concurrent] limit: one call of one process.
type Holder struct {
	// Name is the name that the holder has in the store, which [Evict] takes.
	Name string
	// Host is the end of the name of the holder's host, 10 bytes at most.
	Host string
	// Since is when the holder asked for the places, on their own clock.
	Since time.Time
	// Until is when their lease ends unless they renew it, on the store's clock.
	Until time.Time
	// Places is how many they have.
	Places int
}

// Holders returns who has places of a key under a [core.Concurrent] limit, those first whose lease ends
// first. Of a named limit the numbers do not matter. The places of shadow checks are not listed.
//
// The key is the one that the limiter was asked about: keyfuncs.RemoteIP makes it "ip:203.0.113.9", for
// example. Nobody has places of another one, which is no error. [List] shows the keys that there are.
//
// On Redis it is a script that reads a sorted set. It needs no permission but those of calls, and the
// store's budget bounds it. Another kind of limit, and a store of your own, are errors. For the errors of
// the limiter's store see [core.FailureOf].
//
// Holders may be called by many goroutines at once. A nil limiter panics.
func Holders(ctx context.Context, limiter *core.Limiter, key string, limit core.Limit) ([]Holder, error) {
	if err := validateHeld(key, limit); err != nil {
		return nil, err
	}
	var held []console.Holder
	var err error
	switch store := console.Of(limiter); {
	case store.Redis != nil:
		held, err = holdersInRedis(ctx, store.Redis, key, limit)
	case store.Memory != nil:
		held, err = store.Memory.Holders(ctx, key, limit)
	default:
		return nil, fmt.Errorf("admin: a %T cannot list its holders", store.Own)
	}
	if err != nil {
		return nil, err
	}
	holders := make([]Holder, len(held))
	for i, h := range held {
		host, since, _ := holder.Parse(h.Name) // what others have written has a name and an end
		holders[i] = Holder{Name: h.Name, Host: host, Since: since, Until: time.UnixMicro(h.Until), Places: h.Places}
	}
	slices.SortStableFunc(holders, func(a, b Holder) int { return cmp.Or(a.Until.Compare(b.Until), strings.Compare(a.Name, b.Name)) })
	return holders, nil
}

// Evict takes away all places of the holder with a name, as [Holders] lists it, and reports whether they
// had any. Others can take the places at once. The holder learns of it at their next renewal, which is
// refused; until then their work goes on.
//
// A name that no holder can have is an error. The other errors are those of [Holders]. Evict may be called
// by many goroutines at once. A nil limiter panics.
func Evict(ctx context.Context, limiter *core.Limiter, key string, limit core.Limit, name string) (evicted bool, err error) {
	if err := validateHeld(key, limit); err != nil {
		return false, err
	}
	if _, _, ok := holder.Parse(name); !ok || strings.Contains(name, "/") {
		return false, fmt.Errorf("admin: %q is no name of a holder", name)
	}
	switch store := console.Of(limiter); {
	case store.Redis != nil:
		gone, err := runIn(ctx, store.Redis, evicting, key, limit, name).Int()
		return gone > 0, err
	case store.Memory != nil:
		return store.Memory.Evict(ctx, key, limit, name)
	default:
		return false, fmt.Errorf("admin: a %T cannot evict its holders", store.Own)
	}
}

// validateHeld returns the reason why nobody can hold places of a key under a limit, if there is one.
func validateHeld(key string, limit core.Limit) error {
	if key == "" {
		return errors.New("admin: the key is empty")
	}
	if err := limit.Validate(); err != nil {
		return err
	}
	if algorithm, ok := exact.AlgorithmNamed(limit.Algorithm()); !ok || !algorithm.Holds() {
		return fmt.Errorf("admin: nobody holds places of %s: want a core.Concurrent limit", limit)
	}
	return nil
}

const (
	// listing returns the members whose lease has not ended, with their ends.
	listing = `
local now = tonumber(ARGV[1])
if not now then
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
end
return redis.call('ZRANGE', KEYS[1], string.format('(%d', now), '+inf', 'BYSCORE', 'WITHSCORES')`

	// evicting removes all places of a holder, and returns how many they were.
	evicting = `
local gone, further = 0, ARGV[1] .. '/'
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], '0', '-1')) do
  local theirs = member == ARGV[1] or string.sub(member, 1, #further) == further
  gone = gone + (theirs and redis.call('ZREM', KEYS[1], member) or 0)
end
return gone`
)

// runIn runs a script on the key that has the state of a caller's key under a limit.
func runIn(ctx context.Context, store *console.Redis, script, key string, limit core.Limit, argument string) *redis.Cmd {
	if store.Closed != nil {
		return failed(ctx, store.Closed)
	}
	done := redis.NewCmd(ctx, "eval", script, "1", store.Name(key, limit), argument)
	if err := store.Bound(ctx, func(ctx context.Context) error { return store.Topology.Client.Process(ctx, done) }); err != nil {
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

// holdersInRedis returns the holders of a key, each once.
func holdersInRedis(ctx context.Context, store *console.Redis, key string, limit core.Limit) (held []console.Holder, err error) {
	now := ""
	if store.Now != nil {
		now = strconv.FormatInt(store.Now(), 10)
	}
	members, err := runIn(ctx, store, listing, key, limit, now).StringSlice()
	if err != nil {
		return nil, err
	}
	places := make(map[string]int)
	for i := 0; i+1 < len(members); i += 2 {
		name, _, _ := strings.Cut(members[i], "/")
		place, known := places[name]
		if !known {
			ends, err := strconv.ParseFloat(members[i+1], 64)
			if err != nil {
				return nil, fmt.Errorf("admin: the lease of %q ends at %q", name, members[i+1])
			}
			place, places[name] = len(held), len(held)
			held = append(held, console.Holder{Name: name, Until: int64(ends)})
		}
		held[place].Places++
	}
	return held, nil
}
