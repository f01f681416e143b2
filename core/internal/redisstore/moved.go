package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/batch"
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/script"
)

// elsewhereError is the error of a request that a node of a cluster has refused because some of its keys are, or are
// about to be, on another node. Nothing was done. The caller goes on beside the lane, so that other calls do not wait for
// it.
type elsewhereError struct {
	err error
	// open says that the slot is being moved: each of its keys may be on either node.
	open bool
}

func (e *elsewhereError) Error() string { return e.err.Error() }

// errApart is the error of a request with several keys in a slot that is being moved. Nothing was done.
var errApart = call.Unsent(call.ClusterDown, "core: redis: a slot is being moved, and some of the keys have been")

// elsewhere returns the error of a request that another node may answer, or nil. After any other failure but an unknown
// script the client fetches the map of the slots anew.
func (r *Store) elsewhere(ctx context.Context, err error) error {
	cluster := r.topology.Cluster
	if cluster == nil || err == nil || redis.HasErrorPrefix(err, "NOSCRIPT") {
		return nil
	}
	open := redis.HasErrorPrefix(err, "ASK") || redis.HasErrorPrefix(err, "TRYAGAIN")
	if !open {
		cluster.ReloadState(ctx)
	}
	if open || redis.HasErrorPrefix(err, "MOVED") || errors.Is(err, redis.ErrClosed) && !r.closed.Load() {
		return &elsewhereError{err, open}
	}
	return nil
}

// mostBeside is how many requests are sent beside the lanes at once: they take connections that lanes need.
const mostBeside = 4

// sendBeside sends a request that a lane's node has refused through the cluster's client, and sets the Answer of its
// call. A request with several keys in a slot that is being moved is errApart. It is not given up when the context ends,
// since it may charge; the budget bounds it.
func (r *Store) sendBeside(ctx context.Context, refused error, does script.Task, c *requestCall) error {
	elsewhere, _ := errors.AsType[*elsewhereError](refused)
	several := c.Request.SeveralKeys()
	if elsewhere.open && several {
		return errApart
	}
	select {
	case r.beside <- struct{}{}:
		defer func() { <-r.beside }()
	case <-ctx.Done():
		return call.Unsent(call.GivenUp, "core: the call was given up: %w", context.Cause(ctx))
	}
	one, _ := runOf(does, []*requestGroup{batch.Single(c)})
	var sent scriptCall
	called, instant := r.appendCall(&sent, one)
	a := scriptReply{instant: instant}
	lost := false // the answer to one that was sent before
	err := r.Bound(context.WithoutCancel(ctx), func(ctx context.Context) error {
		for _, words := range [...][2]any{{"evalsha", called.Hash}, {"eval", called.Source}} {
			sent.words[0], sent.words[1] = words[0], words[1]
			command := &resent{StringCmd: redis.NewStringCmd(ctx, sent.words...)}
			_ = r.topology.Cluster.Process(ctx, command) // the command carries the error
			lost = lost || command.lost
			if a.text, a.err = command.Result(); !redis.HasErrorPrefix(a.err, "NOSCRIPT") {
				break
			}
		}
		if isReply(a.err) {
			return nil
		}
		return a.err
	})
	switch {
	case err != nil:
		return err
	case several && redis.HasErrorPrefix(a.err, "TRYAGAIN"):
		return errApart
	case a.err != nil:
		kind := kindOf(a.err)
		return &call.Error{Kind: kind, NotDone: !lost && nothingWritten(a.err.Error(), kind), Err: fmt.Errorf("core: redis: %w", a.err)}
	}
	if err := a.share(one); err != nil {
		return err
	}
	c.Answer = one.groups[0].Answer
	return one.groups[0].Err
}

// resent is a command that the cluster's client sends again by itself after some errors.
type resent struct {
	*redis.StringCmd

	lost bool // it may have been carried out without an answer
}

// SetErr is called after each attempt.
func (c *resent) SetErr(err error) {
	c.lost = c.lost || err != nil && !isReply(err)
	c.StringCmd.SetErr(err)
}

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
		const grace = 2_000_000 // microseconds, as in clock.lua
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
