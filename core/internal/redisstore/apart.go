package redisstore

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/script"
)

// askApart decides groups of one server in a slot that is being moved: each state on its own, as askParts does with keys,
// since a cluster decides them in no other way meanwhile. A reservation for a time is noted after its charge, and ended
// ones are not given back: later calls do that.
func (r *Store) askApart(ctx context.Context, groups [][]call.Check) error {
	var reserving []int // the indices of the checks that reserve for a time
	var lasts []int64
	for _, group := range groups {
		for i := range group {
			if c := &group[i]; c.ReserveFor > 0 {
				reserving, lasts = append(reserving, c.Index), append(lasts, c.ReserveFor)
				c.ReserveFor = 0
			}
		}
	}
	r.calls.follow()
	defer r.calls.end()
	err := r.askPartsBy(ctx, groups, byState)
	if len(reserving) == 0 {
		return err
	}
	for _, group := range groups {
		var charged []*call.Check
		pass := err == nil && call.Decide(group)
		for i := range group {
			c := &group[i]
			if place := slices.Index(reserving, c.Index); place >= 0 {
				c.ReserveFor = lasts[place]
				if pass && c.Charge && !c.Waived {
					charged = append(charged, c)
				}
			}
		}
		if failed := r.open(ctx, charged); failed != nil {
			r.giveBack(ctx, group)
			err = failed
		}
	}
	return err
}

// opening adds an open reservation to those of a state, and has them live long enough.
var opening = redis.NewScript(`
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
local lives = redis.call('PTTL', KEYS[1])
if lives < tonumber(ARGV[4]) then
  redis.call('PEXPIREAT', KEYS[1], ARGV[3])
end
return 1`)

// open notes that checks reserve for a time that were charged without it.
func (r *Store) open(ctx context.Context, checks []*call.Check) error {
	for _, c := range checks {
		at := c.Charged.At
		var open exact.Reservations
		open.Open(c.Reservation(at))
		const grace = 2_000_000 // microseconds, as in time.lua
		expires := open.Until() + grace
		member := script.Member(c.Holder, c.Charged, c.Cost, c.Spec)
		if err := r.Bound(context.WithoutCancel(ctx), func(ctx context.Context) error {
			return opening.Run(ctx, r.topology.Client, []string{r.Name(c.Key, c.Spec) + call.ReservedSuffix},
				strconv.FormatInt(at+c.ReserveFor, 10), member, strconv.FormatInt(expires/1000, 10), strconv.FormatInt((expires-at)/1000, 10)).Err()
		}); err != nil {
			return err
		}
	}
	return nil
}

// settleApart carries out corrections of one server in a slot that is being moved: each on its own.
func (r *Store) settleApart(ctx context.Context, list []call.Correction) error {
	var group sync.WaitGroup
	shares, failures := make([][]call.Correction, len(list)), make([]error, len(list))
	for i := range list {
		shares[i] = list[i : i+1 : i+1]
		group.Go(func() { failures[i] = r.settleAlone(ctx, shares[i]) })
	}
	group.Wait()
	return joinSettled(shares, failures)
}

// settleAlone carries out a correction. If it is one of an open reservation, that is closed before.
func (r *Store) settleAlone(ctx context.Context, one []call.Correction) error {
	c := &one[0]
	if !c.Reserved {
		return r.settleOnce(ctx, one)
	}
	var closed int64
	err := r.Bound(context.WithoutCancel(ctx), func(ctx context.Context) (err error) {
		member := script.Member(c.Holder, c.At, c.Charged, c.Spec)
		closed, err = r.topology.Client.ZRem(ctx, r.Name(c.Key, c.Spec)+call.ReservedSuffix, member).Result()
		return err
	})
	if err != nil {
		return err
	}
	own, holder := []call.Correction{*c}, c.Holder
	own[0].Reserved, own[0].Holder = false, exact.Holder{} // a correction of a holder is one of places
	if closed == 0 {
		own[0].Late()
	}
	err = r.settleOnce(ctx, own)
	late := own[0].Lost || closed == 0
	*c = own[0]
	c.Reserved, c.Holder, c.Lost = true, holder, late
	return err
}
