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
	"github.com/weir-go/ratelimit/core/internal/failure"
	"github.com/weir-go/ratelimit/core/internal/script"
)

// Settle carries out corrections, in a cluster or ring on all servers at once. If some were certainly
// not carried out while others were, a [failure.PartlySettledError] has the places of their settlements.
// It may put the list in another order.
func (r *Store) Settle(ctx context.Context, list []call.Correction) error {
	if err := r.calls.begin(); err != nil {
		return err
	}
	defer r.calls.end()
	if !r.sharded.Load() {
		return r.settleServer(ctx, list)
	}
	shares := byKey(list)
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
		if partly, ok := errors.AsType[*failure.PartlySettledError](err); ok {
			undone = append(undone, partly.NotDone...)
		} else if errors.Is(err, failure.ErrNotDone) {
			undone = append(undone, placesOf(shares[i])...)
		}
	}
	err := failure.Join(failures)
	switch {
	case len(failures) == 0:
		return nil
	case len(undone) > 0 && (len(failures) < len(shares) || !errors.Is(err, failure.ErrNotDone)):
		return &failure.PartlySettledError{NotDone: undone, Err: failure.Join(append(failures, failure.ErrPartlySettled))}
	case len(failures) < len(shares):
		return failure.PerhapsDone(failures...)
	}
	return err
}

// byKey puts the corrections of each key together, in their order, and returns those of each.
func byKey(list []call.Correction) (shares [][]call.Correction) {
	slices.SortStableFunc(list, func(a, b call.Correction) int { return strings.Compare(a.Key, b.Key) })
	first := 0
	for i := range list {
		if i+1 == len(list) || list[i+1].Key != list[i].Key {
			shares = append(shares, list[first:i+1])
			first = i + 1
		}
	}
	return shares
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
	return r.settleServer(ctx, list)
}

// settleOnce carries out corrections whose keys are on one server.
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
	c := s.settlements.NewCall()
	c.Request.SetCorrections(list, s.clock, r.keyOfCorrected)
	err = s.settlements.Do(ctx, c)
	if errors.Is(err, batch.ErrLeft) { // the batch still uses the call
		return failure.Sent(failure.GivenUp, "core: the call was given up: %w", context.Cause(ctx))
	}
	if err == nil {
		err = c.Err
	}
	if _, elsewhere := errors.AsType[*elsewhereError](err); elsewhere {
		c.Request.SetCorrections(list, s.clock, r.keyOfCorrected)
		if err = r.sendBeside(ctx, err, script.Settle, c); errors.Is(err, errApart) && (len(list) > 1 || list[0].Reserved) {
			s.settlements.Free(c)
			return r.settleApart(ctx, list)
		}
	}
	partly, inPart := errors.AsType[*failure.PartlySettledError](err)
	if err == nil {
		err = script.ObserveSettled(list, c.Answer.Text)
	} else if errors.Is(err, failure.ErrPartlySettled) {
		_ = script.ObserveSettled(list, c.Answer.Text) // of those that were carried out
	}
	s.settlements.Free(c)
	if inPart { // it may be shared, and counts corrections
		undone := make([]int, 0, len(partly.NotDone))
		for _, place := range partly.NotDone {
			undone = append(undone, list[place].Of...)
		}
		if len(undone) == 0 { // a reset: a server that refuses to write has not written anything of it
			refusal, _ := errors.AsType[*failure.Error](partly.Err) // see refusedInPart
			return &failure.Error{Kind: refusal.Kind, NotDone: true, Err: refusal.Err}
		}
		return &failure.PartlySettledError{NotDone: undone, Err: partly.Err}
	}
	return err
}

// keyOfCorrected returns the Redis key of the state that is corrected.
func (r *Store) keyOfCorrected(c *call.Correction) string { return r.keyOf(c.Key, c.Spec) }
