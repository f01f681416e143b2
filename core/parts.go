package core

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// part is the share of a question that is about one key, and so on one server of
// a cluster or ring.
type part struct {
	groups [][]ask
	gated  bool // the first group is a share of the question's gated checks

	at   int64 // when it was decided
	err  error
	kept bool // what was charged could not be given back
}

// severalKeys reports whether checks are about more than one key.
func severalKeys(checks []Check) bool {
	for i := range checks {
		if checks[i].Key != checks[0].Key {
			return true
		}
	}
	return false
}

// askParts decides a question whose keys may be on several servers: each part on
// its own, all at once, and then, if one was refused or failed, it gives back what
// the others have charged.
//
// So it never admits more than the limits do, and the counts are exact again when
// the question is answered. (A meter that others have charged meanwhile may be
// left too high by what drains in a round trip.) In between, the charges of a
// question that will be refused can get another one refused. A part that failed
// may or may not have been charged, and is left as it is.
//
// It writes when each part was decided into moments, if there are any.
func (r *Redis) askParts(ctx context.Context, groups [][]ask, moments []Moment) error {
	if err := r.calls.begin(); err != nil {
		return err
	}
	defer r.calls.end()
	parts := split(groups)
	inParallel(parts, func(p *part) { p.at, p.err = r.askServer(ctx, p.groups, true) })

	failures, refused := make([]error, 0, len(parts)), false
	var unanswered []int
	for _, p := range parts {
		if p.err != nil && !p.gated {
			p.leaveUnanswered(r)
			continue
		}
		if p.err != nil {
			failures = append(failures, p.err)
			for i := range p.groups[0] {
				unanswered = append(unanswered, p.groups[0][i].index)
			}
		}
		refused = refused || p.err != nil || p.gated && !passed(p.groups[0])
	}
	if refused {
		inParallel(parts, func(p *part) {
			if p.err == nil && p.gated && passed(p.groups[0]) {
				p.kept = !r.giveBack(ctx, p.groups[0], p.at)
			}
		})
	}
	join(parts, groups)
	if len(failures) > 0 {
		slices.Sort(unanswered)
		err := joined(failures)
		if slices.ContainsFunc(parts, (*part).charged) {
			err = perhapsDone(failures...)
		}
		return &UnansweredError{Checks: unanswered, Err: err}
	}
	if moments != nil {
		for _, p := range parts {
			p.tellMoments(moments)
		}
	}
	return nil
}

// charged reports whether a part of a question that fails has been charged all the same, or may have
// been: a shadow check that passed, or what could not be given back.
func (p *part) charged() bool {
	if p.err != nil {
		return !errors.Is(p.err, ErrNotDone)
	}
	shadows := p.groups
	if p.gated {
		shadows = shadows[1:]
	}
	return p.kept || slices.ContainsFunc(shadows, func(group []ask) bool {
		return passed(group) && slices.ContainsFunc(group, func(a ask) bool { return a.charge })
	})
}

// leaveUnanswered gives up a part that consists of shadow checks: the question
// does not depend on it.
func (p *part) leaveUnanswered(r *Redis) {
	r.warnings.shadows.log(r.logger(), "core: shadow checks could not be answered", slog.Any("error", p.err))
	for _, group := range p.groups {
		for i := range group {
			group[i].unanswered = true
		}
	}
}

// tellMoments writes when a part was decided into the moments of its checks.
func (p *part) tellMoments(moments []Moment) {
	for _, group := range p.groups {
		for i := range group {
			moments[group[i].index].At = p.at
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

// giveBack undoes the charges of a group, even if nobody waits for the answer any
// more. If that fails, it returns false, and the group stays charged.
func (r *Redis) giveBack(ctx context.Context, group []ask, at int64) (given bool) {
	charged := make([]correction, 0, len(group))
	for i := range group {
		if a := &group[i]; a.charge {
			charged = append(charged, correction{
				Correction: exact.Correction{Events: -a.cost, At: exact.Charge{At: at, Used: a.after()}, Firm: true},
				check:      a.check,
			})
		}
	}
	if len(charged) == 0 {
		return true
	}
	err := r.settleServer(context.WithoutCancel(ctx), charged)
	r.givenBack.tell(charged)
	if err != nil {
		r.warnings.charged.log(r.logger(), "core: a refused question stays charged on one of its servers", slog.Any("error", err))
	}
	return err == nil
}

// giveBacks are those who want to know what a store gives back by itself.
type giveBacks struct {
	mu       sync.Mutex
	watchers []func(givenBack []correction)
}

// watchGiveBacks implements givingStore.
func (r *Redis) watchGiveBacks(watch func(givenBack []correction)) {
	r.givenBack.mu.Lock()
	defer r.givenBack.mu.Unlock()
	r.givenBack.watchers = append(r.givenBack.watchers, watch)
}

func (g *giveBacks) tell(givenBack []correction) {
	g.mu.Lock()
	watchers := g.watchers
	g.mu.Unlock()
	for _, watch := range watchers {
		watch(givenBack)
	}
}

// split parts a question by key, in the order in which the keys come. The parts
// hold copies of the asks.
func split(groups [][]ask) []*part {
	var parts []*part
	byKey := make(map[string]*part)
	for _, group := range groups {
		fresh := make(map[*part]bool) // parts that have begun this group
		for _, a := range group {
			p := byKey[a.check.Key]
			if p == nil {
				p = &part{gated: !a.check.Shadow}
				byKey[a.check.Key] = p
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

// join copies what the parts have observed to the asks that they are copies of.
func join(parts []*part, groups [][]ask) {
	copies := make(map[int]ask) // by the index of the check
	for _, p := range parts {
		for _, group := range p.groups {
			for _, a := range group {
				copies[a.index] = a
			}
		}
	}
	for _, group := range groups {
		for i := range group {
			group[i] = copies[group[i].index]
		}
	}
}
