package core

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/failure"
)

// decider is the inside of a store of this package.
type decider interface {
	Decide(ctx context.Context, calls []*call.Call) (answered int, err error)
}

// deciding holds the calls of one Decide. It is used again.
type deciding struct {
	checks []call.Check
	own    []*call.Call
}

var decidings = sync.Pool{New: func() any { return new(deciding) }}

// decideBy has the inside of a store decide calls, and writes the answers.
func decideBy(ctx context.Context, inside decider, calls []Call) (answered int, err error) {
	d := decidings.Get().(*deciding) //nolint:forcetypeassert // the pool holds nothing else
	defer d.free()
	for len(d.own) < len(calls) {
		d.own = append(d.own, new(call.Call))
	}
	own := d.own[:len(calls)]
	for i := range calls {
		d.checks = appendReady(d.checks[:0], calls[i].Checks)
		own[i].Set(d.checks)
		own[i].Times, own[i].Settled = max(1, calls[i].Times), calls[i].Receipts != nil
	}
	if answered, err = inside.Decide(ctx, own); err != nil {
		return 0, publicError(err)
	}
	for i := range calls[:answered] {
		calls[i].write(own[i])
	}
	return answered, nil
}

// mostKept is how many calls of a deciding are kept to be used again. Only a crowd has more.
const mostKept = 4

func (d *deciding) free() {
	clear(d.checks)
	clear(d.own[min(len(d.own), mostKept):])
	d.own = d.own[:min(len(d.own), mostKept)]
	for _, own := range d.own {
		own.Empty()
	}
	decidings.Put(d)
}

// publicError turns an error of a store's inside into the one that callers see.
func publicError(err error) error {
	if partly, ok := errors.AsType[*failure.Unanswered](err); ok {
		return &UnansweredError{Checks: partly.Checks, Err: partly.Err}
	}
	return err
}

// appendReady appends checks as the inside of a store takes them.
func appendReady(list []call.Check, checks []Check) []call.Check {
	list = slices.Grow(list, len(checks))
	for i := range checks {
		c := &checks[i]
		list = append(list, call.Check{
			Key: c.Key, Spec: c.spec(), Units: c.Units(), Undelayed: c.Undelayed, Condition: c.Mode == Condition, Index: i,
		})
	}
	return list
}

// write writes the answers to a call that has been decided.
func (c *Call) write(decided *call.Call) {
	c.Granted = decided.Granted
	for _, group := range decided.Groups {
		pass, peek := true, true
		for i := range group {
			pass, peek = pass && group[i].Fits, peek && !group[i].Charge
		}
		for i := range group {
			own := &group[i]
			c.Decisions[own.Index] = decisionOf(own, c.Checks[own.Index].Limit, pass, peek)
			if c.Receipts != nil {
				c.Receipts[own.Index] = Receipt{At: own.Charged.At, Note: [2]int64{own.Charged.Used, own.Charged.Order}}
			}
		}
	}
}

// decisionOf returns the Decision about a check of a group that was decided.
func decisionOf(c *call.Check, limit Limit, pass, peek bool) Decision {
	if c.Unanswered {
		return Decision{Limit: limit, Degraded: true}
	}
	a := c.Answer(pass, peek)
	d := Decision{
		Allowed: a.Allowed, Limit: limit, Remaining: a.Remaining,
		NextAfter: microseconds(a.Next), ResetAfter: microseconds(a.Reset), Delay: microseconds(a.Delay),
	}
	switch a.Retry {
	case 0:
	case call.Never:
		d.RetryAfter = Never
	default:
		d.RetryAfter = microseconds(a.Retry)
	}
	return d
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// charge returns the charge of a receipt by a store of this package.
func (r Receipt) charge() exact.Charge {
	return exact.Charge{At: r.At, Used: r.Note[0], Order: r.Note[1]}
}

// corrections returns the corrections that settlements need. Settlements of one call about one state,
// which were charged together, share one. A settlement at the cost that was charged needs none.
func corrections(settlements []Settlement) []call.Correction {
	list := make([]call.Correction, 0, len(settlements))
	for i := range settlements {
		s := &settlements[i]
		most := s.Check.Limit.Capacity()
		c := call.Correction{
			Correction: exact.Correction{At: s.Receipt.charge(), Raise: s.Raise},
			Key:        s.Check.Key, Spec: s.Check.spec(), Of: []int{i},
		}
		c.Events = min(s.Cost, most)
		if !s.Raise {
			c.Events -= min(s.Check.Units(), most)
		}
		if s.Check.Mode == Look { // so it has opened no window
			c.At = exact.Charge{}
		}
		list = call.Append(list, c)
	}
	return slices.DeleteFunc(list, func(c call.Correction) bool { return c.Events == 0 })
}

// specsOf returns the specs of limits and of their shadow checks.
func specsOf(limits []Limit) []*exact.Spec {
	specs := make([]*exact.Spec, 0, 2*len(limits))
	for _, limit := range limits {
		specs = append(specs, limit.spec, limit.spec.Shadow())
	}
	return specs
}
