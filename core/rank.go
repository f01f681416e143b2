package core

import (
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

// ranks are the queues of a limiter that other processes know, by their numbers.
type ranks struct {
	opened atomic.Uint64
	byLine sync.Map // of wait.QueueKeys

	ofLines sync.Map // the lineRanks of lines, by their numbers in package lines
}

// ofQueue tells the number of a queue from that of a line of [wait.Lines].
const ofQueue = 1 << 63

// wakeLine wakes the waiters of the line with a number, which the store has called.
func (l *Limiter) wakeLine(line uint64) {
	if line&ofQueue == 0 {
		l.lines.WakeLine(line)
	} else if key, ok := l.ranks.byLine.Load(line); ok {
		l.waiters.Wake(key.(wait.QueueKey)) //nolint:forcetypeassert // the map holds nothing else
	}
}

// rankOf returns the function that makes the ranks of queues, or nil if the store has no order over processes.
func (l *Limiter) rankOf() func(wait.QueueKey) wait.Rank {
	if l.wakes == nil || l.leases != nil { // leased units are a process's own
		return nil
	}
	return func(key wait.QueueKey) wait.Rank {
		line := l.ranks.opened.Add(1) | ofQueue
		l.ranks.byLine.Store(line, key)
		class := strconv.Itoa(key.Limit.Capacity)
		if key.Heeds {
			class += "-heeding"
		}
		return &rank{limiter: l, line: line, inStore: l.wakes.Rank(line, key.Key, key.Limit, class)}
	}
}

// rank is the rank of a queue in Redis. If Redis does not tell it, there is no order meanwhile.
type rank struct {
	limiter *Limiter
	line    uint64
	inStore *redisstore.Rank
}

// Stand implements [wait.Rank].
func (r *rank) Stand(first wait.Request, came, next time.Time, calls bool) []wait.Other {
	list, err := r.inStore.Stand(first.Cost, came, next, calls)
	if err != nil || len(list) == 0 {
		return nil
	}
	r.limiter.wakes.Use() // one of them may call
	others := make([]wait.Other, len(list))
	for i, other := range list {
		others[i] = wait.Other{Came: other.Came, Units: other.Cost}
	}
	return others
}

// Behind implements [wait.Rank].
func (r *rank) Behind(q wait.Request, units int, far bool) wait.Request {
	q.Older, q.Far = units, far
	return q
}

// Leave implements [wait.Rank].
func (r *rank) Leave() {
	r.inStore.Leave()
	r.limiter.ranks.byLine.Delete(r.line)
}

// heldUp reports whether all room goes to older waiters of other processes: either there is never enough for them and
// this one, or further waiters behind them are older than this one, too. Then the call only asks whether there is room.
func heldUp(q *wait.Request) bool { return q.Far || q.Older > q.Limit.Capacity-q.Cost }

// together returns how many of the first requests are made together: those with the same number of older units.
func together(requests []wait.Request) int {
	for i := range requests {
		if requests[i].Older != requests[0].Older || heldUp(&requests[0]) {
			return max(1, i)
		}
	}
	return len(requests)
}

// schedule adds the older waiters to the denial of a waiter, and sets when it asks again: long before all of them have
// been served, since they may be gone.
func schedule(q *wait.Request, a *wait.Answer, denied *Decision, held time.Duration) {
	if q.Older == 0 {
		return
	}
	now, takes := time.Now(), microseconds(q.Limit.Spacing(q.Older))
	alone := denied.RetryAfter
	if heldUp(q) {
		denied.RetryAfter += takes
	} else {
		alone = max(0, alone-takes)
	}
	if a.Older = denied.Remaining >= q.Cost; a.Older {
		alone = min(max(takes, time.Millisecond), callsAgain)
	} else {
		alone += outlived
	}
	a.Again = now.Add(max(held, alone))
	if a.Next = now.Add(max(held, denied.RetryAfter)); a.Older && a.Next.Before(a.Again) {
		a.Next = a.Again
	}
}
