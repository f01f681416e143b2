package redisstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/weir-go/ratelimit/core/internal/batch"
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/script"
)

// Settle carries out corrections, in a cluster or ring on all servers at once, and those of places in a lane of their
// own. If some were certainly not carried out while others were, a [call.PartlySettledError] has the places of their
// settlements. It may put the list in another order.
func (r *Store) Settle(ctx context.Context, list []call.Correction) error {
	if err := r.calls.begin(); err != nil {
		return err
	}
	defer r.calls.end()
	if len(list) == 1 {
		return r.settleServer(ctx, list)
	}
	shares := sharesOf(list, r.sharded.Load())
	if len(shares) <= 1 {
		return r.settleServer(ctx, list)
	}
	var group sync.WaitGroup
	failures := make([]error, len(shares))
	for i, share := range shares {
		group.Go(func() { failures[i] = r.settleServer(ctx, share) })
	}
	group.Wait()
	return joinSettled(shares, failures)
}

// joinSettled returns the error of corrections that were carried out in shares, each of which may have failed.
func joinSettled(shares [][]call.Correction, each []error) error {
	var failures []error
	var undone []int
	for i, err := range each {
		if err == nil {
			continue
		}
		failures = append(failures, err)
		if partly, ok := errors.AsType[*call.PartlySettledError](err); ok {
			undone = append(undone, partly.NotDone...)
		} else if errors.Is(err, call.ErrNotDone) {
			undone = append(undone, placesOf(shares[i])...)
		}
	}
	err := call.JoinErrors(failures)
	switch {
	case len(failures) == 0:
		return nil
	case len(undone) > 0 && (len(failures) < len(shares) || !errors.Is(err, call.ErrNotDone)):
		return &call.PartlySettledError{NotDone: undone, Err: call.JoinErrors(append(failures, call.ErrPartlySettled))}
	case len(failures) < len(shares):
		return call.PerhapsDone(failures...)
	}
	return err
}

// sharesOf puts corrections that are carried out together next to each other, in their order, and returns these shares:
// corrections that hurry, which have a lane of their own, and others. If there may be several servers, each key has shares of its own.
func sharesOf(list []call.Correction, sharded bool) (shares [][]call.Correction) {
	apart := func(a, b *call.Correction) int {
		if byKey := strings.Compare(a.Key, b.Key); sharded && byKey != 0 {
			return byKey
		}
		return rank(a) - rank(b)
	}
	if sharded || slices.ContainsFunc(list, func(c call.Correction) bool { return rank(&c) != rank(&list[0]) }) {
		slices.SortStableFunc(list, func(a, b call.Correction) int { return apart(&a, &b) })
	}
	first := 0
	for i := range list {
		if i+1 == len(list) || apart(&list[i], &list[i+1]) != 0 {
			shares = append(shares, list[first:i+1])
			first = i + 1
		}
	}
	return shares
}

// rank returns 0 for a correction that hurries, and else 1.
func rank(c *call.Correction) int {
	if c.Hurries() {
		return 0
	}
	return 1
}

// placesOf returns the places of the settlements that corrections come from.
func placesOf(list []call.Correction) (places []int) {
	for i := range list {
		places = append(places, list[i].Of...)
	}
	return places
}

// Reset makes the state of a key as good as new under each of some specs.
func (r *Store) Reset(ctx context.Context, key string, specs []*exact.Spec) error {
	if err := r.calls.begin(); err != nil {
		return err
	}
	defer r.calls.end()
	list := make([]call.Correction, len(specs))
	for i, spec := range specs {
		list[i] = call.Correction{Key: key, Spec: spec, Reset: true}
	}
	for len(list) > 0 {
		if err := r.settleServer(ctx, list); err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(c call.Correction) bool { return !c.More })
	}
	return nil
}

// settleOnce carries out corrections with keys on one server.
func (r *Store) settleOnce(ctx context.Context, list []call.Correction) error {
	if len(list) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return r.batchError(nil, nil, context.Cause(ctx))
	}
	s, err := r.serverOf(ctx, list[0].Key)
	if err != nil {
		return err
	}
	lane := s.laneOf(list)
	c := lane.NewCall()
	c.Request.SetCorrections(list, s.clock, r.Prefix)
	err = lane.Do(ctx, c)
	if errors.Is(err, batch.ErrLeft) { // the batch still uses the call
		return call.Sent(call.GivenUp, "core: the call was given up: %w", context.Cause(ctx))
	}
	if err == nil {
		err = c.Err
	}
	if _, elsewhere := errors.AsType[*elsewhereError](err); elsewhere {
		c.Request.SetCorrections(list, s.clock, r.Prefix)
		if c.Request.Plain {
			c.Request.Explain() // so that it is sent once for any state of the key
		}
		if err = r.sendBeside(ctx, err, script.Settle, c); errors.Is(err, errApart) && (len(list) > 1 || list[0].Reserved) {
			lane.Free(c)
			return r.settleApart(ctx, list)
		}
	}
	partly, inPart := errors.AsType[*call.PartlySettledError](err)
	if err == nil {
		err = script.ObserveSettled(list, c.Answer.Text)
	} else if errors.Is(err, call.ErrPartlySettled) {
		_ = script.ObserveSettled(list, c.Answer.Text) // of the corrections that were carried out
	}
	lane.Free(c)
	if inPart { // it may be shared, and counts corrections
		undone := make([]int, 0, len(partly.NotDone))
		for _, place := range partly.NotDone {
			undone = append(undone, list[place].Of...)
		}
		if len(undone) == 0 { // a reset: a server that refuses to write has not written anything of it
			refusal, _ := errors.AsType[*call.Error](partly.Err) // see refusedInPart
			return &call.Error{Kind: refusal.Kind, NotDone: true, Err: refusal.Err}
		}
		return &call.PartlySettledError{NotDone: undone, Err: partly.Err}
	}
	return err
}
