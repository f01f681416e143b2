package redisstore

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/batch"
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/script"
)

// Decide decides some calls, one after the other at one instant, until one is denied. The calls differ
// only in the cost of their first check. Decide returns how many it has answered, at least the first. A
// call that is made several times comes alone.
func (r *Store) Decide(ctx context.Context, calls []*call.Call) (answered int, err error) {
	first := calls[0]
	switch {
	case len(calls) == 1 && len(first.Checks) == 1 && first.Times <= 1:
		return 1, r.decideLone(ctx, first)
	case first.Times > 1 && !r.asksTogether(first):
		first.Times = 1 // as many as that are granted for certain
		fallthrough
	case first.Times <= 1 && (len(calls) == 1 || !r.asksTogether(first)):
		return 1, r.decideOne(ctx, first)
	case first.Times > 1:
		answered, err = 1, r.decideTimes(ctx, first)
	default:
		answered, err = r.decideInOrder(ctx, calls)
	}
	if errors.Is(err, errApart) { // one after the other
		first.Times, first.Groups[0][0].Costs = min(first.Times, 1), nil
		return 1, r.decideOne(ctx, first)
	}
	return answered, err
}

// asksTogether reports whether a call can be made several times in one script run. See
// [call.Alone].
func (r *Store) asksTogether(c *call.Call) bool {
	return len(c.Groups) == 1 && !call.Meet(c.Groups) && !call.Alone(c.Groups[0]) && (r.topology.Single != nil || !severalKeys(c.Checks))
}

// decideLone decides a call of one check.
func (r *Store) decideLone(ctx context.Context, c *call.Call) error {
	told, err := r.askOnce(ctx, c.Groups, c.Settled, 1)
	if err == nil {
		err = script.Observe(c.Groups, told.Text, told.place, r.marked)
	}
	if errors.Is(err, script.ErrFurther) {
		if told, err = r.askFurther(ctx, c.Groups, c.Settled, 1, told); err == nil {
			err = script.Observe(c.Groups, told.Text, told.place, r.marked)
		}
	}
	c.Checks[0].Charged.At = told.At
	if errors.Is(err, errApart) { // a reservation has two keys
		err = r.askApart(ctx, c.Groups)
	}
	if err == nil {
		c.Checks[0].Decide()
	}
	return err
}

// decideOne decides one call.
func (r *Store) decideOne(ctx context.Context, c *call.Call) error {
	several := severalKeys(c.Checks)
	var err error
	if !several || !r.sharded.Load() {
		err = r.askServer(ctx, c.Groups, c.Settled)
	}
	if several && redis.HasErrorPrefix(err, "CROSSSLOT") { // a cluster in disguise
		r.sharded.Store(true)
	}
	if several && r.sharded.Load() {
		err = r.askParts(ctx, c.Groups)
	}
	if err != nil {
		return err
	}
	for _, group := range c.Groups {
		call.Decide(group)
	}
	return nil
}

// decideTimes decides a call that is made several times.
func (r *Store) decideTimes(ctx context.Context, c *call.Call) error {
	told, err := r.ask(ctx, c.Groups, true, c.Times)
	if err != nil {
		return err
	}
	if err := script.Observe(c.Groups, told.Text, 0, r.marked); err != nil {
		return err
	}
	group := c.Groups[0]
	c.Granted = call.Granted(group, c.Times)
	call.Multiply(group, max(1, c.Granted))
	call.Decide(group)
	setInstant(group, told.At)
	return nil
}

// decideInOrder decides calls that may differ in the cost of their first check.
func (r *Store) decideInOrder(ctx context.Context, calls []*call.Call) (answered int, err error) {
	groups := calls[0].Groups
	costs := make([]int, len(calls))
	for i, c := range calls {
		costs[i] = c.Groups[0][0].Cost
	}
	if slices.Min(costs) != slices.Max(costs) {
		groups[0][0].Costs = costs
	}
	setInOrder(groups[0], true)
	defer setInOrder(groups[0], false) // the checks may be asked again
	told, err := r.ask(ctx, groups, true, len(calls))
	if err != nil {
		return 0, err
	}
	for i, c := range calls {
		group := c.Groups[0]
		group[0].Costs = groups[0][0].Costs
		if err := script.Observe(c.Groups, told.Text, i, r.marked); err != nil {
			return 0, err
		}
		setInstant(group, told.At)
		if !call.Decide(group) {
			return i + 1, nil
		}
	}
	return len(calls), nil
}

// setInOrder sets whether the checks of a group are asked for several calls in order.
func setInOrder(group []call.Check, inOrder bool) {
	for i := range group {
		group[i].InOrder = inOrder
	}
}

// setInstant notes when a group was decided.
func setInstant(group []call.Check, at int64) {
	for i := range group {
		group[i].Charged.At = at
	}
}

// severalKeys reports whether checks are about more than one key.
func severalKeys(checks []call.Check) bool {
	for i := 1; i < len(checks); i++ {
		if checks[i].Key != checks[0].Key {
			return true
		}
	}
	return false
}

// askServer has the script decide groups with keys on one server, and sets their usages.
func (r *Store) askServer(ctx context.Context, groups [][]call.Check, wantInstant bool) error {
	told, err := r.ask(ctx, groups, wantInstant, 1)
	if errors.Is(err, errApart) {
		return r.askApart(ctx, groups)
	}
	if err != nil {
		return err
	}
	for _, group := range groups {
		setInstant(group, told.At)
	}
	return script.Observe(groups, told.Text, told.place, r.marked)
}

// toldReply is a reply to a group of equal calls, and the place of one call in that group.
type toldReply struct {
	script.Reply

	place int
}

// askOnce has the script decide groups with keys on one server, times times.
func (r *Store) askOnce(ctx context.Context, groups [][]call.Check, wantInstant bool, times int) (toldReply, error) {
	if ctx.Err() != nil {
		return toldReply{}, r.batchError(nil, nil, context.Cause(ctx))
	}
	s, err := r.serverOf(ctx, groups[0][0].Key)
	if err != nil {
		return toldReply{}, err
	}
	c := s.checks.NewCall()
	c.Request.SetChecks(groups, times, wantInstant, s.clock, r.Prefix)
	switch err := s.checks.Do(ctx, c); {
	case errors.Is(err, batch.ErrLeft):
		r.giveBackLater(s, c, groups, times)
		return toldReply{}, call.Sent(call.GivenUp, "core: the call was given up: %w", context.Cause(ctx))
	case err != nil:
		s.checks.Free(c)
		return toldReply{}, err
	}
	defer s.checks.Free(c)
	if _, elsewhere := errors.AsType[*elsewhereError](c.Err); elsewhere {
		return r.askBeside(ctx, s, c.Err, groups, wantInstant, times)
	}
	if c.Err != nil {
		return toldReply{}, r.unlessTimeIsUp(ctx, c.Err)
	}
	return toldReply{c.Answer, c.Place}, nil
}

// askBeside is askOnce for groups that a node has refused, beside its lane.
func (r *Store) askBeside(ctx context.Context, s *server, refused error, groups [][]call.Check, wantInstant bool, times int) (toldReply, error) {
	c := s.checks.NewCall()
	defer s.checks.Free(c)
	c.Request.SetChecks(groups, times, wantInstant, s.clock, r.Prefix)
	if c.Request.Plain {
		c.Request.Explain() // so that it is sent once, even if the key holds nonsense
	}
	if err := r.sendBeside(ctx, refused, script.Decide, c); err != nil {
		return toldReply{}, err
	}
	return toldReply{c.Answer, 0}, nil
}

// giveBackLater waits for the answer to a call that its caller has left, and gives back the charges of the call. It
// copies the checks, since the caller may use them again.
func (r *Store) giveBackLater(s *server, c *requestCall, groups [][]call.Check, times int) {
	r.calls.follow()
	calls, inOrder := 1, times > 1 && groups[0][0].InOrder && groups[0][0].Settled
	if inOrder { // each has a note of its own
		calls = times
	}
	all := make([][][]call.Check, calls)
	for i := range all {
		all[i] = call.Copy(groups)
	}
	go func() { // ends within the patience and the budget
		defer r.calls.end()
		s.checks.Wait(c)
		defer s.checks.Free(c)
		if c.Err != nil {
			return
		}
		for place, own := range all {
			err := script.Observe(own, c.Answer.Text, c.Place+place, r.marked)
			if err != nil && !errors.Is(err, script.ErrFurther) { // which has charged nothing
				return
			}
			for _, group := range own {
				if inOrder {
					call.Single(group)
				} else if times > 1 { // the sum of the charges is given back as one
					call.Multiply(group, max(1, call.Granted(group, times)))
				}
				setInstant(group, c.Answer.At)
				if call.Decide(group) {
					r.giveBack(context.Background(), group)
					continue
				}
				if r.leave(context.Background(), call.Leaving(group)); inOrder {
					return // no call behind it has passed
				}
			}
		}
	}()
}
