package core

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/core/internal/redisstore"
	"github.com/weir-go/ratelimit/core/internal/wait"
)

// The first waiter of a queue leaves room for older first waiters of other processes, as if they were its headroom. So
// waiters are served in order, further free units are used, and RetryAfter counts the older waiters.

const (
	// callsAgain is the longest time until a waiter that has called older ones asks again.
	callsAgain = 50 * time.Millisecond
	// outlived is how long after an older waiter could be served the next one asks whether it is gone. It is longer than
	// Redis keeps a waiter that does not ask in time.
	outlived = 600 * time.Millisecond
)

// ranks are the queues and the lines of a limiter that other processes know, by their numbers. A call of Wait stands in a queue of
// [wait.Queues], and a call of WaitAll in lines of [wait.Lines].
type ranks struct {
	opened atomic.Uint64 // how many queues have had a number
	queues sync.Map      // the wait.QueueKeys of queues
	lines  sync.Map      // the lineRanks of lines
}

// stand reports whether a queue or a line stands in an order over processes, so that others may call it.
func (r *ranks) stand() (stands bool) {
	for _, all := range [...]*sync.Map{&r.queues, &r.lines} {
		all.Range(func(_, _ any) bool {
			stands = true
			return false
		})
	}
	return stands
}

// queueBit is set in the number of a queue, and not in that of a line. Redis wakes both by their numbers, over one channel.
const queueBit = 1 << 63

// wakeLine wakes the waiters of the queue or the line with a number, which the store has called.
func (l *Limiter) wakeLine(line uint64) {
	if line&queueBit == 0 {
		l.lines.WakeLine(line)
	} else if key, ok := l.ranks.queues.Load(line); ok {
		l.waiters.Wake(key.(wait.QueueKey)) //nolint:forcetypeassert // the map holds nothing else
	}
}

// ordered reports whether waiters for rates stand in an order over processes. Leased units are a process's own.
func (l *Limiter) ordered() bool { return l.wakes != nil && l.leases == nil }

// rankOf returns the function that makes the ranks of queues, or nil if the store has no order over processes.
func (l *Limiter) rankOf() func(wait.QueueKey) wait.Rank {
	if !l.ordered() {
		return nil
	}
	return func(key wait.QueueKey) wait.Rank {
		line := l.ranks.opened.Add(1) | queueBit
		return &rank{limiter: l, line: line, queue: &key, inStore: l.wakes.Rank(line, key.Key, key.Limit, strconv.Itoa(key.Limit.Capacity))}
	}
}

// rank is the rank of a queue in Redis.
type rank struct {
	limiter *Limiter
	line    uint64
	queue   *wait.QueueKey // nil: it is the rank of a line
	inStore *redisstore.Rank
}

// Stand implements [wait.Rank].
func (r *rank) Stand(first wait.Request, came, next time.Time, room int) (others []wait.Other, told bool) {
	if r.queue != nil { // it may have left before, and stand again
		r.limiter.ranks.queues.Store(r.line, *r.queue)
	}
	r.limiter.wakes.Use() // others may call, also those that come later
	list, err := r.inStore.Stand(first.Cost, came, next, room)
	if err != nil {
		return nil, false
	}
	others = make([]wait.Other, len(list))
	for i, other := range list {
		others[i] = wait.Other{Came: other.Came, Units: other.Cost}
	}
	return others, true
}

// Leave implements [wait.Rank].
func (r *rank) Leave() {
	r.inStore.Leave()
	r.limiter.ranks.queues.Delete(r.line)
}

// heldUp reports whether all room goes to older waiters of other processes: either there is never enough for them and
// this one, or further waiters behind them are older than this one, too. Then the call only asks whether there is room.
func heldUp(q *wait.Request) bool { return q.Older.Far || q.Older.Units > q.Limit.Capacity-q.Cost }

// together returns how many of the first requests are made together: those with the same number of older units.
func together(requests []wait.Request) int {
	for i := range requests {
		if requests[i].Older.Units != requests[0].Older.Units || heldUp(&requests[0]) {
			return max(1, i)
		}
	}
	return len(requests)
}

// schedule adds the older waiters to the denial of a waiter, and sets when it asks again: long before all of them have
// been served, since they may be gone.
func schedule(q *wait.Request, a *wait.Answer, denied *Decision, held time.Duration) {
	if q.Older.Units == 0 {
		return
	}
	now, takes := time.Now(), microseconds(q.Limit.Spacing(q.Older.Units))
	alone := denied.RetryAfter
	if heldUp(q) {
		denied.RetryAfter += takes
	} else {
		alone = max(0, alone-takes)
	}
	if denied.Remaining >= max(q.Cost, q.Older.First) {
		a.Room, alone = denied.Remaining, min(max(takes, time.Millisecond), callsAgain)
	} else {
		alone = outlived + max(alone, microseconds(q.Limit.Spacing(max(0, q.Older.First-denied.Remaining))))
	}
	a.Again = now.Add(max(held, alone))
	if a.Next = now.Add(max(held, denied.RetryAfter)); a.Room > 0 && a.Next.Before(a.Again) {
		a.Next = a.Again
	}
}

// longestLead is how long before its try a call is told of others, at most.
const longestLead = 20 * time.Millisecond

// The first call of a line for a rate leaves room for older first calls of other processes, as the first waiter of a queue
// does for [Limiter.Wait], and in one order with it.

// lineRank is the rank of a line for a rate among the lines of other processes.
type lineRank struct {
	telling sync.Mutex // held while Redis is told
	rank    rank

	mu     sync.Mutex
	others []wait.Other  // the first waiters of other processes, as told last
	took   time.Duration // how long it took to be told
}

// known returns the first waiters of other processes, as told last, and how long it took to be told.
func (r *lineRank) known() ([]wait.Other, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.others, r.took
}

// tell publishes the first call of the line, and learns of other processes.
func (r *lineRank) tell(units int, came, next time.Time, room int) {
	r.telling.Lock()
	defer r.telling.Unlock()
	began := time.Now()
	others, told := r.rank.Stand(wait.Request{Cost: units}, came, next, room)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.took = time.Since(began); told {
		r.others = others // else they have hardly been served meanwhile
	}
}

// rankOfLine returns the rank of a line for a class, which may be new, or nil if the store has no order over processes.
func (l *Limiter) rankOfLine(line uint64, c *Check) *lineRank {
	if line == 0 || !l.ordered() {
		return nil
	}
	if known, ok := l.ranks.lines.Load(line); ok {
		return known.(*lineRank) //nolint:forcetypeassert // the map holds nothing else
	}
	class := strconv.Itoa(classOf(c).Ceiling)
	known, _ := l.ranks.lines.LoadOrStore(line, &lineRank{
		rank: rank{limiter: l, line: line, inStore: l.wakes.Rank(line, c.Key, c.Limit.known(), class)},
	})
	return known.(*lineRank) //nolint:forcetypeassert // the map holds nothing else
}

// leaveRank tells other processes in the background that a line is gone, if it is.
func (l *Limiter) leaveRank(line uint64) {
	if line == 0 || l.lines.Len(line) > 0 {
		return
	}
	if known, ok := l.ranks.lines.LoadAndDelete(line); ok {
		r := known.(*lineRank) //nolint:forcetypeassert // the map holds nothing else
		r.rank.inStore.LeaveLater(&r.telling)
	}
}

// ranked is the rank of a waiting call that a rate has denied.
type ranked struct {
	check int // which one was denied
	line  uint64
	rank  *lineRank // nil: there is no order over processes

	due   time.Time  // of the next try
	older wait.Older // calls of other processes for which the latest try left room
	room  int        // how many units there are for these, if the oldest one and this one fit in them; else 0
}

// publish tells other processes of a call that a rate has denied, if it is the first of its line.
func (q *waitedCall) publish(w *wait.Waiter, lacks []wait.Lack, due time.Time) {
	former := q.ranked
	q.ranked = ranked{}
	if place := q.rated(lacks); place >= 0 {
		line, first := q.limiter.lines.Of(w, lacks[0].Class)
		q.ranked = ranked{check: place, line: line, rank: q.limiter.rankOfLine(line, &q.checks[place]), due: due}
		if first && q.ranked.rank != nil {
			q.ranked.rank.tell(q.checks[place].Units(), q.arrived, due, former.room)
		}
	}
	q.limiter.leaveRank(former.line)
}

// rated returns which check of the call waits for a rate, in the order of its line, or -1.
func (q *waitedCall) rated(lacks []wait.Lack) int {
	if len(lacks) != 1 || lacks[0].At.IsZero() {
		return -1
	}
	for i := range q.checks {
		c := &q.checks[i]
		if c.Limit != Unlimited && !c.Shadow && c.Mode == Charge && c.Units() > 0 && classOf(c) == lacks[0].Class && !isEither(q.checks, i) {
			return i
		}
	}
	return -1
}

// early has a call's turn come early, if other processes are known, so that it can be told of them once more before its try. It
// returns when the try is due.
func (q *waitedCall) early(lacks []wait.Lack) (due time.Time) {
	place := q.rated(lacks)
	if place < 0 {
		return due
	}
	due = lacks[0].At
	if at := &q.ranked; at.rank != nil && at.check == place {
		if others, took := at.rank.known(); len(others) > 0 {
			lacks[0].At = due.Add(-min(took, longestLead))
		}
	}
	return due
}

// leaveRoom has the checks of the next try leave room for older calls of other processes. It reports whether there can be
// room for this call, too.
func (q *waitedCall) leaveRoom(ctx context.Context, w *wait.Waiter, checks []Check) bool {
	at := &q.ranked
	at.older, at.room = wait.Older{}, 0
	if at.rank == nil {
		return true
	}
	others, _ := at.rank.known()
	if len(others) == 0 {
		return true
	}
	c := &checks[at.check]
	if _, first := q.limiter.lines.Of(w, classOf(c)); first {
		at.rank.tell(c.Units(), q.arrived, at.due, 0)
		if others, _ = at.rank.known(); time.Until(at.due) <= longestLead { // else it was called
			wait.Until(ctx, at.due)
		}
	}
	at.older = wait.OlderThan(q.arrived, others)
	if at.older.Far || at.older.Units > classOf(c).Ceiling-c.Units() {
		return false
	}
	c.Headroom += at.older.Units
	return true
}

// takeRoom undoes leaveRoom in the checks of an answer.
func (q *waitedCall) takeRoom(r *Reservation) {
	if q.ranked.older.Units > 0 {
		r.checks[q.ranked.check].Headroom = q.checks[q.ranked.check].Headroom
	}
}

// yield finds out when the next try is of a call for which there is no room behind older calls of other processes. The first
// of its line asks whether there is room for those.
func (q *waitedCall) yield(ctx context.Context, w *wait.Waiter) (lacks []wait.Lack, err error) {
	c := q.checks[q.ranked.check]
	lack := wait.Lack{Class: classOf(&c)}
	if _, first := q.limiter.lines.Of(w, lack.Class); first {
		c.Mode = Condition
		r, err := q.reserve(ctx, []Check{c}, nil)
		if err != nil {
			return nil, err
		}
		d := &r.decisions[0]
		switch {
		case d.RetryAfter == Never: // its plan has shrunk: an ordinary try says so
			q.ranked.rank, lack.At = nil, time.Now()
			return []wait.Lack{lack}, nil
		case !d.Allowed:
			if lack.At = time.Now().Add(d.RetryAfter); !q.until.IsZero() && q.until.Before(lack.At) {
				return nil, q.deny(lack.At)
			}
			lack.At = lack.At.Add(min(q.takes(), outlived))
			return []wait.Lack{lack}, nil
		}
		left := d.Remaining - c.Headroom
		if missing := q.ranked.older.First - left; missing > 0 {
			lack.At = time.Now().Add(microseconds(c.Limit.known().Spacing(missing)) + outlived)
			return []wait.Lack{lack}, nil
		}
		q.ranked.room = left
	}
	lack.At = time.Now().Add(q.soon())
	return []wait.Lack{lack}, nil
}

// schedule sets when a call tries again that has left room for older calls of other processes and was denied.
func (q *waitedCall) schedule(r *Reservation, lacks []wait.Lack) {
	at := &q.ranked
	if at.older.Units == 0 || len(lacks) != 1 || lacks[0].Class != classOf(&q.checks[at.check]) {
		return
	}
	c := &q.checks[at.check]
	if left := r.decisions[at.check].Remaining - c.Headroom; left >= max(c.Units(), at.older.First) {
		at.room = left
		lacks[0].At = time.Now().Add(q.soon())
	} else if takes := q.takes(); takes > outlived {
		lacks[0].At = lacks[0].At.Add(outlived - takes)
	}
}

// takes returns how long it takes until the units of older calls have recovered.
func (q *waitedCall) takes() time.Duration {
	return microseconds(q.checks[q.ranked.check].Limit.known().Spacing(q.ranked.older.Units))
}

// soon returns after which time a call asks again that older ones of other processes were called before.
func (q *waitedCall) soon() time.Duration { return min(max(q.takes(), time.Millisecond), callsAgain) }
