package admin

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/internal/console"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Banned is a key whose ban is in force.
type Banned struct {
	// Key is the caller's key, or its hash: see [Entry].
	Key    string
	Hashed bool
	// Since and Until are when the ban began and ends, on the store's clock. They are zero if only the hash of the key
	// is known; then it may have ended already, or the key may have strikes alone.
	Since, Until time.Time
	// Bans is how many bans have begun by strikes and are remembered: the next one is longer for each.
	Bans int
	// Reason is what [core.Limiter.Ban] was told of a ban by hand, and "" for others.
	Reason string
}

// Bans returns the keys that start with a prefix and are banned, a page at a time, as [List] does: begin with the
// cursor "", go on with next, and end when that is "". Of a named [core.Ban] the numbers do not matter. Shadows ban
// nobody, and are not listed. [core.Limiter.Lift] lifts a ban.
//
// It lists keys as List does, with the same errors, and reads each that belongs to the ban: on Redis that is a script,
// which needs no permission but those of calls. A ban that is not valid, and a store of your own, are errors. Bans may
// be called by many goroutines at once. A nil limiter panics.
func Bans(ctx context.Context, limiter *core.Limiter, ban core.Ban, prefix, cursor string) (page []Banned, next string, err error) {
	if err := ban.Validate(); err != nil {
		return nil, "", err
	}
	limit, store := ban.Limit(), console.Of(limiter)
	if store.Redis == nil && store.Memory == nil {
		return nil, "", fmt.Errorf("admin: a %T cannot list its bans", store.Own)
	}
	keys, next, err := List(ctx, limiter, prefix, cursor)
	if err != nil {
		return nil, "", err
	}
	for _, entry := range keys {
		if entry.Algorithm != limit.Algorithm() || entry.Limit != limit.Name() || entry.Shadow {
			continue
		}
		if entry.Hashed {
			page = append(page, Banned{Key: entry.Key, Hashed: true})
			continue
		}
		b, inForce, err := bannedIn(ctx, store, entry.Key, limit)
		if err != nil {
			return nil, "", err
		}
		if inForce {
			page = append(page, Banned{
				Key: entry.Key, Since: time.UnixMicro(b.Since), Until: time.UnixMicro(b.Until), Bans: int(b.Bans), Reason: b.Reason,
			})
		}
	}
	return page, next, nil
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

// bannedIn returns the ban of a key, and whether it is in force.
func bannedIn(ctx context.Context, store console.Store, key string, limit core.Limit) (b exact.Banned, inForce bool, err error) {
	if store.Memory != nil {
		return store.Memory.Banned(ctx, key, limit)
	}
	now := ""
	if store.Redis.Now != nil {
		now = strconv.FormatInt(store.Redis.Now(), 10)
	}
	fields, err := runIn(ctx, store.Redis, reading, key, limit, now).StringSlice()
	if err != nil || len(fields) < 4 {
		return exact.Banned{}, false, err
	}
	var numbers [3]int64
	for i := range numbers {
		if numbers[i], err = strconv.ParseInt(fields[i], 10, 64); err != nil {
			return exact.Banned{}, false, fmt.Errorf("admin: the ban of %q has %q", key, fields[i])
		}
	}
	return exact.Banned{Since: numbers[0], Until: numbers[1], Bans: numbers[2], Reason: fields[3]}, true, nil
}
