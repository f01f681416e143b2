package admin

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/inspect"
	"github.com/weir-go/ratelimit/core/internal/redisstore"
)

// Banned is a key with a ban in force.
type Banned struct {
	// Key is the caller's key, or its hash: see [Entry].
	Key    string
	Hashed bool
	// Since and Until are when the ban began and ends, on the store's clock. They are zero if only the hash of the key
	// is known; then it may have ended already, or the key may have strikes alone.
	Since, Until time.Time
	// Bans is how many bans have begun by strikes and are remembered: the next one is longer for each.
	Bans int
	// Reason is the reason given to [core.Limiter.Ban] for a ban by hand, and "" for others.
	Reason string
}

// Bans returns the keys that start with a prefix and are banned, a page at a time, as [List] does: begin with the cursor
// "", go on with next, and end when that is "". Of a named [core.Ban] the numbers do not matter. Shadows ban no client,
// and are not listed. [core.Limiter.Lift] lifts a ban.
//
// It lists keys as List does, with the same errors, and reads each key of the ban: on Redis that is a script run for
// each, a page in one round trip, which needs no permission beyond those of calls. A ban that is not valid, and a store
// of your own, are errors. Bans may be called by many goroutines at once. A nil limiter panics.
func Bans(ctx context.Context, limiter *core.Limiter, ban core.Ban, prefix, cursor string) (page []Banned, next string, err error) {
	if err := ban.Validate(); err != nil {
		return nil, "", err
	}
	limit := ban.Limit()
	store := inspect.StoreOf(limiter)
	if store.Redis == nil && store.Memory == nil {
		return nil, "", fmt.Errorf("admin: a %T cannot list its bans", store.Own)
	}
	keys, next, err := List(ctx, limiter, prefix, cursor)
	if err != nil {
		return nil, "", err
	}
	var known []string // keys that may be banned
	for _, entry := range keys {
		switch {
		case entry.Algorithm != limit.Algorithm() || entry.Limit != limit.Name() || entry.Shadow:
		case entry.Hashed:
			page = append(page, Banned{Key: entry.Key, Hashed: true})
		default:
			known = append(known, entry.Key)
		}
	}
	banned, err := bannedOf(ctx, limiter, known, inspect.SpecOf(limit))
	if err != nil {
		return nil, "", err
	}
	return append(page, banned...), next, nil
}

// bannedOf returns those of some keys that have a ban in force.
func bannedOf(ctx context.Context, limiter *core.Limiter, keys []string, spec *exact.Spec) (page []Banned, err error) {
	store := inspect.StoreOf(limiter)
	if store.Memory == nil {
		return bannedInRedis(ctx, store.Redis, keys, spec)
	}
	for _, key := range keys {
		b, inForce, err := store.Memory.Banned(ctx, key, spec)
		if err != nil {
			return nil, err
		}
		if inForce {
			page = append(page, banned(key, b))
		}
	}
	return page, nil
}

func banned(key string, b exact.Banned) Banned {
	return Banned{Key: key, Since: time.UnixMicro(b.Since), Until: time.UnixMicro(b.Until), Bans: int(b.Bans), Reason: b.Reason}
}

// reading returns the ban of a key, if it is in force.
const reading = `
local now = tonumber(ARGV[1])
if not now then
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
end
local ban = redis.call('HMGET', KEYS[1], 'since', 'until', 'count', 'reason')
if now < (tonumber(ban[2] or '0') or 0) then
  return { ban[1], ban[2], ban[3], ban[4] or '' }
end
return {}`

// readingScript runs reading.
var readingScript = redis.NewScript(reading)

// bannedInRedis returns those of some keys that have a ban in force: a script run for each, in one pipeline.
func bannedInRedis(ctx context.Context, store *redisstore.Store, keys []string, spec *exact.Spec) (page []Banned, err error) {
	if closed := store.Closed(); closed != nil {
		return nil, closed
	}
	if len(keys) == 0 {
		return nil, nil
	}
	now := ""
	if store.Clock != nil {
		now = strconv.FormatInt(store.Clock(), 10)
	}
	replies := make([]*redis.Cmd, len(keys))
	// Where a server does not keep the script, it is sent with the next pipeline. It is shorter than most keys are long.
	for _, command := range [...]string{"evalsha", "eval"} {
		words := map[string]string{"evalsha": readingScript.Hash(), "eval": reading}[command]
		pipeline := store.Topology().Client.Pipeline()
		sent := make([]*redis.Cmd, len(keys)) // the first ones may still be in flight when the time is over
		for i, key := range keys {
			if replies[i] == nil {
				sent[i] = redis.NewCmd(ctx, command, words, "1", store.Name(key, spec), now)
				_ = pipeline.Process(ctx, sent[i])
			}
		}
		if pipeline.Len() == 0 {
			break
		}
		err := store.Bound(ctx, func(ctx context.Context) error {
			_, err := pipeline.Exec(ctx)
			if redis.HasErrorPrefix(err, "NOSCRIPT") {
				return nil
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		for i, reply := range sent {
			if reply != nil && !redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") {
				replies[i] = reply
			}
		}
	}
	for i, key := range keys {
		b, inForce, err := readBan(replies[i], key)
		if err != nil {
			return nil, err
		}
		if inForce {
			page = append(page, banned(key, b))
		}
	}
	return page, nil
}

// readBan reads the script's reply about a key, and returns whether its ban is in force.
func readBan(reply *redis.Cmd, key string) (b exact.Banned, inForce bool, err error) {
	if reply == nil {
		return exact.Banned{}, false, fmt.Errorf("admin: redis does not keep the script that reads the ban of %q", key)
	}
	fields, err := reply.StringSlice()
	if err != nil {
		return exact.Banned{}, false, fmt.Errorf("admin: the ban of %q: %w", key, err)
	}
	if len(fields) < 4 {
		return exact.Banned{}, false, nil
	}
	var numbers [3]int64
	for i := range numbers {
		if numbers[i], err = strconv.ParseInt(fields[i], 10, 64); err != nil {
			return exact.Banned{}, false, fmt.Errorf("admin: the ban of %q has %q", key, fields[i])
		}
	}
	return exact.Banned{Since: numbers[0], Until: numbers[1], Bans: numbers[2], Reason: fields[3]}, true, nil
}
