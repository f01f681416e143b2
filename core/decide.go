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
	"github.com/weir-go/ratelimit/core/internal/holder"
)

// ownStore is a store of this package. What is behind it knows specs and no limits.
type ownStore struct {
	by interface {
		Decide(ctx context.Context, calls []*call.Call) (answered int, err error)
		Settle(ctx context.Context, list []call.Correction) error
		Reset(ctx context.Context, key string, specs []*exact.Spec) error
		Ping(ctx context.Context) error
		Close() error
	}
}

// inside is what a store of this package makes of a call. The call keeps it, empty, to be used again.
type inside struct {
	call.Call

	of     *Call        // whose it is: a copy of that call makes its own
	holder exact.Holder // who takes places; the zero Holder: nobody does
}

// Decide has calls decided, and writes the answers. If that panics, nothing of these calls is used again.
func (s *ownStore) Decide(ctx context.Context, calls []Call) (answered int, err error) {
	first := calls[0].takeInside()
	own := first.Alone()
	for i := range calls[1:] {
		own = append(own, &calls[i+1].takeInside().Call)
	}
	if answered, err = s.by.Decide(ctx, own); err != nil {
		calls[0].writeHolders(own[0])
		answered, err = 0, publicError(err)
	}
	for i := range calls[:answered] {
		calls[i].write(own[i])
	}
	first.Empty() // the others come too seldom to be kept
	calls[0].inside = first
	return answered, err
}

// Settle has settlements carried out, and writes what has become of them.
func (s *ownStore) Settle(ctx context.Context, settlements []Settlement) error {
	own := correctionLists.Get().(*corrections) //nolint:forcetypeassert // the pool holds nothing else
	own.set(settlements)
	list := own.list
	for i := range settlements {
		settlements[i].Lost = false
	}
	err := s.by.Settle(ctx, list)
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
	own.free() // not after a panic
	return publicError(err)
}

func (s *ownStore) Reset(ctx context.Context, key string, limits []Limit) error {
	return s.by.Reset(ctx, key, specsOf(limits)) //nolint:wrapcheck // it is one of this package's
}

func (s *ownStore) Ping(ctx context.Context) error {
	return s.by.Ping(ctx) //nolint:wrapcheck // it is one of this package's
}

func (s *ownStore) Close() error {
	return s.by.Close() //nolint:wrapcheck // it is one of this package's
}

// publicError turns an error of a store's inside into the one that callers see.
func publicError(err error) error {
	if partly, ok := errors.AsType[*failure.UnansweredError](err); ok {
		return &UnansweredError{Checks: partly.Checks, Err: partly.Err}
	}
	if partly, ok := errors.AsType[*failure.PartlySettledError](err); ok {
		return &PartlySettledError{NotDone: partly.NotDone, Err: partly.Err}
	}
	return err
}

// takeInside returns the call as the inside of a store takes it. The call does not have it meanwhile.
func (c *Call) takeInside() *inside {
	made := c.inside
	if c.inside = nil; made == nil || made.of != c {
		made = &inside{of: c}
	}
	made.holder = exact.Holder{}
	made.Set(len(c.Checks), func(i int, own *call.Check) {
		check := &c.Checks[i]
		own.Key, own.Spec, own.Units, own.Undelayed, own.Condition = check.Key, check.spec(), check.Units(), check.Undelayed, check.Mode == Condition
		own.OnDenial = check.Mode == OnDenial
		own.Headroom, own.Or = check.Headroom, check.Or
		if check.reserves() {
			own.ReserveFor = check.ReserveFor.Microseconds()
		}
		if own.ReserveFor > 0 || own.Spec.Algorithm.Holds() {
			if made.holder == (exact.Holder{}) {
				made.holder = holder.New()
			}
			own.Holder = made.holder
		}
	})
	made.Settled = c.Receipts != nil
	if c.Times > 1 && len(made.Groups) == 1 && !call.Meet(made.Groups) && !call.Alone(made.Groups[0]) { // else one is granted for certain
		made.Times = c.Times
	}
	return made
}

// write writes the answers to a call that has been decided.
func (c *Call) write(decided *call.Call) {
	if c.Granted = decided.Granted; decided.Times <= 1 && decided.Passed() {
		c.Granted = 1
	}
	for _, group := range decided.Groups {
		pass, peek := true, true
		for i := range group {
			pass, peek = pass && (group[i].Fits || group[i].Waived), peek && !group[i].Charge
		}
		for i := range group {
			own := &group[i]
			c.Decisions[own.Index].set(own, c.Checks[own.Index].Limit, pass, peek)
			if c.Receipts != nil {
				c.Receipts[own.Index] = receiptOf(own)
			}
		}
	}
	waive(c.Checks, c.Decisions)
}

// writeHolders writes the receipts with which places are given back that may have been taken although the
// store has not answered.
func (c *Call) writeHolders(asked *call.Call) {
	for i := range asked.Checks {
		if own := &asked.Checks[i]; c.Receipts != nil && own.Units > 0 && !own.Condition && own.Spec.Algorithm.Holds() {
			c.Receipts[own.Index] = receiptOf(own)
		}
	}
}

// set writes the answer to a check of a group that was decided.
func (d *Decision) set(c *call.Check, limit Limit, pass, peek bool) {
	*d = Decision{Limit: limit, Degraded: c.Unanswered}
	if c.Unanswered {
		return
	}
	d.tell(c.Answer(pass, peek))
}

// tell writes the numbers of an answer.
func (d *Decision) tell(a call.Answer) {
	d.Allowed, d.Remaining = a.Allowed, a.Remaining
	d.NextAfter, d.ResetAfter, d.Delay = microseconds(a.Next), microseconds(a.Reset), microseconds(a.Delay)
	d.Token, d.Estimated, d.Began = uint64(a.Token), a.Estimated, a.Began
	if d.RetryAfter = Never; a.Retry != call.Never {
		d.RetryAfter = microseconds(a.Retry)
	}
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// receiptOf returns the receipt for a check that has been decided.
func receiptOf(c *call.Check) Receipt {
	if c.Spec.Algorithm.Holds() {
		return Receipt{At: c.Charged.At, Note: [4]int64{2: c.Holder[0], 3: c.Holder[1]}}
	}
	return Receipt{At: c.Charged.At, Note: [4]int64{c.Charged.Used, c.Charged.Order, c.Holder[0], c.Holder[1]}}
}

// charge returns the charge of a receipt by a store of this package.
func (r Receipt) charge() exact.Charge {
	return exact.Charge{At: r.At, Used: r.Note[0], Order: r.Note[1]}
}

// holder returns who has taken places, or has reserved for a time.
func (r Receipt) holder() exact.Holder { return exact.Holder{r.Note[2], r.Note[3]} }

// corrections are those that a store carries out for settlements.
type corrections struct {
	list   []call.Correction
	places []int // of the settlements that each comes from, in one piece of memory
}

// correctionLists are corrections to be used again, since a store's arguments escape to the heap.
var correctionLists = sync.Pool{New: func() any { return new(corrections) }}

func (l *corrections) free() {
	clear(l.list)
	l.list, l.places = l.list[:0], l.places[:0]
	correctionLists.Put(l)
}

// set makes empty corrections those that settlements need. Settlements of one call about one state,
// which were charged together, share one. A settlement that changes nothing needs none, unless its
// Decision is wanted.
func (l *corrections) set(settlements []Settlement) {
	for i := range settlements {
		s := &settlements[i]
		l.places = append(l.places, i)
		c := call.Correction{
			Correction: exact.Correction{Events: s.events(), At: s.Receipt.charge(), Raise: s.Raise},
			Key:        s.Check.Key, Spec: s.Check.spec(), Of: slices.Clip(l.places[len(l.places)-1:]), Wanted: s.Decision != nil,
		}
		if c.Spec.Algorithm.Holds() {
			c.Holder, c.Renew = s.Receipt.holder(), s.Renew
		}
		if s.reserved() {
			c.Holder, c.Reserved, c.Charged = s.Receipt.holder(), true, s.Check.Units()
			c.Instead = min(s.Cost, s.Check.Limit.spec.MostCharged())
		}
		if s.Check.Mode == Look || c.Spec.Algorithm.Bans() { // so it has opened no window
			c.At = exact.Charge{}
		}
		if s.BanFor > 0 {
			c.Events, c.Length, c.Reason = 1, s.BanFor.Microseconds(), s.Reason
		}
		l.list = call.Append(l.list, c)
	}
	l.list = slices.DeleteFunc(l.list, func(c call.Correction) bool { return c.Idle() })
}

// needed reports whether a settlement changes anything, or is asked for its Decision.
func (s Settlement) needed() bool {
	return s.Decision != nil || s.BanFor > 0 || s.events() != 0 || s.reserved()
}

// reserved reports whether what was charged is given back by itself unless it is settled.
func (s *Settlement) reserved() bool { return s.Check.reserves() && s.Receipt != (Receipt{}) }

// events returns how many units a settlement adds, or refunds if below 0, or raises to.
func (s Settlement) events() int {
	most := s.Check.Limit.spec.MostCharged()
	if s.Check.Limit.spec.Algorithm.Holds() {
		return -min(s.Check.Units(), most) // all of them, whatever the cost
	}
	events := max(-most, min(s.Cost, most))
	if s.Check.asksBan() {
		return events
	}
	if !s.Raise {
		events -= min(s.Check.Units(), most)
	}
	return events
}

// specsOf returns the specs of limits and of their shadow checks.
func specsOf(limits []Limit) []*exact.Spec {
	specs := make([]*exact.Spec, 0, 2*len(limits))
	for _, limit := range limits {
		specs = append(specs, limit.spec, limit.spec.Shadow())
	}
	return specs
}
