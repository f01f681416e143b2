package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// parting says which checks of a call are one part of it.
type parting func(*call.Check) exact.Key

// byKeyAlone has a part for each key: all its states are on one server of a cluster or ring.
func byKeyAlone(c *call.Check) exact.Key { return exact.Key{Subject: c.Key} }

// byState has a part for each state, which is a key of its own in Redis.
func byState(c *call.Check) exact.Key { return c.StateKey() }

// several reports whether checks are in several parts.
func (by parting) several(checks []call.Check) bool {
	for i := range checks {
		if by(&checks[i]) != by(&checks[0]) {
			return true
		}
	}
	return false
}

// part is the share of a call that is about one key, or one state, and so certainly on one server.
type part struct {
	groups [][]call.Check
	gated  bool // the first group has checks that depend on those of other parts

	pass bool // the first group did
	err  error
	kept bool // its charges could not be given back
}

// askParts decides a call with keys that may be on several servers: each part on its own, all at once. If one part was
// denied or failed, it then gives back the charges of the others.
//
// So it never admits more than the limits do, and the counts are exact again when the call is answered. (A meter that
// other calls have charged meanwhile may be left too high by the units that drain in a round trip.) In between, the
// charges of a call that will be denied can get another one denied. A part that failed may have been charged, and is left
// as it is.
//
// If alternatives are in several parts, and the first of them is not the one charged, they take another round trip: see
// choice. Shadow checks that are such alternatives are asked when the rest has been answered.
func (r *Store) askParts(ctx context.Context, groups [][]call.Check) error {
	if err := r.calls.begin(); err != nil {
		return err
	}
	defer r.calls.end()
	for _, group := range groups { // charges may have to be given back
		call.MaySettle(group)
	}
	return r.askPartsBy(ctx, groups, byKeyAlone)
}

// askPartsBy is askParts of parts of a kind.
func (r *Store) askPartsBy(ctx context.Context, groups [][]call.Check, by parting) error {
	for _, turn := range turnsOf(groups, by) {
		if err := r.askTurn(ctx, turn, by); err != nil {
			return err
		}
	}
	return nil
}

// turn is groups of a call that are asked without the answers of each other.
type turn struct {
	together [][]call.Check
	apart    [][]call.Check // shadow checks that are alternatives of each other in several parts
}

// turnsOf returns groups in turns. A group is asked after earlier groups about one of its states, so that it finds the
// units that they have left.
func turnsOf(groups [][]call.Check, by parting) []turn {
	isApart := func(group []call.Check) bool { return group[0].Shadow() && by.several(group) }
	if !slices.ContainsFunc(groups, isApart) {
		return []turn{{together: groups}}
	}
	turns := []turn{{}}
	earliest := make(map[exact.Key]int) // the turn of the next group that is about a state
	for _, group := range groups {
		place := 0
		for i := range group {
			place = max(place, earliest[group[i].StateKey()])
		}
		if place == len(turns) {
			turns = append(turns, turn{})
		}
		own, next := &turns[place], place
		if isApart(group) {
			own.apart, next = append(own.apart, group), place+1
		} else {
			own.together = append(own.together, group)
		}
		for i := range group {
			earliest[group[i].StateKey()] = next
		}
	}
	return turns
}

func (r *Store) askTurn(ctx context.Context, turn turn, by parting) error {
	if len(turn.together) > 0 {
		if err := r.askSplit(ctx, turn.together, split(turn.together, false, by), by); err != nil {
			return err
		}
	}
	var waiting sync.WaitGroup
	for _, group := range turn.apart {
		waiting.Go(func() {
			own := [][]call.Check{group}
			if err := r.askSplit(ctx, own, split(own, true, by), by); err != nil {
				r.leaveUnanswered(own, err)
			}
		})
	}
	waiting.Wait()
	return nil
}

// askSplit decides groups in several parts, each part on its own.
func (r *Store) askSplit(ctx context.Context, groups [][]call.Check, parts []*part, by parting) error {
	strikes := deferStrikes(parts)
	choices := choicesOf(groups[0], parts, by)
	inParallel(parts, func(p *part) {
		if p.err = r.askServer(ctx, p.groups, true); p.err == nil {
			p.pass = call.Decide(p.groups[0])
		}
	})
	parts, denied := r.choose(ctx, parts, choices)

	failures := make([]error, 0, len(parts))
	var unanswered []int
	for _, p := range parts {
		if p.err != nil && !p.gated {
			r.leaveUnanswered(p.groups, p.err)
			continue
		}
		if p.err != nil {
			failures = append(failures, p.err)
			for i := range p.groups[0] {
				if index := p.groups[0][i].Index; index >= 0 {
					unanswered = append(unanswered, index)
				}
			}
		}
		denied = denied || p.gated && !p.pass
	}
	if denied {
		inParallel(parts, func(p *part) {
			if p.gated && p.pass {
				p.kept = !r.giveBack(ctx, p.groups[0])
			}
		})
	}
	join(parts, groups)
	if len(failures) == 0 {
		if denied && strikes {
			r.strike(ctx, groups[0])
		}
		return nil
	}
	slices.Sort(unanswered)
	unanswered = slices.Compact(unanswered)
	err := call.JoinErrors(failures)
	if slices.ContainsFunc(parts, (*part).charged) {
		err = call.PerhapsDone(failures...)
	}
	return &call.UnansweredError{Checks: unanswered, Err: err}
}

// deferStrikes has the checks of parts that may strike only heed their bans, and reports whether there are any:
// a part does not know whether another one is denied, or under a ban.
func deferStrikes(parts []*part) (deferred bool) {
	for _, p := range parts {
		if !p.gated {
			continue
		}
		for i := range p.groups[0] {
			if c := &p.groups[0][i]; c.OnDenial {
				c.OnDenial, c.Condition, deferred = false, true, true
			}
		}
	}
	return deferred
}

// strike makes the strikes of a denied call that were deferred. If that fails, they are lost.
func (r *Store) strike(ctx context.Context, group []call.Check) {
	call.Decide(group)
	list := call.Strikes(group)
	if len(list) == 0 {
		return
	}
	if err := r.Settle(context.WithoutCancel(ctx), list); err != nil {
		r.warnings.charged.Log(r.Logger(), "core: the strikes of a denied call are lost", slog.Any("error", err))
	}
}

// charged reports whether a part of a call that fails stays charged, or may: because of a shadow check
// that passed, or because its charges could not be given back.
func (p *part) charged() bool {
	if p.err != nil {
		return !errors.Is(p.err, call.ErrNotDone)
	}
	shadows := p.groups
	if p.gated {
		shadows = shadows[1:]
	}
	return p.kept || slices.ContainsFunc(shadows, func(group []call.Check) bool {
		return call.Decide(group) && call.Charges(group)
	})
}

// leaveUnanswered gives up shadow checks: the call does not depend on them.
func (r *Store) leaveUnanswered(groups [][]call.Check, err error) {
	r.warnings.shadows.Log(r.Logger(), "core: shadow checks could not be answered", slog.Any("error", err))
	for _, group := range groups {
		for i := range group {
			group[i].Unanswered = true
		}
	}
}

func inParallel(parts []*part, do func(*part)) {
	var group sync.WaitGroup
	for _, p := range parts {
		group.Go(func() { do(p) })
	}
	group.Wait()
}

// How long, and how often, the store tries to give back the charges of a call that does not pass.
const (
	givingBack      = time.Minute
	firstBackAgain  = 5 * time.Millisecond
	latestBackAgain = time.Second
)

// giveBack undoes the charges of a group that passed, even if the caller has left. As long as it is certain that this was
// not done, it tries again: at once, and then beside the call, until that is over. It returns false if the group is, or may
// be, still charged.
func (r *Store) giveBack(ctx context.Context, group []call.Check) (given bool) {
	charged := call.Reversal(group)
	if len(charged) == 0 {
		return true
	}
	for i := range charged {
		charged[i].Of = []int{i}
	}
	err := r.settleServer(context.WithoutCancel(ctx), charged)
	r.givenBack.tell(charged)
	if err == nil {
		return true
	}
	undone := undoneOf(charged, err)
	if len(undone) == 0 || call.FailureOf(err) == call.NotPermitted || r.closed.Load() {
		r.reportCharged(err)
		return false
	}
	r.calls.follow()
	go func() { // ends after givingBack, or soon after Close
		defer r.calls.end()
		r.giveBackAgain(chosen(charged, undone))
	}()
	return false
}

// giveBackAgain repeats corrections that were certainly not carried out, until they are or it is not known.
func (r *Store) giveBackAgain(charged []call.Correction) {
	for pause, end := firstBackAgain, time.Now().Add(givingBack); ; pause = min(2*pause, latestBackAgain) {
		select {
		case <-time.After(pause):
		case <-r.ending: // once more
		}
		err := r.settleServer(context.Background(), charged)
		r.givenBack.tell(charged)
		if err == nil {
			return
		}
		undone := undoneOf(charged, err)
		if len(undone) == 0 || time.Now().After(end) || r.closed.Load() {
			r.reportCharged(err)
			return
		}
		charged = chosen(charged, undone)
	}
}

// chosen returns the corrections at some places of a list, each with its place in the new one.
func chosen(list []call.Correction, places []int) []call.Correction {
	own := make([]call.Correction, len(places))
	for i, place := range places {
		own[i] = list[place]
		own[i].Of = []int{i}
	}
	return own
}

func (r *Store) reportCharged(err error) {
	r.warnings.charged.Log(r.Logger(), "core: a denied call stays charged on one of its servers", slog.Any("error", err))
}

// watchers are called when a store gives something back by itself.
type watchers struct {
	mu  sync.Mutex
	all []func(givenBack []call.Correction)
}

// WatchGiveBacks sets a function that is called each time the store has given back by itself the charges of a call that
// does not pass, or that its caller has left.
func (r *Store) WatchGiveBacks(watch func(givenBack []call.Correction)) {
	r.givenBack.mu.Lock()
	defer r.givenBack.mu.Unlock()
	r.givenBack.all = append(r.givenBack.all, watch)
}

func (w *watchers) tell(givenBack []call.Correction) {
	w.mu.Lock()
	all := w.all
	w.mu.Unlock()
	for _, watch := range all {
		watch(givenBack)
	}
}

// split parts a call, in the order in which the keys come. The parts
// hold copies of the checks. Those of shadow checks are gated if the call depends on them.
func split(groups [][]call.Check, depends bool, by parting) []*part {
	var parts []*part
	known := make(map[exact.Key]*part)
	for _, group := range groups {
		fresh := make(map[*part]bool) // parts that have begun this group
		for _, a := range group {
			p := known[by(&a)]
			if p == nil {
				p = &part{gated: depends || !a.Shadow()}
				known[by(&a)] = p
				parts = append(parts, p)
			}
			if !fresh[p] {
				fresh[p] = true
				p.groups = append(p.groups, nil)
			}
			last := len(p.groups) - 1
			p.groups[last] = append(p.groups[last], a)
		}
	}
	return parts
}

// join copies the observations from the parts' copies to the checks of the call.
func join(parts []*part, groups [][]call.Check) {
	copies := make(map[int]call.Check) // by the index of the check
	for _, p := range parts {
		for _, group := range p.groups {
			for _, a := range group {
				copies[a.Index] = a // of an alternative that was asked again, the latest one
			}
		}
	}
	for _, group := range groups {
		for i := range group {
			c, asked := copies[group[i].Index], &group[i] // see deferStrikes and choicesOf
			c.Or, c.Either, c.Charge, c.Condition, c.OnDenial = asked.Or, asked.Either, asked.Charge, asked.Condition, asked.OnDenial
			*asked = c
		}
	}
}
