package core

import (
	"context"
	"errors"
	"sync"

	"github.com/weir-go/ratelimit/core/internal/batch"
	"github.com/weir-go/ratelimit/core/internal/keyspace"
)

// Settle implements [Store]. Settlements of several keys in a cluster or ring are
// carried out on all servers at once.
func (r *Redis) Settle(ctx context.Context, settlements []Settlement) error {
	if err := r.calls.begin(); err != nil {
		return err
	}
	defer r.calls.end()
	list := corrections(settlements)
	byKey := make(map[string][]correction)
	for _, c := range list {
		byKey[c.check.Key] = append(byKey[c.check.Key], c)
	}
	if len(byKey) == 1 || !r.sharded.Load() {
		return r.settleServer(ctx, list)
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	var failures []error
	var undone []int
	for _, share := range byKey {
		group.Go(func() {
			err := r.settleServer(ctx, share)
			if err == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			failures = append(failures, err)
			if partly, ok := errors.AsType[*partlySettledError](err); ok {
				undone = append(undone, partly.undone...)
			} else if errors.Is(err, ErrNotDone) {
				undone = append(undone, placesOf(share)...)
			}
		})
	}
	group.Wait()
	err := joined(failures)
	if len(undone) > 0 && len(failures) < len(byKey) || len(undone) > 0 && !errors.Is(err, ErrNotDone) {
		return &partlySettledError{undone, joined(append(failures, errPartlySettled))}
	}
	return err
}

// placesOf returns the places of the settlements that corrections come from.
func placesOf(list []correction) (places []int) {
	for i := range list {
		places = append(places, list[i].of...)
	}
	return places
}

var errPartlySettled = errors.New("core: some of it was settled")

// Reset implements [Store].
func (r *Redis) Reset(ctx context.Context, key string, limits []Limit) error {
	if err := r.calls.begin(); err != nil {
		return err
	}
	defer r.calls.end()
	list := make([]correction, 0, 2*len(limits))
	for _, limit := range limits {
		for _, shadow := range [...]bool{false, true} {
			list = append(list, correction{check: &Check{Key: key, Limit: limit, Shadow: shadow}, reset: true})
		}
	}
	return r.settleServer(ctx, list)
}

// settleServer carries out corrections whose keys are on one server.
func (r *Redis) settleServer(ctx context.Context, list []correction) error {
	if len(list) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return r.batchError(nil, nil, context.Cause(ctx))
	}
	s, err := r.serverOf(ctx, list[0].check.Key)
	if err != nil {
		return err
	}
	call := s.settlements.NewCall()
	q := &call.Question
	q.empty()
	for i := range list {
		c := &list[i]
		key := r.key(c.check)
		q.keys = append(q.keys, key, key+keyspace.Past)
		q.arguments = appendCorrection(q.arguments, c)
		q.of |= setOf(c.check.Limit.spec.Algorithm)
		q.numbers++
		q.weight++
	}
	err = s.settlements.Do(ctx, call)
	if errors.Is(err, batch.ErrLeft) { // the call is left to those who send it
		return failed(GivenUp, "core: the call was given up: %w", context.Cause(ctx))
	}
	if err == nil {
		err = call.Err
	}
	s.settlements.Free(call)
	if partly, ok := errors.AsType[*partlySettledError](err); ok { // it may be shared, and counts corrections
		undone := make([]int, 0, len(partly.undone))
		for _, place := range partly.undone {
			undone = append(undone, list[place].of...)
		}
		if len(undone) == 0 { // a reset, or what the store gives back by itself
			return partly.err
		}
		return &partlySettledError{undone, partly.err}
	}
	return err
}

// appendCorrection appends what settle.lua expects to be told of a correction.
func appendCorrection(arguments []any, c *correction) []any {
	how := "settle"
	switch {
	case c.Raise:
		how = "raise"
	case c.reset:
		how = "reset"
	case !c.Firm && c.check.Limit.spec.Algorithm.Delays():
		how = "last"
	}
	spec := c.check.Limit.spec
	return append(arguments, spec.LimitArgument(false, false), spec.Weigh(c.Events), c.At.Used, c.At.At, how)
}
