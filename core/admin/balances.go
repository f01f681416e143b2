package admin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/inspect"
	"github.com/weir-go/ratelimit/core/internal/redisstore"
)

// Balance is the state of a key under a [core.Balance].
type Balance struct {
	// Key is the caller's key, or its hash: see [Entry].
	Key    string
	Hashed bool
	// Left is how many units are left. Spent is how many were spent since the first top-up or the last reset: no more is given
	// back.
	Left, Spent int
	// TopUps are the latest ones, 128 at most, the oldest first.
	TopUps []TopUp
}

// TopUp is a top-up of a balance.
type TopUp struct {
	// ID is the name of the event that has paid for it: see [core.Limiter.TopUp].
	ID string
	// Units is how many it has added.
	Units int
	// At is the instant of the top-up, on the store's clock.
	At time.Time
}

// BalanceOf returns the balance of a key with its history. A key that was never topped up has none, which is no error. It is one
// round trip, and needs no permission beyond those of calls.
//
// A limit that is no [core.Balance], and a store of your own, are errors. BalanceOf may be called by many goroutines at once. A
// nil limiter panics.
func BalanceOf(ctx context.Context, limiter *core.Limiter, key string, balance core.Quota) (Balance, error) {
	if key == "" {
		return Balance{}, errors.New("admin: the key is empty")
	}
	balances, err := balancesOf(ctx, limiter, []Balance{{Key: key}}, balance)
	if err != nil {
		return Balance{}, err
	}
	return balances[0], nil
}

// Balances returns the balances of the keys that start with a prefix, a page at a time, as List does: begin with the cursor "", go
// on with next, and end when that is "". Balances that are empty are among them as long as the store remembers their top-ups.
//
// It lists keys as List does, with the same errors, and reads a page of balances in one round trip. A limit that is no [core.Balance],
// and a store of your own, are errors. Balances may be called by many goroutines at once. A nil limiter panics.
func Balances(ctx context.Context, limiter *core.Limiter, balance core.Quota, prefix, cursor string) (page []Balance, next string, err error) {
	if _, err := balanceSpec(balance); err != nil {
		return nil, "", err
	}
	if store := inspect.StoreOf(limiter); store.Redis == nil && store.Memory == nil {
		return nil, "", fmt.Errorf("admin: a %T cannot list its balances", store.Own)
	}
	keys, next, err := List(ctx, limiter, prefix, cursor)
	if err != nil {
		return nil, "", err
	}
	for _, entry := range keys {
		if entry.Algorithm == balance.Algorithm() && entry.Limit == balance.Name() && !entry.Shadow {
			page = append(page, Balance{Key: entry.Key, Hashed: entry.Hashed})
		}
	}
	page, err = balancesOf(ctx, limiter, page, balance)
	return page, next, err
}

// RestoreBalance writes a balance that [Balances] has returned before, such as into a Redis that has lost it, and reports whether it has done
// that. A balance that is there, even if it is empty, is left as it is: so to restore twice is safe. Restore before the first top-up: a
// key that was topped up meanwhile has to be looked at by hand.
//
// Numbers that no balance can have, a limit that is no [core.Balance], and a store other than [core.NewRedis], are errors that change nothing. For the
// errors of the limiter's store see [core.FailureOf]. RestoreBalance may be called by many goroutines at once. A nil limiter
// panics.
func RestoreBalance(ctx context.Context, limiter *core.Limiter, balance core.Quota, restored Balance) (done bool, err error) {
	spec, err := balanceSpec(balance)
	if err != nil {
		return false, err
	}
	store := inspect.StoreOf(limiter)
	if store.Redis == nil {
		return false, fmt.Errorf("admin: a %T cannot restore balances", store.Own)
	}
	lines, err := restored.lines()
	if err != nil {
		return false, err
	}
	return runIn(ctx, store.Redis, restoring, nameOf(store.Redis, restored, spec),
		restored.Left, restored.Spent, lines, exact.RememberedEmpty/1000).Bool()
}

// restoring writes a balance, unless there is one. See balance.lua.
const restoring = `
local there = redis.call('HMGET', KEYS[1], 'left', 'topups')
if there[1] or there[2] then
  return 0
end
redis.call('HSET', KEYS[1], 'left', ARGV[1], 'spent', ARGV[2], 'topups', ARGV[3])
if ARGV[1] == '0' then
  local clock = redis.call('TIME')
  redis.call('PEXPIREAT', KEYS[1], string.format('%d', clock[1] * 1000 + ARGV[4]))
end
return 1`

// balanceSpec returns the spec of a balance.
func balanceSpec(balance core.Quota) (*exact.Spec, error) {
	if err := balance.Validate(); err != nil {
		return nil, err
	}
	spec := inspect.SpecOf(balance)
	if !spec.Algorithm.Prepaid() {
		return nil, fmt.Errorf("admin: %s is no balance", balance)
	}
	return spec, nil
}

// balancesOf reads the balances of keys from the store.
func balancesOf(ctx context.Context, limiter *core.Limiter, of []Balance, balance core.Quota) ([]Balance, error) {
	spec, err := balanceSpec(balance)
	if err != nil {
		return nil, err
	}
	switch store := inspect.StoreOf(limiter); {
	case store.Redis != nil:
		return of, balancesInRedis(ctx, store.Redis, of, spec)
	case store.Memory != nil:
		for i := range of {
			b := &of[i]
			left, spent, topUps, err := store.Memory.Prepaid(ctx, b.Key, spec)
			if err != nil {
				return nil, err
			}
			b.Left, b.Spent = int(left), int(spent)
			for _, one := range topUps {
				b.TopUps = append(b.TopUps, TopUp{one.ID, int(one.Units), time.UnixMicro(one.At)})
			}
		}
		return of, nil
	default:
		return nil, fmt.Errorf("admin: a %T cannot list its balances", store.Own)
	}
}

// nameOf returns the Redis key of a balance.
func nameOf(store *redisstore.Store, b Balance, spec *exact.Spec) string {
	if b.Hashed {
		return string(append(call.AppendHashedTag(nil, store.Prefix, b.Key), spec.StateName...))
	}
	return store.Name(b.Key, spec)
}

// balancesInRedis reads balances in one pipeline.
func balancesInRedis(ctx context.Context, store *redisstore.Store, of []Balance, spec *exact.Spec) error {
	if closed := store.Closed(); closed != nil {
		return closed
	}
	pipeline := store.Topology().Client.Pipeline()
	replies := make([]*redis.SliceCmd, len(of))
	for i := range of {
		replies[i] = pipeline.HMGet(ctx, nameOf(store, of[i], spec), "left", "spent", "topups")
	}
	if len(of) == 0 {
		return nil
	}
	err := store.Bound(ctx, func(ctx context.Context) error {
		_, err := pipeline.Exec(ctx)
		return err
	})
	if err != nil {
		return err
	}
	for i, reply := range replies {
		if err := of[i].read(reply.Val()); err != nil {
			return fmt.Errorf("admin: the balance of %q: %w", of[i].Key, err)
		}
	}
	return nil
}

// read reads the fields left, spent and topups of a balance.
func (b *Balance) read(fields []any) error {
	for i, number := range []*int{&b.Left, &b.Spent} {
		if fields[i] == nil {
			continue
		}
		n, err := strconv.Atoi(fields[i].(string)) //nolint:forcetypeassert // HMGET returns texts
		if err != nil {
			return err
		}
		*number = n
	}
	text, _ := fields[2].(string)
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) != 3 {
			return fmt.Errorf("%q is no top-up", line)
		}
		at, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil {
			return err
		}
		units, err := strconv.Atoi(words[1])
		if err != nil {
			return err
		}
		b.TopUps = append(b.TopUps, TopUp{words[2], units, time.UnixMicro(at)})
	}
	return nil
}

// lines returns the top-ups of a balance as balance_corrections.lua writes them.
func (b *Balance) lines() (string, error) {
	switch {
	case b.Key == "" || b.Hashed && !call.IsHash(b.Key):
		return "", fmt.Errorf("admin: %q is no key, or no hash of one", b.Key)
	case b.Left < 0 || b.Left > exact.MostPrepaid || b.Spent < 0 || b.Spent > 1<<53-1:
		return "", fmt.Errorf("admin: the balance of %q cannot have %d units left and %d spent", b.Key, b.Left, b.Spent)
	case len(b.TopUps) > exact.MostTopUps:
		return "", fmt.Errorf("admin: the balance of %q has %d top-ups, more than %d", b.Key, len(b.TopUps), exact.MostTopUps)
	}
	var lines strings.Builder
	for _, one := range b.TopUps {
		if err := exact.TopUpProblem(one.ID); err != nil {
			return "", fmt.Errorf("admin: the balance of %q: %w", b.Key, err)
		}
		if one.Units < 1 || one.Units > exact.MostPrepaid || one.At.UnixMicro() < 0 {
			return "", fmt.Errorf("admin: the balance of %q cannot have been topped up by %d units at %v", b.Key, one.Units, one.At)
		}
		fmt.Fprintf(&lines, "%d %d %s\n", one.At.UnixMicro(), one.Units, one.ID)
	}
	return lines.String(), nil
}
