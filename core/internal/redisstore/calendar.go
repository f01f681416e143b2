package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/script"
)

// mostAgain is how often a call is made again because the server's clock was in none of the windows that were
// sent. Once is enough unless that clock jumps in between.
const mostAgain = 3

// newClock returns this process's estimate of a server's clock.
func (r *Store) newClock(s *server) func() int64 {
	local := r.Clock
	if local == nil {
		local = func() int64 { return time.Now().UnixMicro() }
	}
	return func() int64 { return local() + s.ahead.Load() }
}

// notice sets the server's clock from an instant that it has told.
func (s *server) notice(instant int64) { s.ahead.Add(instant - s.clock()) }

// errJumps is the error of a call that has been made again too often. Nothing was charged.
func errJumps() error {
	return call.Unsent(call.Other, "core: redis has denied a call %d times for want of the window of its clock: does that jump?", mostAgain+1)
}

// ask has the script decide groups with keys on one server, times times. Groups that need other windows of a calendar are
// asked again with those around the server's clock; the first time has charged nothing of them.
func (r *Store) ask(ctx context.Context, groups [][]call.Check, wantInstant bool, times int) (toldReply, error) {
	told, err := r.askOnce(ctx, groups, wantInstant, times)
	if err != nil {
		return toldReply{}, err
	}
	return r.askFurther(ctx, groups, wantInstant, times, told)
}

// askFurther asks again as ask does, after a first reply.
func (r *Store) askFurther(ctx context.Context, groups [][]call.Check, wantInstant bool, times int, told toldReply) (toldReply, error) {
	for range mostAgain {
		again, instant := script.Again(groups, told.Text)
		if again == nil {
			return told, nil
		}
		if err := r.noticeClock(ctx, groups[0][0].Key, instant); err != nil {
			return toldReply{}, err
		}
		reply, err := r.askOnce(ctx, again, wantInstant, times)
		if err != nil {
			return toldReply{}, err
		}
		if len(again) == len(groups) {
			told = reply
			continue
		}
		told.Text = script.Splice(groups, told.Text, again, reply.Text)
		if &again[0][0] == &groups[0][0] { // the checks that depend on each other
			told.At = reply.At
		}
	}
	if again, _ := script.Again(groups, told.Text); again != nil {
		return toldReply{}, errJumps()
	}
	return told, nil
}

// noticeClock sets the clock of a key's server from an instant that it has told.
func (r *Store) noticeClock(ctx context.Context, key string, instant int64) error {
	s, err := r.serverOf(ctx, key)
	if err == nil {
		s.notice(instant)
	}
	return err
}

// settleServer carries out corrections with keys on one server. If some need other windows of a calendar, they are sent
// again with the windows around the server's clock.
func (r *Store) settleServer(ctx context.Context, list []call.Correction) error {
	err := r.settleOnce(ctx, list)
	for i := range list {
		if list[i].Further != 0 {
			return r.settleFurther(ctx, list, err, mostAgain)
		}
	}
	return err
}

// settleFurther sends corrections again if they need other windows, as often as times says at most. err is the error of the
// others.
func (r *Store) settleFurther(ctx context.Context, list []call.Correction, err error, times int) error {
	var again []call.Correction
	var places []int
	for i := range list {
		if c := &list[i]; c.Further != 0 {
			again, places = append(again, *c), append(places, i)
			again[len(again)-1].Further = 0
		}
	}
	if len(again) == 0 {
		return err
	}
	failed := errJumps()
	if times > 0 {
		if failed = r.noticeClock(ctx, list[0].Key, list[places[0]].Further); failed == nil {
			failed = r.settleFurther(ctx, again, r.settleOnce(ctx, again), times-1)
		}
		for i, place := range places {
			list[place] = again[i]
		}
	}
	switch {
	case failed == nil:
		return err
	case err == nil && len(again) == len(list):
		return failed
	}
	undone := append(undoneOf(list, err), undoneOf(again, failed)...)
	failures := []error{call.ErrPartlySettled, failed}
	if err != nil {
		failures = append(failures, err)
	}
	return &call.PartlySettledError{NotDone: undone, Err: call.JoinErrors(failures)}
}

// undoneOf returns the places of the settlements that an error says were certainly not carried out.
func undoneOf(list []call.Correction, err error) []int {
	if partly, ok := errors.AsType[*call.PartlySettledError](err); ok {
		return partly.NotDone
	}
	if errors.Is(err, call.ErrNotDone) {
		return placesOf(list)
	}
	return nil
}
