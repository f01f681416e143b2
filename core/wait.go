package core

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// LimitedError says that a wait was given up, or not begun, because of a limit. It is
// what [Limiter.Wait] and [Limiter.Do] return then; [errors.As] finds it.
type LimitedError struct {
	// Decision is the latest answer. Its RetryAfter says when to come again at the
	// earliest: others who wait in this process are counted in. It is [Never] if no
	// wait helps. A turn of a [Shaping] limit that comes too late is in its Delay.
	Decision Decision

	cause error
}

func (e *LimitedError) Error() string {
	if e.Decision.RetryAfter == Never {
		return fmt.Sprintf("core: limited: the cost exceeds %s", e.Decision.Limit)
	}
	return fmt.Sprintf("core: limited by %s: next in %v, which is too late", e.Decision.Limit, e.Decision.RetryAfter+e.Decision.Delay)
}

// Unwrap returns [context.DeadlineExceeded] if it is the context's deadline that comes
// too soon.
func (e *LimitedError) Unwrap() error { return e.cause }

// WaitOption changes how [Limiter.Wait] and [Limiter.Do] wait.
type WaitOption interface{ applyWait(*waiter) }

type waitOption func(*waiter)

func (o waitOption) applyWait(w *waiter) { o(w) }

// WithLongestWait bounds how long to wait, on top of the context's deadline. 0 waits not
// at all. The default is for ever. Less than 0 panics.
func WithLongestWait(d time.Duration) WaitOption {
	if d < 0 {
		panic(fmt.Sprintf("core: a longest wait of %v is less than 0", d))
	}
	return waitOption(func(w *waiter) { w.until = time.Now().Add(d) })
}

// WithHoldBack makes the wait heed [Limiter.HoldBack] of the key, in the same round
// trip: while the key is held back, nothing is charged.
func WithHoldBack() WaitOption {
	return waitOption(func(w *waiter) { w.heeds = true })
}

// Wait returns when one unit has been admitted and charged, for a [Shaping] limit when
// its turn has come, or with an error: a [LimitedError] if that cannot be before the
// context's deadline (then it does not wait at all) or the longest wait, the context's
// own error if that ends, or what keeps the store from answering. With an error,
// nothing is left charged; but a turn of a [Shaping] limit that is given up is given
// back as [Reservation.Wait] says, which others who have queued behind it in another
// process can prevent.
//
// It sleeps until RetryAfter and asks again, never sooner. Those who wait for one key
// and limit in this process are served in the order in which they came, and only the
// first of them asks, for itself and, unless the limit is shaped, for those behind it
// for whom there seems to be room; between processes the limit decides. So a round trip
// bounds how many a process is admitted only where the limit has room for one at a time:
// a capacity of 1 admits one in each round trip, whatever its rate.
func (l *Limiter) Wait(ctx context.Context, key string, limit Limit, options ...WaitOption) error {
	return l.WaitN(ctx, key, limit, 1, options...)
}

// WaitN is [Limiter.Wait] for n units together. A large cost is not overtaken by
// smaller ones behind it.
func (l *Limiter) WaitN(ctx context.Context, key string, limit Limit, n int, options ...WaitOption) error {
	if l.trace.Wait != nil {
		return l.tracedWait(ctx, key, limit, n, options)
	}
	return l.waitN(ctx, key, limit, n, options)
}

func (l *Limiter) waitN(ctx context.Context, key string, limit Limit, n int, options []WaitOption) error {
	w := &waiter{checks: []Check{{Key: key, Limit: limit, Cost: n}}, told: make(chan struct{}, 1)}
	for _, option := range options {
		option.applyWait(w)
	}
	if err := validate(w.checks); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return gaveUp(ctx)
	}
	if deadline, ok := ctx.Deadline(); ok && (w.until.IsZero() || deadline.Before(w.until)) {
		w.until, w.cause = deadline, context.DeadlineExceeded
	}
	if w.heeds {
		w.checks = append(w.checks, Check{Key: key, Limit: heldBack, Cost: heldBack.capacity, Uncharged: true})
	}
	if n > limit.Capacity() { // for which nobody has to stand in line
		decisions, err := l.AllowAll(ctx, w.checks[:1]...)
		if err != nil {
			return err
		}
		return &LimitedError{Decision: decisions[0]}
	}
	reservation, err := l.lines.admit(ctx, l, w)
	if err != nil {
		return err
	}
	if d := reservation.decisions[0]; d.Delay > 0 && w.late(time.Now().Add(d.Delay)) {
		return reservation.giveUp(ctx, &LimitedError{Decision: d, cause: w.cause})
	}
	return reservation.Wait(ctx)
}

// Do runs a function when one unit has been admitted, as [Limiter.Wait] says, and
// returns its error. The function is not run if Wait fails; what it was admitted for
// stays charged if it fails itself. The longest wait does not bound the function.
func (l *Limiter) Do(ctx context.Context, key string, limit Limit, fn func(context.Context) error, options ...WaitOption) error {
	if err := l.Wait(ctx, key, limit, options...); err != nil {
		return err
	}
	return fn(ctx)
}

// heldBack is the limit whose level is how long a key is held back, in milliseconds. Its
// name is one that nobody gives to a limit of his own by accident.
var heldBack = GCRA(int(LongestHoldBack/time.Millisecond), Per(1000, time.Second)).Named("weir-held-back")

// LongestHoldBack bounds what [Limiter.HoldBack] believes.
const LongestHoldBack = 24 * time.Hour

// HoldBack keeps everybody in the fleet who waits [WithHoldBack] from using a key for a
// time, rounded up to milliseconds and at most [LongestHoldBack]: because the other side
// has said "retry after". Of several times, the one that ends last counts.
func (l *Limiter) HoldBack(ctx context.Context, key string, d time.Duration) error {
	milliseconds := divideUp(int64(min(max(0, d), LongestHoldBack)), int64(time.Millisecond))
	return l.settle(ctx, []Settlement{{Check: Check{Key: key, Limit: heldBack}, Cost: int(milliseconds), Raise: true}})
}

func gaveUp(ctx context.Context) error {
	return fmt.Errorf("core: the wait was given up: %w", context.Cause(ctx))
}

// waiter is somebody who waits.
type waiter struct {
	checks []Check // the limit, and perhaps that which holds back
	heeds  bool
	until  time.Time // zero: for ever
	cause  error     // whose time until is

	told     chan struct{} // something of what follows has changed, or it is first
	refused  *LimitedError
	gone     bool         // it has given up, and is about to leave
	asked    bool         // whoever is first asks for it, too
	admitted *Reservation // what it has got then
}

func (w *waiter) late(at time.Time) bool { return !w.until.IsZero() && w.until.Before(at) }

// lines are those who wait for limits of keys. The zero value is ready to use.
type lines struct {
	mu    sync.Mutex
	byKey map[lineKey]*line
}

// lineKey tells a line from all others.
type lineKey struct {
	key   string
	limit *ruling // its identity
}

func (c *Check) lineKey() lineKey { return lineKey{c.Key, c.Limit.identity()} }

// line is those who wait for one limit of one key. The first one asks, and with it for
// those behind it for whom there was room when somebody was admitted last.
type line struct {
	waiters []*waiter
	latest  Decision
	next    time.Time // nothing is admitted before, if it is known
	room    int       // units that were left when the latest answer was given
	// single says that the next one takes what there will be, so that those behind it
	// have to wait longer.
	single bool
}

// mostTogether is how many are asked for in one question.
const mostTogether = 64

// admit returns a reservation that was allowed, when everybody who came before has had
// one.
func (s *lines) admit(ctx context.Context, l *Limiter, w *waiter) (*Reservation, error) {
	line, first := s.join(w)
	defer s.leave(line, w)
	if !first {
		if err := s.stand(ctx, line, w); err != nil {
			return nil, err
		}
		if w.admitted != nil { // by whoever was in front
			return w.admitted.unlessGivenUp(ctx)
		}
	}
	next := s.next(line)
	for {
		if time.Until(next) > 0 {
			if w.late(next) {
				return nil, s.tooLate(line, w)
			}
			if err := sleep(ctx, next); err != nil {
				return nil, err
			}
		}
		group := s.together(line)
		// What was asked has to be known, to be given back: the store's budget bounds it.
		r, err := l.Reserve(context.WithoutCancel(ctx), asking(group)...)
		if err != nil {
			s.separate(group)
			return nil, err
		}
		var held time.Duration
		if w.heeds {
			held = r.decisions[1].RetryAfter
		}
		d, pass := r.decisions[0], r.Allowed()
		switch {
		case pass:
			s.answered(line, group, d, held, true)
			s.admitAll(group, r)
			return w.admitted.unlessGivenUp(ctx)
		case ctx.Err() != nil:
			s.separate(group)
			return nil, gaveUp(ctx)
		case d.RetryAfter == Never:
			return nil, &LimitedError{Decision: d}
		case len(group) > 1 && held == 0: // there was less room than it seemed
			s.lessRoom(line, group, d)
		default:
			next = s.answered(line, group, d, held, false)
		}
	}
}

// unlessGivenUp returns a reservation, or gives it back if nobody waits for it any more.
func (r *Reservation) unlessGivenUp(ctx context.Context) (*Reservation, error) {
	if ctx.Err() != nil {
		return nil, r.giveUp(ctx, gaveUp(ctx))
	}
	return r, nil
}

// together returns the first of a line, and those behind it that are asked for in the
// same question: none of them can be refused and the next one admitted.
func (s *lines) together(l *line) []*waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := l.waiters[0]
	check := &first.checks[0]
	count, room := 1, l.room-check.Cost
	for count < min(len(l.waiters), mostTogether) && check.Limit.algorithm != shaping {
		w := l.waiters[count]
		if room -= w.checks[0].Cost; room < 0 || w.heeds != first.heeds || w.checks[0].Limit != check.Limit || w.refused != nil || w.gone {
			break
		}
		w.asked = true
		count++
	}
	return slices.Clone(l.waiters[:count])
}

// asking returns the checks of a group.
func asking(group []*waiter) []Check {
	checks := slices.Clone(group[0].checks)
	for _, w := range group[1:] {
		checks[0].Cost += w.checks[0].Cost
	}
	return checks
}

// separate has the members of a group wait on, who were not admitted.
func (s *lines) separate(group []*waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range group[1:] {
		w.asked = false
		w.tell()
	}
}

// lessRoom notes that a group was refused together.
func (s *lines) lessRoom(l *line, group []*waiter, d Decision) {
	s.separate(group)
	s.mu.Lock()
	defer s.mu.Unlock()
	l.latest, l.room = d, d.Remaining
}

// admitAll hands out what was reserved for a group: to each its own, as if they had been
// charged one after the other.
func (s *lines) admitAll(group []*waiter, r *Reservation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	moments := r.moments
	for _, w := range slices.Backward(group) {
		w.admitted = &Reservation{limiter: r.limiter, checks: w.checks, decisions: r.decisions, moments: moments}
		moments = slices.Clone(moments)
		moments[0].Used -= int64(w.checks[0].Cost) * w.checks[0].Limit.units.weight
		w.tell()
	}
}

// stand returns when a waiter is admitted or the first of its line, or with the reason
// why it will not be in time.
func (s *lines) stand(ctx context.Context, l *line, w *waiter) error {
	var over <-chan time.Time
	if !w.until.IsZero() {
		timer := time.NewTimer(time.Until(w.until))
		defer timer.Stop()
		over = timer.C
	}
	done := ctx.Done()
	for {
		select {
		case <-w.told:
		case <-over:
			over = nil
			if ctx.Err() == nil && s.hopeless(l, w) {
				return s.tooLate(l, w)
			}
			continue // those in front are being answered, and so will this one be
		case <-done:
			done = nil
		}
		if arrived, err := s.arrived(ctx, l, w); arrived || err != nil {
			return err
		}
	}
}

// arrived reports whether a waiter is admitted or the first of its line, and returns an
// error if it waits no longer. While it is asked for it waits on, to give back what it
// may get.
func (s *lines) arrived(ctx context.Context, l *line, w *waiter) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case w.admitted != nil:
		return true, nil
	case w.refused != nil:
		return false, w.refused
	case w.asked:
		return false, nil
	case ctx.Err() != nil:
		w.gone = true
		return false, gaveUp(ctx)
	}
	return l.waiters[0] == w, nil
}

// hopeless reports whether it is known that a waiter whose time is up will not be
// admitted now.
func (s *lines) hopeless(l *line, w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.gone = !w.asked && w.admitted == nil && time.Until(l.next) > 0
	return w.gone
}

// next returns before when nothing is admitted to a line.
func (s *lines) next(l *line) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.next
}

// tooLate returns the error of who cannot wait until something is admitted to a line.
func (s *lines) tooLate(l *line, w *waiter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.refusal(w, l.next)
}

// refusal returns the error of who is admitted at an instant at the earliest, which is
// too late. The line is locked.
func (l *line) refusal(w *waiter, at time.Time) *LimitedError {
	d := l.latest
	d.Allowed, d.Delay, d.Limit = false, 0, w.checks[0].Limit
	d.RetryAfter = max(0, time.Until(at))
	return &LimitedError{Decision: d, cause: w.cause}
}

// sleep returns when an instant has come, or with the reason to wait no longer.
func sleep(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return gaveUp(ctx)
	}
}

// join puts a waiter at the end of its line, and reports whether that is the beginning.
func (s *lines) join(w *waiter) (*line, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := w.checks[0].lineKey()
	found := s.byKey[key]
	if found == nil {
		found = new(line)
		if s.byKey == nil {
			s.byKey = make(map[lineKey]*line)
		}
		s.byKey[key] = found
	}
	found.waiters = append(found.waiters, w)
	found.refuseLate(1)
	return found, len(found.waiters) == 1
}

// leave takes a waiter out of its line, and tells the next one if it was the first.
func (s *lines) leave(l *line, w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	place := slices.Index(l.waiters, w)
	l.waiters = slices.Delete(l.waiters, place, place+1)
	switch {
	case len(l.waiters) == 0:
		delete(s.byKey, w.checks[0].lineKey())
	case place == 0:
		l.waiters[0].tell()
	}
}

// answered notes what a group, the first of a line, has been answered, refuses those for
// whom it will be too late, and returns when to ask again. If it has passed, the next one
// is counted as the first.
func (s *lines) answered(l *line, group []*waiter, d Decision, held time.Duration, passed bool) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.latest, l.room = d, 0
	switch {
	case passed && d.Remaining > 0:
		l.next, l.room = time.Time{}, d.Remaining
	case passed:
		l.next, l.single = time.Now().Add(d.NextAfter), true
	default:
		l.next, l.single = time.Now().Add(max(d.RetryAfter, held)), d.RetryAfter >= held
	}
	if !passed {
		for _, w := range group[1:] { // all are held back
			w.asked = false
			w.tell()
		}
		l.refuseLate(1)
	} else if len(l.waiters) > len(group) {
		l.refuseLate(len(group) + 1)
	}
	return l.next
}

// refuseLate refuses those from a place on who cannot be admitted in time. The one
// before them is admitted at next at the earliest, and by a meter they are one after
// the other, as it drains; who is refused takes nothing.
func (l *line) refuseLate(from int) {
	if l.next.IsZero() {
		return
	}
	before := l.next
	for i := from - 1; i < len(l.waiters); i++ {
		w, at := l.waiters[i], before
		if i >= from && l.single {
			at = at.Add(least(&w.checks[0]))
		}
		if i > 0 && !w.asked && w.refused == nil && w.late(at) {
			w.refused = l.refusal(w, at)
			w.tell()
		}
		if w.refused == nil && !w.gone {
			before = at
		}
	}
}

// least returns the shortest time that a check takes after another has left no room.
func least(c *Check) time.Duration {
	u := &c.Limit.units
	if u.drain == 0 { // a window may have room for many at once
		return 0
	}
	ticks := min(int64(c.Cost)*u.weight/u.drain, math.MaxInt64/u.tick/int64(time.Microsecond))
	return microseconds(ticks * u.tick)
}

func (w *waiter) tell() {
	select {
	case w.told <- struct{}{}:
	default:
	}
}
