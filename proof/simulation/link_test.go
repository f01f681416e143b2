package simulation_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// budget is how long a process waits for an answer of the store.
const budget = 400 * time.Millisecond

// fate is what becomes of one call on its way.
type fate struct {
	there, back time.Duration
	refused     bool          // it is not sent
	lost        bool          // it does not arrive
	unanswered  bool          // its answer does not arrive
	again       time.Duration // it arrives once more after that time; 0: it does not
}

// calm reports whether nothing happens to a call.
func (f fate) calm() bool { return f == fate{} }

var fates = rapid.Custom(func(t *rapid.T) fate {
	times := rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 90 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second})
	one := func(label string) bool { return rapid.IntRange(0, 5).Draw(t, label) == 5 }
	return fate{
		there: times.Draw(t, "there"), back: times.Draw(t, "back"),
		refused: one("refused"), lost: one("lost"), unanswered: one("unanswered"), again: times.Draw(t, "again"),
	}
})

// link is the store as a process reaches it.
type link struct {
	process *process
	ledger  *ledger

	mu     sync.Mutex
	fates  []fate
	dead   bool
	closed bool
	paused chan struct{} // closed when the process goes on; nil: it does not pause
	rough  time.Time     // when a call last had another fate than to be calm
}

// rest waits while the process pauses.
func (l *link) rest() {
	l.mu.Lock()
	paused := l.paused
	l.mu.Unlock()
	if paused != nil {
		<-paused
	}
}

// next returns the fate of the next call, or the error of a call that is not sent.
func (l *link) next() (fate, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return fate{}, fmt.Errorf("simulation: %w: %w", core.Closed, core.ErrNotDone)
	case l.dead:
		return fate{lost: true}, nil
	case len(l.fates) == 0:
		return fate{}, nil
	}
	f := l.fates[0]
	l.fates = append(l.fates[1:], f)
	if !f.calm() {
		l.rough = time.Now()
	}
	if f.refused {
		return f, fmt.Errorf("simulation: %w: %w", core.Unreachable, core.ErrNotDone)
	}
	return f, nil
}

// arrival is how a call arrives at the store.
type arrival int

const (
	answered   arrival = iota // the process gets the answer
	unanswered                // the answer is lost
	unknown                   // nobody waits for it any more, or it has arrived before
)

// send carries a call to the store. arrive is called when it arrives, perhaps more than once, and perhaps later.
func (l *link) send(arrive func(how arrival) error) error {
	l.rest()
	defer l.rest()
	f, err := l.next()
	if err != nil {
		return err
	}
	if l.ledger.t.Failed() {
		f = fate{} // so that the history ends
	}
	repeat := func(after time.Duration) { time.AfterFunc(after, func() { _ = arrive(unknown) }) }
	switch {
	case f.lost:
		time.Sleep(budget)
	case f.there > budget:
		repeat(f.there)
		time.Sleep(budget)
	default:
		time.Sleep(f.there)
		how := answered
		if f.unanswered || f.there+f.back > budget {
			how = unanswered
		}
		err = arrive(how)
		if f.again > 0 {
			repeat(f.again)
		}
		if how == answered {
			time.Sleep(f.back)
			return err
		}
		time.Sleep(budget - f.there)
	}
	return fmt.Errorf("simulation: %w", core.TimedOut)
}

// Decide implements core.Store.
func (l *link) Decide(_ context.Context, calls []core.Call) (int, error) {
	checks, settled := slices.Clone(calls[0].Checks), calls[0].Receipts != nil
	err := l.send(func(how arrival) error {
		own := core.Call{Checks: checks, Decisions: make([]core.Decision, len(checks))}
		if settled {
			own.Receipts = make([]core.Receipt, len(checks))
		}
		err := l.ledger.decide(l.process, &own, how == unknown)
		if how == answered {
			copy(calls[0].Decisions, own.Decisions)
		}
		if how != unknown { // a store of core knows the holders before it asks
			copy(calls[0].Receipts, own.Receipts)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return 1, nil
}

// Settle implements core.Store.
func (l *link) Settle(_ context.Context, list []core.Settlement) error {
	asked := slices.Clone(list)
	return l.send(func(how arrival) error {
		own := slices.Clone(asked) // a call that arrives late must not write what the process has
		for i := range own {
			if own[i].Decision != nil {
				own[i].Decision = new(core.Decision)
			}
		}
		err := l.ledger.settle(l.process, own)
		if how == answered {
			for i := range own {
				list[i].Lost = own[i].Lost
				if told := list[i].Decision; told != nil && *own[i].Decision != (core.Decision{}) {
					*told = *own[i].Decision
				}
			}
		}
		return err
	})
}

// Reset implements core.Store.
func (l *link) Reset(context.Context, string, []core.Limit) error { return nil }

// Ping implements core.Store.
func (l *link) Ping(context.Context) error { return nil }

// Close implements core.Store. The store is not the process's to close.
func (l *link) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}
