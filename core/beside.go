package core

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
)

// besides are settlements that are under way beside their callers.
type besides struct {
	mu      sync.Mutex
	running int
	idle    chan struct{} // closed when none is running; nil if no call waits for that
	// latest has a channel for each key to which a settlement gives units back. It is closed when the latest of them
	// ends.
	latest map[settledKey]chan struct{}
	giving atomic.Int64 // the length of latest
}

// settledKey identifies the state that a settlement is about.
type settledKey struct {
	key   string
	limit Limit
}

// longestClose is how long [Limiter.Close] waits for settlements beside their callers.
const longestClose = 2 * time.Second

// settleBeside is unexported.SettleBeside.
func (r *Reservation) settleBeside(then func(error), costs []int) error {
	s := new(settlements)
	if err := r.settlements(s, costs); err != nil { // which also claims the places
		return err
	}
	r.hold.End()
	own := *r // the caller keeps r
	r.ledger.settled = true
	if len(s.list) == 0 {
		if then != nil {
			then(nil)
		}
		return nil
	}
	costs = slices.Clone(costs)
	l := r.limiter
	if _, inProcess := l.store.(*memoryStore); inProcess { // memory answers at once
		err := unlessPanicked(func() error { return own.settle(context.Background(), s, costs) })
		if then != nil {
			then(err)
		}
		return nil
	}
	ended, keys := l.besides.begin(s.list)
	go func() {
		defer l.besides.end()
		err := unlessPanicked(func() error { return own.settle(context.Background(), s, costs) })
		l.besides.given(ended, keys)
		if then != nil {
			then(err)
		}
	}()
	runtime.Gosched() // it is sent before the caller goes on
	return nil
}

// settle carries settlements out. Those certainly not carried out go to the background.
func (r *Reservation) settle(ctx context.Context, s *settlements, costs []int) error {
	err := r.limiter.settle(ctx, s.list)
	r.note(s, err)
	if !r.ledger.settled {
		r.laterOrLost(costs)
	}
	return err
}

// begin counts a settlement. It returns the channel that is closed when the settlement has ended, and the keys that it
// gives back to.
func (b *besides) begin(list []Settlement) (ended chan struct{}, keys []settledKey) {
	ended = make(chan struct{})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running++
	if b.latest == nil {
		b.latest = make(map[settledKey]chan struct{})
	}
	for i := range list {
		s := &list[i]
		if s.Check.Shadow || !s.Check.holds() && s.Cost >= s.Check.Units() {
			continue
		}
		key := settledKey{s.Check.Key, s.Check.Limit.Identity()}
		b.latest[key] = ended
		keys = append(keys, key)
	}
	b.giving.Store(int64(len(b.latest)))
	return ended, keys
}

// given tells the calls that wait for a settlement that it has been answered.
func (b *besides) given(ended chan struct{}, keys []settledKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range keys {
		if b.latest[key] == ended {
			delete(b.latest, key)
		}
	}
	b.giving.Store(int64(len(b.latest)))
	close(ended)
}

// end counts a settlement out.
func (b *besides) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running--; b.running == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
}

// underWay returns for each check the channel of the settlement that gives units back to its key, or nil if there is none
// at all.
func (b *besides) underWay(checks []Check) (ends []chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range checks {
		c := &checks[i]
		if ended, ok := b.latest[settledKey{c.Key, c.Limit.Identity()}]; ok && !c.Shadow {
			if ends == nil {
				ends = make([]chan struct{}, len(checks))
			}
			ends[i] = ended
		}
	}
	return ends
}

// drain returns when nothing is under way, or after two seconds.
func (b *besides) drain() {
	b.mu.Lock()
	if b.running == 0 {
		b.mu.Unlock()
		return
	}
	if b.idle == nil {
		b.idle = make(chan struct{})
	}
	idle := b.idle
	b.mu.Unlock()
	patience := time.NewTimer(longestClose)
	defer patience.Stop()
	select {
	case <-idle:
	case <-patience.C:
	}
}

// decideSettled has the store decide a call. If it denies the call while this limiter gives units back to one of the keys,
// decideSettled waits for the settlement, and asks again.
func (l *Limiter) decideSettled(ctx context.Context, checks []Check, decisions []Decision, receipts []Receipt, waiters []*call.Waiter) error {
	var ends []chan struct{}
	if l.besides.giving.Load() > 0 {
		ends = l.besides.underWay(checks)
	}
	if ends == nil {
		return decide(ctx, l.decider, checks, decisions, receipts, waiters)
	}
	strikes := slices.ContainsFunc(checks, func(c Check) bool { return c.Mode == OnDenial }) // a denial would charge these: wait first
	if !strikes {
		if err := decide(ctx, l.decider, checks, decisions, receipts, waiters); err != nil || passed(checks, decisions) {
			return err
		}
	}
	waited := false
	for i, ended := range ends {
		if ended == nil || !strikes && (!decisions[i].Denies() || decisions[i].RetryAfter == Never) {
			continue
		}
		select {
		case <-ended:
			waited = true
		case <-ctx.Done():
			if !strikes {
				return nil
			}
		}
	}
	if !strikes && !waited {
		return nil
	}
	return decide(ctx, l.decider, checks, decisions, receipts, waiters)
}
