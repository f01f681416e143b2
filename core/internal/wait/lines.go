package wait

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Patience is how long others may overtake a waiter because they fit where it does not. After that the waiter blocks all
// waiters with an equal or lower Ceiling until it has been served.
const Patience = 500 * time.Millisecond

// LineKey identifies the state of a limit: calls with the same LineKey wait for each other. Limit is the limit's identity.
type LineKey struct {
	Key   string
	Limit *exact.Spec
}

// Class is a want that waiters share: Cost units of a key, with no more than Ceiling used then.
type Class struct {
	Key           LineKey
	Ceiling, Cost int
}

// Lack is a class for which a call was denied.
type Lack struct {
	Class

	// At is when it can be granted at the earliest. The zero time says that this is not known, since others make room.
	At time.Time
}

// Lines are the lines of a process. They are made by [NewLines], and may be used by many goroutines at once.
type Lines struct {
	poll func(attempt int) time.Duration

	mu     sync.Mutex
	rooms  map[LineKey]*room
	used   atomic.Int64 // how many rooms there are; read without the lock, to see that there are none
	joined uint64       // how many waiters have joined so far
	opened uint64       // how many lines there have been so far
	byID   map[uint64]*line
}

// NewLines returns empty lines. poll returns how long after a denial the first of a line asks again, in case others have made
// room unnoticed. attempt counts denials since the latest grant, from 0.
func NewLines(poll func(attempt int) time.Duration) *Lines {
	return &Lines{poll: poll, rooms: make(map[LineKey]*room), byID: make(map[uint64]*line)}
}

// room is the lines of a key: one for each plan, headroom and cost of its waiters, so they are few.
type room struct {
	key   LineKey
	lines []*line
}

// line is the waiters of a class.
type line struct {
	Class

	id       uint64
	room     *room
	waiting  []*Waiter // waiters that do not ask just now, in their order
	asking   []*Waiter // waiters that do
	credit   int       // how many of them may ask now
	later    int       // how many may ask when the answer to an asking waiter is there; it goes first if it is denied
	at       time.Time // no waiter asks before; zero: others make room, and it is not known when
	attempts int       // denials since the latest grant or Wake
	poll     time.Time // when the first one asks at the latest; zero: not worked out yet
	timer    *time.Timer
}

// Waiter is a call that waits. It belongs to one goroutine.
type Waiter struct {
	arrived time.Time
	number  uint64 // orders waiters that arrived at the same time
	turn    chan struct{}

	// The lock of the lines guards these fields.
	in      []*line
	asks    bool
	through *line // the line in which its turn came
}

// Turn returns a channel that receives when the waiter is to ask. The waiter then calls [Lines.Denied], or leaves.
func (w *Waiter) Turn() <-chan struct{} { return w.turn }

func (w *Waiter) before(other *Waiter) bool {
	if w.arrived.Equal(other.arrived) {
		return w.number < other.number
	}
	return w.arrived.Before(other.arrived)
}

// Behind returns the classes for which a call has to wait behind others of this process. If there are none, the call may
// ask at once.
func (l *Lines) Behind(classes ...Class) (behind []Class) {
	if l.used.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range classes {
		r := l.rooms[c.Key]
		if r != nil && (r.find(c) != nil || r.blocks(c, nil, time.Now())) {
			behind = append(behind, c)
		}
	}
	return behind
}

// Waiting returns how many keys have waiters.
func (l *Lines) Waiting() int { return int(l.used.Load()) }

// Join has a call that arrived at an instant wait for the classes that have denied it. It leaves with [Lines.Leave].
func (l *Lines) Join(arrived time.Time, lacks []Lack) *Waiter {
	w := &Waiter{arrived: arrived, turn: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.joined++
	w.number = l.joined
	for _, lack := range lacks {
		n := l.lineOf(lack.Class)
		if len(n.waiting)+len(n.asking) == 0 {
			n.credit = 1 // others may have made room before there was a waiter to tell
		}
		n.put(w)
		n.notBefore(lack.At)
	}
	l.giveTurns(w.in)
	return w
}

// Denied puts a waiter that has asked back into the lines of the classes that have denied it now.
func (l *Lines) Denied(w *Waiter, lacks []Lack) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.take(w)
	for _, lack := range lacks {
		n := l.lineOf(lack.Class)
		if n == w.through {
			w.through = nil
		}
		if len(n.waiting)+len(n.asking) == 0 && !slices.Contains(left, n) {
			n.credit = 1
		}
		n.put(w)
		n.notBefore(lack.At)
		n.attempts++
		n.poll = time.Time{}
	}
	if w.through != nil { // it was not denied there: the next one may ask
		w.through.credit++
		w.through = nil
	}
	l.giveTurns(append(left, w.in...))
}

// Leave takes a waiter out of all lines, as if it had never been there. If it was granted its units, more returns how
// many other waiters of a class may be granted theirs now; a nil more says that it was not granted.
func (l *Lines) Leave(w *Waiter, more func(Class) int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.take(w)
	for _, n := range left {
		switch {
		case more == nil && n == w.through:
			n.credit++
		case more == nil:
		case !n.at.IsZero():
			n.credit, n.attempts = max(n.credit, more(n.Class)-len(n.asking), 1), 0 // one at least: it is told when
		default:
			n.credit, n.attempts = max(n.credit, more(n.Class)), 0
		}
	}
	l.giveTurns(left)
}

// Wake has the first waiter of each line of a key ask, since the caller has just given units back. Its answer says for
// how many others there is room. Wake does not block.
func (l *Lines) Wake(key LineKey) {
	if l.used.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rooms[key]
	if r == nil {
		return
	}
	for _, n := range r.lines {
		n.woken()
	}
	r.giveTurns(l)
}

// WakeLine is [Lines.Wake] for one line, by the number that [Lines.Of] tells.
func (l *Lines) WakeLine(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.byID[id]; n != nil {
		n.woken()
		n.room.giveTurns(l)
	}
}

// Of returns the number of the line of a class in which a waiter stands, or 0, and whether it is the first there.
func (l *Lines) Of(w *Waiter, lineClass Class) (id uint64, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range w.in {
		if n.Class == lineClass {
			return n.id, n.first() == w
		}
	}
	return 0, false
}

// Next reports whether a waiter stands in the line of a class, and no older one of any line holds it back there.
func (l *Lines) Next(w *Waiter, c Class) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range w.in {
		if n.Class == c {
			return !slices.ContainsFunc(n.room.lines, func(other *line) bool {
				first := other.first()
				return first != nil && first != w && other.Ceiling >= c.Ceiling && first.before(w)
			})
		}
	}
	return false
}

// Len returns how many waiters are in a line, by its number.
func (l *Lines) Len(id uint64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.byID[id]; n != nil {
		return len(n.waiting) + len(n.asking)
	}
	return 0
}

// take takes a waiter out of its lines, and returns them.
func (l *Lines) take(w *Waiter) (left []*line) {
	left = w.in
	for _, n := range left {
		n.remove(w)
		if w.asks {
			n.admitLater()
		}
	}
	w.in, w.asks = nil, false
	return left
}

// giveTurns gives turns to the waiters that may ask now, in the rooms of some lines, and forgets lines without waiters.
func (l *Lines) giveTurns(of []*line) {
	for i, n := range of {
		if !slices.ContainsFunc(of[:i], func(earlier *line) bool { return earlier.room == n.room }) {
			n.room.giveTurns(l)
		}
	}
}

// giveTurns gives turns to the waiters that may ask now, the oldest first.
func (r *room) giveTurns(l *Lines) {
	now := time.Now()
	for _, n := range r.lines {
		n.credit = min(n.credit, len(n.waiting))
	}
	for {
		var next *line
		for _, n := range r.lines {
			if n.ready(now) && (next == nil || n.waiting[0].before(next.waiting[0])) && !r.blocks(n.Class, n.waiting[0], now) {
				next = n
			}
		}
		if next == nil {
			break
		}
		next.ask()
	}
	r.lines = slices.DeleteFunc(r.lines, func(n *line) bool {
		if n.arm(l, now); n.empty() {
			delete(l.byID, n.id)
		}
		return n.empty()
	})
	if len(r.lines) == 0 {
		delete(l.rooms, r.key)
		l.used.Store(int64(len(l.rooms)))
	}
}

// blocks reports whether a class has to wait for the first waiter of another line. A waiter that has been overtaken for
// its Patience blocks all classes with an equal or lower Ceiling, except waiters before it in the order. w is nil for a
// call that has just arrived.
func (r *room) blocks(c Class, w *Waiter, now time.Time) bool {
	return slices.ContainsFunc(r.lines, func(n *line) bool {
		first := n.first()
		return n.Class != c && first != nil && n.Ceiling >= c.Ceiling && now.Sub(first.arrived) >= Patience && (w == nil || first.before(w))
	})
}

func (r *room) find(c Class) *line {
	for _, n := range r.lines {
		if n.Class == c {
			return n
		}
	}
	return nil
}

// lineOf returns the line of a class, which may be new.
func (l *Lines) lineOf(c Class) *line {
	r := l.rooms[c.Key]
	if r == nil {
		r = &room{key: c.Key}
		l.rooms[c.Key] = r
		l.used.Store(int64(len(l.rooms)))
	}
	n := r.find(c)
	if n == nil {
		l.opened++
		n = &line{Class: c, id: l.opened, room: r}
		r.lines, l.byID[n.id] = append(r.lines, n), n
	}
	return n
}

func (n *line) empty() bool { return len(n.waiting)+len(n.asking) == 0 }

// ready reports whether a waiter of the line may ask now, unless another line blocks it.
func (n *line) ready(now time.Time) bool {
	return n.credit > 0 && len(n.waiting) > 0 && !now.Before(n.at)
}

// first returns the waiter that arrived first, or nil.
func (n *line) first() (first *Waiter) {
	if len(n.waiting) > 0 {
		first = n.waiting[0]
	}
	for _, w := range n.asking {
		if first == nil || w.before(first) {
			first = w
		}
	}
	return first
}

// notBefore notes when the class can be granted at the earliest.
func (n *line) notBefore(at time.Time) {
	if !at.IsZero() {
		n.at, n.credit, n.poll = at, max(n.credit, 1), time.Time{}
	}
}

// put puts a waiter into the line, in its order.
func (n *line) put(w *Waiter) {
	if slices.Contains(w.in, n) {
		return
	}
	place, _ := slices.BinarySearchFunc(n.waiting, w, func(a, b *Waiter) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	n.waiting = slices.Insert(n.waiting, place, w)
	w.in = append(w.in, n)
}

// remove takes a waiter out of the line.
func (n *line) remove(w *Waiter) {
	is := func(other *Waiter) bool { return other == w }
	if w.asks {
		n.asking = slices.DeleteFunc(n.asking, is)
	} else if place := slices.IndexFunc(n.waiting, is); place == 0 {
		n.waiting[0] = nil
		n.waiting = n.waiting[1:]
	} else {
		n.waiting = slices.Delete(n.waiting, place, place+1)
	}
}

// woken lets the first of the line ask. Its answer says how many more may.
func (n *line) woken() {
	n.later = 1
	if !n.at.IsZero() {
		n.at = time.Now()
	}
	if n.attempts = 0; len(n.asking) == 0 {
		n.admitLater()
	}
}

// admitLater lets the waiters ask that were to ask after the latest answer.
func (n *line) admitLater() { n.credit, n.later = max(n.credit, n.later), 0 }

// ask has the first waiter of the line ask.
func (n *line) ask() {
	w := n.waiting[0]
	for _, other := range w.in {
		other.remove(w)
		other.asking = append(other.asking, w)
	}
	w.asks, w.through = true, n
	n.credit--
	w.turn <- struct{}{}
}

// arm sets the timer to when the first of the line asks at the latest, or stops it. While a waiter asks, its answer
// decides when.
func (n *line) arm(l *Lines, now time.Time) {
	if len(n.waiting) == 0 || len(n.asking) > 0 {
		n.poll = time.Time{}
		if n.timer != nil {
			n.timer.Stop()
		}
		return
	}
	if !n.poll.IsZero() {
		return
	}
	if n.poll = n.at; !now.Before(n.at) {
		n.poll = now.Add(l.poll(n.attempts))
	}
	if n.timer == nil {
		n.timer = time.AfterFunc(n.poll.Sub(now), func() { l.due(n) })
	} else {
		n.timer.Reset(n.poll.Sub(now))
	}
}

// due has the first of a line ask, in case there is room that the lines were not told of.
func (l *Lines) due(n *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n.poll = time.Time{}
	if len(n.waiting) > 0 {
		n.credit = max(n.credit, 1)
		n.room.giveTurns(l)
	}
}
