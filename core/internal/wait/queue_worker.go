package wait

import (
	"context"
	"slices"
	"time"
)

// askAlone makes the first waiter's request on its own goroutine: where there is room, no worker is
// needed. If waiters are left then, a worker goes on.
func (q *queue) askAlone(ctx context.Context, w *queued) {
	answer := q.Ask(ctx, []Request{w.request})
	q.mu.Lock()
	if answer.Err != nil && ctx.Err() != nil {
		answer.Err = q.GaveUp(ctx)
	}
	unused := q.answered([]*queued{w}, answer)
	if q.first != nil {
		go q.work()
	} else {
		q.end()
	}
	q.mu.Unlock()
	if len(unused) > 0 {
		q.Return(unused)
	}
}

// work makes the waiters' requests until no waiter is left.
func (q *queue) work() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.Rank != nil {
		q.standing.rank = q.Rank(q.key)
	}
	for q.askForAll(timer); q.lingers(timer); {
		q.askForAll(timer)
	}
	q.end()
}

// askForAll makes the requests of all waiters. q is locked.
func (q *queue) askForAll(timer *time.Timer) {
	for q.first != nil {
		wait := time.Until(q.due())
		if q.stands(wait) {
			q.tellOthers()
			continue
		}
		if q.aside() && q.standing.of != nil {
			q.leaveOthers()
			continue
		}
		if wait > 0 {
			q.rest(timer, q.lead(wait))
			continue
		}
		group := q.group()
		requests := q.requests(group)
		q.mu.Unlock()
		answer := q.Ask(context.Background(), requests)
		q.mu.Lock()
		if unused := q.answered(group, answer); len(unused) > 0 {
			q.mu.Unlock()
			q.Return(unused)
			q.mu.Lock()
		}
	}
}

// rest waits for a time, or until something has changed. q is locked, but not during the rest.
func (q *queue) rest(timer *time.Timer, wait time.Duration) {
	q.mu.Unlock()
	timer.Reset(wait)
	select {
	case <-timer.C:
	case <-q.changed:
	}
	q.mu.Lock()
}

// end forgets the queue, which has no waiters any more. q is locked.
func (q *queue) end() {
	q.asking, q.gone = false, true
	q.forget(q)
}

// group returns the first waiter, and the waiters behind it with requests that can be made together with its own. It
// denies the requests of all other waiters that are overdue. q is locked.
func (q *queue) group() []*queued {
	q.woken = false
	var group, overdue []*queued
	for w := q.first; w != nil && len(group) < q.Most && q.first.request.together(&w.request) && (w == q.first || q.follows(w)); w = w.behind {
		w.asked = true
		group = append(group, w)
	}
	for q.bounded.Len() > 0 && q.bounded.first().overdue {
		w := q.bounded.first()
		q.bounded.remove(w.place)
		overdue = append(overdue, w)
	}
	for _, w := range overdue {
		if w.asked {
			q.bounded.add(w)
		} else {
			q.tell(w, outcome{err: q.latest.Deny(&w.request, q.next)})
		}
	}
	return group
}

// answered hands a group its answer, and returns the grants that no waiter takes. The grant of a waiter
// that has left goes to one behind it with an equal request. A waiter without a grant waits on. q is
// locked.
func (q *queue) answered(group []*queued, answer Answer) (unused []Grant) {
	if answer.Err != nil && q.known() { // they have only looked, and the former answer holds
		q.lookLater(group)
		return nil
	}
	q.schedule(&answer)
	unused = answer.Grants
	blocked := false // a waiter without a grant is not overtaken
	for _, w := range group {
		w.asked = false
		if !w.waits {
			continue
		}
		if answer.Err != nil {
			q.tell(w, outcome{err: answer.Err})
			continue
		}
		place := slices.IndexFunc(unused, func(g Grant) bool { return g.Units() == w.request.Cost })
		blocked = blocked || place < 0
		switch {
		case blocked && w.overdue:
			q.tell(w, outcome{err: q.latest.Deny(&w.request, q.next)})
		case blocked:
		case !w.until.IsZero() && unused[place].Late(w.until):
			q.tell(w, outcome{err: unused[place].Deny(&w.request)})
		default:
			q.tell(w, outcome{grant: unused[place]})
			if place == 0 { // as it nearly always is
				unused = unused[1:]
			} else {
				unused = slices.Delete(unused, place, place+1)
			}
		}
	}
	if answer.Err != nil {
		return unused
	}
	q.about, q.alike = group[len(group)-1], false
	if len(answer.Grants) < len(group) {
		q.about, q.alike = group[len(answer.Grants)], true
		if answer.Never && q.about.waits {
			q.tell(q.about, outcome{err: q.latest.Deny(&q.about.request, q.next)})
		}
	}
	q.headChanged()
	q.denyLate()
	return unused
}

// lookLater has a group that has looked in vain look later. q is locked.
func (q *queue) lookLater(group []*queued) {
	for _, w := range group {
		if w.asked = false; w.waits && w.overdue {
			q.tell(w, outcome{err: q.latest.Deny(&w.request, q.next)})
		}
	}
	if now := time.Now(); q.first != nil {
		q.again = now.Add(LookAgain(now.Sub(q.first.came)))
	}
}

// schedule keeps the parts of an answer about later requests: above all when to make the next one. q is locked.
func (q *queue) schedule(answer *Answer) {
	if answer.Err != nil {
		q.next, q.again, q.full, q.standing.held = time.Time{}, time.Time{}, false, time.Time{}
		if _, none := q.latest.(unanswered); none {
			q.latest = unanswered{answer.Err}
		}
		return
	}
	q.latest, q.next, q.again, q.full = answer.Latest, answer.Next, answer.Again, answer.Full
	q.standing.room, q.standing.held = answer.Room, answer.Held
	if q.woken {
		q.next = time.Time{}
	}
	if q.Rank == nil || q.first == nil {
		return // no other process gives units back
	}
	now := time.Now()
	if look := now.Add(LookAgain(now.Sub(q.first.came))); q.again.IsZero() || look.Before(q.again) {
		q.again = look
	}
}

// denyLate denies the requests that cannot be granted in time. q is locked.
func (q *queue) denyLate() {
	for q.known() && q.first != nil && q.first.late(q.next) {
		w := q.first
		q.tell(w, outcome{err: q.latest.Deny(&w.request, q.next)})
		q.headChanged()
	}
	if !q.known() {
		return
	}
	for q.bounded.Len() > 0 && q.bounded.first().late(q.next) { // no waiter gets a grant before next
		w := q.bounded.first()
		q.tell(w, outcome{err: q.latest.Deny(&w.request, q.next)})
	}
	// The waiters that came while next was not known are looked at now, each of them once.
	ahead := q.ahead
	for w := q.fresh; w != nil; w = w.behind {
		ahead -= q.takes(w)
	}
	for w := q.fresh; w != nil; {
		behind := w.behind
		if at := q.earliest(ahead, w); w != q.first && w.late(at) {
			q.tell(w, outcome{err: q.latest.Deny(&w.request, at)})
		} else {
			ahead += q.takes(w)
		}
		w = behind
	}
	q.fresh = nil
}
