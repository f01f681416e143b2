package core

import (
	"context"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// ownStore is a store of this package around an inner store, which knows specs and no limits.
type ownStore struct{ call.Store }

// inside is the inner form of a call. The call keeps it, empty, to be used again.
type inside struct {
	call.Call

	of     *Call         // the call it belongs to: a copy of that call makes its own
	alone  [1]*call.Call // a list of the Call
	holder exact.Holder  // the holder of places; the zero Holder takes none
}

// Decide has calls decided, and writes the answers. If that panics, nothing of these calls is used again.
func (s *ownStore) Decide(ctx context.Context, calls []Call) (answered int, err error) {
	first := calls[0].takeInside()
	own := first.alone[:]
	for i := range calls[1:] {
		own = append(own, &calls[i+1].takeInside().Call)
	}
	if answered, err = s.Store.Decide(ctx, own); err != nil {
		calls[0].writeHolders(own[0])
		answered = 0
	}
	for i := range calls[:answered] {
		calls[i].write(own[i])
	}
	first.Empty() // the others come too seldom to be kept
	calls[0].inside = first
	return answered, err
}

// Settle has settlements carried out, and writes their results.
func (s *ownStore) Settle(ctx context.Context, settlements []Settlement) error {
	own := correctionLists.Get().(*call.Corrections) //nolint:forcetypeassert // the pool holds nothing else
	own.Set(len(settlements), func(i int) call.Correction { return settlements[i].correction() })
	list := own.List
	for i := range settlements {
		settlements[i].Lost = false
	}
	err := s.Store.Settle(ctx, list)
	for i := range list {
		c := &list[i]
		for _, place := range c.Of {
			settled := &settlements[place]
			settled.Lost = c.Lost
			if c.Observed && settled.Decision != nil {
				*settled.Decision = Decision{Limit: settled.Check.Limit}
				settled.Decision.tell(c.Answer())
				settled.Decision.Began = c.Begun
			}
		}
	}
	own.Empty() // not after a panic
	correctionLists.Put(own)
	return err
}

func (s *ownStore) Reset(ctx context.Context, key string, limits []Limit) error {
	return s.Store.Reset(ctx, key, specsOf(limits))
}

// takeInside returns the call as the inside of a store takes it. The call does not have it meanwhile.
func (c *Call) takeInside() *inside {
	made := c.inside
	if c.inside = nil; made == nil || made.of != c {
		made = &inside{of: c}
		made.alone[0] = &made.Call
	}
	made.holder, made.Settled = exact.Holder{}, c.Receipts != nil
	made.Set(len(c.Checks), func(i int, own *call.Check) {
		check := &c.Checks[i]
		own.Key, own.Spec, own.Units, own.Undelayed, own.Condition = check.Key, check.spec(), check.Units(), check.Undelayed, check.Mode == Condition
		own.OnDenial = check.Mode == OnDenial
		own.Headroom, own.Or, own.Settled = check.Headroom, check.Or, made.Settled
		if _, places := check.Limit.(Places); places {
			own.Holder = made.sameHolder()
		} else if check.ReserveFor > 0 && check.Mode == Charge {
			own.Holder, own.ReserveFor = made.sameHolder(), check.ReserveFor.Microseconds()
		}
		if c.waiters != nil {
			own.Waiter = c.waiters[i]
		}
	})
	if c.Times > 1 && len(made.Groups) == 1 && !call.Meet(made.Groups) && !call.Alone(made.Groups[0]) { // else one is granted for certain
		made.Times = c.Times
	}
	return made
}

// sameHolder returns the holder of all places of the call, and of its charges that are given back by themselves.
func (made *inside) sameHolder() exact.Holder {
	if made.holder == (exact.Holder{}) {
		made.holder = call.NewHolder()
	}
	return made.holder
}

// write writes the answers to a call that has been decided.
func (c *Call) write(decided *call.Call) {
	passed := true
	for _, group := range decided.Groups {
		pass, peek := true, true
		for i := range group {
			pass, peek = pass && (group[i].Fits || group[i].Waived), peek && !group[i].Charge
		}
		passed = passed && (pass || group[0].Shadow())
		for i := range group {
			own := &group[i]
			d := &c.Decisions[own.Index]
			if *d = (Decision{Limit: c.Checks[own.Index].Limit, Degraded: own.Unanswered}); !own.Unanswered {
				d.tell(own.Answer(pass, peek))
			}
			if c.Receipts != nil {
				c.Receipts[own.Index] = Receipt(own.Receipt())
			}
			if own.Waiter != nil && !pass {
				own.Waiter.Since = own.Usage.Fourth
			}
		}
	}
	if c.Granted = decided.Granted; decided.Times <= 1 && passed {
		c.Granted = 1
	}
	if len(c.Checks) > 1 {
		waive(c.Checks, c.Decisions)
	}
}

// writeHolders writes the receipts with which places are given back that may have been taken although the
// store has not answered.
func (c *Call) writeHolders(asked *call.Call) {
	for i := range asked.Checks {
		if own := &asked.Checks[i]; c.Receipts != nil {
			c.Receipts[own.Index] = Receipt(own.Receipt())
		}
	}
}

// tell writes the numbers of an answer.
func (d *Decision) tell(a call.Answer) {
	d.Allowed, d.Remaining = a.Allowed, a.Remaining
	d.RetryAfter, d.NextAfter, d.ResetAfter, d.Delay = a.Retry, a.Next, a.Reset, a.Delay
	d.Token, d.Estimated, d.Began = uint64(a.Token), a.Estimated, a.Began
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// correctionLists are corrections to be used again, since a store's arguments escape to the heap.
var correctionLists = sync.Pool{New: func() any { return new(call.Corrections) }}

// correction returns the inner form of a settlement.
func (s *Settlement) correction() call.Correction {
	spec, at := s.Check.spec(), &s.Receipt
	own := call.Correction{Key: s.Check.Key, Spec: spec, Wanted: s.Decision != nil && !spec.Shared} // those of a share are not known without its cap
	own.Raise, own.TopUp = s.Raise, s.TopUp
	units, cost := s.Check.Units(), s.Cost
	switch s.Check.Limit.(type) {
	case Places: // all of them are given back, at any cost
		cost, own.Renew, own.Oldest = 0, s.Renew, s.Oldest
		if !s.Oldest {
			own.Holder = exact.Holder{at.Note[2], at.Note[3]}
		}
	case Bans:
		if s.Check.Mode != Charge { // the cost is the strikes to be made
			units = 0
		}
	default:
		if s.Check.Mode != Look { // else it has opened no window
			own.At = exact.Charge{At: at.At, Used: at.Note[0], Order: at.Note[1]}
		}
		if own.Reserved = s.reserved(); own.Reserved {
			own.Holder = exact.Holder{at.Note[2], at.Note[3]}
		}
		if s.Raise {
			units = 0
		}
	}
	own.Events = spec.Difference(units, cost)
	if s.Raise { // without debt
		own.Events = min(own.Events, spec.Capacity)
	}
	if own.Reserved {
		own.Charged, own.Instead = units, min(cost, spec.MostCharged)
	}
	if s.BanFor > 0 {
		own.Events, own.Length, own.Reason = 1, s.BanFor.Microseconds(), s.Reason
	}
	return own
}

// reserved reports whether the charge is given back by itself unless it is settled.
func (s *Settlement) reserved() bool { return s.Check.reserves() && s.Receipt != (Receipt{}) }

// specsOf returns the specs of limits and of their shadow checks.
func specsOf(limits []Limit) []*exact.Spec {
	specs := make([]*exact.Spec, 0, 2*len(limits))
	for _, limit := range limits {
		specs = append(specs, limit.known(), limit.known().Shadow())
	}
	return specs
}
