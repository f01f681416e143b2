package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/batch"
	"github.com/weir-go/ratelimit/core/internal/call"
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
