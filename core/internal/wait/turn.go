package wait

import (
	"context"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Turns are the turns of each key that waiters in this process have: the times at which admitted
// requests may go. When a waiter leaves, those behind it move up by a turn each, so that the last turn
// becomes free. A turn is identified by its receipt. The zero value is ready to use, by many goroutines at once.
type Turns struct {
	mu    sync.Mutex
	byKey map[TurnKey]*turnLine
}

// TurnKey identifies turns that can be exchanged: those of one queue for the same number of units. Limit is the limit's
// identity.
type TurnKey struct {
	Key   string
	Limit *exact.Spec
	Cost  int
}

// turnLine holds the turns of one key and as many waiters. The first waiter gets the first turn, and so on.
type turnLine struct {
	key TurnKey

	mu      sync.Mutex
	gone    bool                 // it has been forgotten
	waiters indexed[*turnHolder] // by the times at which their own turns were due
	soonest indexed[*turn]       // the turns, the first one first
	latest  indexed[*turn]       // the same, the last one first
	timer   *time.Timer
	count   int64 // of waiters so far
}

// turnHolder is a waiter that holds a turn.
type turnHolder struct {
	due   time.Time
	count int64 // orders waiters with turns at the same time
	place int
	came  chan call.Receipt
}

type turn struct {
	due             time.Time
	what            call.Receipt
	soonest, latest int // places
}

// Wait waits for a turn that is due at some time, or for an earlier one that becomes free. It returns
// the turn that has come, or false if ctx ends first. In that case it calls free with the turn that is
// left over: the caller's own, or the last one of the waiters behind. free is called for one turn of a
// key at a time, the last turn first, and must not block.
func (s *Turns) Wait(ctx context.Context, key TurnKey, due time.Time, what call.Receipt, free func(call.Receipt)) (turn call.Receipt, came bool) {
	l, h := s.join(key, due, what)
	select {
	case what = <-h.came:
		return what, true
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	defer s.arm(l)
	l.letGo() // a turn that comes in the same moment has come
	if h.place == absent {
		return <-h.came, true
	}
	l.waiters.remove(h.place)
	last := l.latest.first()
	l.remove(last)
	free(last.what)
	return turn, false
}

func (s *Turns) join(key TurnKey, due time.Time, what call.Receipt) (*turnLine, *turnHolder) {
	for {
		l := s.lineOf(key)
		if h := s.joinLine(l, due, what); h != nil {
			return l, h
		}
	}
}

func (s *Turns) lineOf(key TurnKey) *turnLine {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byKey[key]
	if l == nil {
		l = newLine(key)
		l.timer = time.AfterFunc(longest, func() { s.come(l) })
		if s.byKey == nil {
			s.byKey = make(map[TurnKey]*turnLine)
		}
		s.byKey[key] = l
	}
	return l
}

// joinLine adds a turn and its waiter to a line. It returns nil if the line has been forgotten.
func (s *Turns) joinLine(l *turnLine, due time.Time, what call.Receipt) *turnHolder {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return nil
	}
	l.count++
	h := &turnHolder{due: due, count: l.count, came: make(chan call.Receipt, 1)}
	l.waiters.add(h)
	t := &turn{due: due, what: what}
	l.soonest.add(t)
	l.latest.add(t)
	if l.soonest.first() == t {
		s.arm(l)
	}
	return h
}

func newLine(key TurnKey) *turnLine {
	l := &turnLine{key: key}
	l.waiters.less = func(a, b *turnHolder) bool {
		return a.due.Before(b.due) || a.due.Equal(b.due) && a.count < b.count
	}
	l.waiters.moved = func(h *turnHolder, place int) { h.place = place }
	l.soonest.less = func(a, b *turn) bool { return a.due.Before(b.due) }
	l.soonest.moved = func(t *turn, place int) { t.soonest = place }
	l.latest.less = func(a, b *turn) bool { return b.due.Before(a.due) }
	l.latest.moved = func(t *turn, place int) { t.latest = place }
	return l
}

// remove takes a turn out of the line.
func (l *turnLine) remove(t *turn) {
	l.soonest.remove(t.soonest)
	l.latest.remove(t.latest)
}

// arm sets the line's timer to its next turn, or forgets the line if it has none. l is locked.
func (s *Turns) arm(l *turnLine) {
	if l.soonest.Len() > 0 {
		l.timer.Reset(time.Until(l.soonest.first().due))
		return
	}
	l.timer.Stop()
	l.gone = true
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey[l.key] == l {
		delete(s.byKey, l.key)
	}
}

// come is the function of the line's timer.
func (s *Turns) come(l *turnLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.letGo()
	s.arm(l)
}

// letGo ends the waits of waiters that have their turn. l is locked.
func (l *turnLine) letGo() {
	for l.soonest.Len() > 0 && time.Until(l.soonest.first().due) <= 0 {
		t, h := l.soonest.first(), l.waiters.first()
		l.remove(t)
		l.waiters.remove(h.place)
		h.came <- t.what
	}
}

// Len returns how many keys have waiters.
func (s *Turns) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byKey)
}
