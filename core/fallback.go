package core

import (
	"context"
	"fmt"
	"math/bits"
	"strings"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Share returns the limit that one of n processes keeps when they cannot agree: a part
// of the capacity, rounded up, and of the rate. The parts of all processes together may
// be a little more than the limit, and less than what its traffic needs where that is
// spread unevenly. The name stays. Fewer than 1 process is like 1.
func (l Limit) Share(n int) Limit {
	if n <= 1 || l == Unlimited || l.Validate() != nil {
		return l
	}
	capacity := (l.spec.Capacity-1)/n + 1
	rate := Rate{Events: capacity, Period: l.spec.Period}
	if !l.spec.Algorithm.Windowed() {
		high, period := bits.Mul64(uint64(l.spec.Period), uint64(n))
		if high != 0 || period > uint64(exact.Longest) {
			period = uint64(exact.Longest)
		}
		rate = Rate{Events: l.spec.Events, Period: time.Duration(period)}
	}
	return newLimit(l.spec.Algorithm, capacity, rate).Named(l.spec.Name)
}

// Fallback decides in this process while a store cannot: each process keeps its share
// of the limits, and starts from what it has seen last of a key. So an outage means
// approximately limited, where nothing is better. It is made by [NewFallback], and may
// be used by many goroutines at once.
type Fallback struct {
	replicas int
	clock    clock
	memory   *Memory
	shares   *shares
	limiter  *Limiter // that makes reservations of shares
	seen     *otter.Cache[exact.Key, sight]

	// deciding is held while the memory takes over what has been seen of a key, so that nobody
	// meets a key of which that has been done in part. Those who only decide share it.
	deciding sync.RWMutex
}

// sight is what has been seen of a key under a limit.
type sight struct {
	used  int
	at    int64 // when, in the fallback's microseconds
	reset int64 // when nothing would be used any more
}

// NewFallback returns a Fallback for one of a number of processes that share the
// traffic about evenly. It remembers the last state of up to size keys, at about 140
// bytes each, and holds as many while it decides. Fewer than 1 process or key panics.
func NewFallback(replicas, size int, options ...FallbackOption) *Fallback {
	if replicas < 1 || size < 1 {
		panic(fmt.Sprintf("core: a fallback for one of %d processes and %d keys: give at least 1 of each", replicas, size))
	}
	f := &Fallback{
		replicas: replicas,
		clock:    forwardClock(),
		seen: otter.Must(&otter.Options[exact.Key, sight]{
			MaximumSize: size,
			Executor:    func(task func()) { task() },
		}),
	}
	memory := make([]MemoryOption, 0, len(options)+1)
	for _, option := range options {
		memory = append(memory, option)
		option.applyFallback(f)
	}
	f.memory = NewMemory(append(memory, WithMaxKeys(size))...)
	f.shares = &shares{f.memory, f}
	f.limiter = New(f.shares)
	return f
}

// Observe tells what a store has decided.
func (f *Fallback) Observe(checks []Check, decisions []Decision) {
	now := f.clock()
	for i := range checks {
		check, d := &checks[i], &decisions[i]
		if check.Shadow || d.Degraded || check.Limit == Unlimited || check.Limit.Validate() != nil {
			continue
		}
		key := check.stateKey()
		used := check.Limit.Capacity() - d.Remaining
		if used == 0 {
			f.seen.Invalidate(key)
			continue
		}
		key.Subject = strings.Clone(key.Subject)
		f.seen.Set(key, sight{used: used, at: now, reset: now + d.ResetAfter.Microseconds()})
	}
}

// ObserveSettled tells what a reservation has really cost that a store was asked for so
// long ago, and that Observe was told of: the same costs as [Reservation.Settle], whose
// success does not matter here. A check of which less was used than is given back has
// no more to give, as with the store. Conditions are left alone, since nothing
// of them is settled.
func (f *Fallback) ObserveSettled(r *Reservation, ago time.Duration, costs ...int) {
	if !r.Allowed() {
		return
	}
	now := f.clock()
	for i := range min(len(costs), len(r.checks)) {
		check, d := &r.checks[i], &r.decisions[i]
		if check.Shadow || check.Mode == Condition || check.Limit == Unlimited {
			continue
		}
		charged := now - ago.Microseconds()
		then := sight{used: check.Limit.Capacity() - d.Remaining, at: charged, reset: charged + d.ResetAfter.Microseconds()}
		left := then.usedAt(now, check.Limit.spec.Algorithm)
		more := min(costs[i], check.Limit.Capacity()) - check.Units()
		switch {
		case more > 0 && left == 0 && then.used > 0 && check.Limit.spec.Algorithm.Windowed():
			// That window has closed.
		case more != 0:
			f.correct(check, max(more, -left), now)
		}
	}
}

// ObserveCharged tells what a key was charged besides: [Limiter.Charge]. While the
// fallback decides about the key, its part of that is charged here.
func (f *Fallback) ObserveCharged(key string, limit Limit, n int) {
	if n > 0 && limit != Unlimited && limit.Validate() == nil {
		f.correct(&Check{Key: key, Limit: limit}, min(n, limit.Capacity()), f.clock())
	}
}

// correct charges a key some more, or gives back where that is below 0: in what was
// seen last, or where the fallback has begun from that, this process's part of it.
//
//nolint:contextcheck,nolintlint // what has happened is not called off; seen where it is called
func (f *Fallback) correct(check *Check, more int, now int64) {
	if f.correctSeen(check, more, now) {
		return
	}
	f.deciding.RLock() // what was seen has been taken over by now, or has been forgotten
	defer f.deciding.RUnlock()
	if f.correctSeen(check, more, now) {
		return
	}
	share, part := check.Limit.Share(f.replicas), Settlement{}
	if more > 0 {
		part.Check, part.Cost = checkOf(check.Key, share, 0), (more-1)/f.replicas+1
	} else {
		part.Check = checkOf(check.Key, share, -more/f.replicas)
	}
	_ = f.memory.Settle(context.Background(), []Settlement{part}) // a memory that is full has forgotten others, too
}

// correctSeen corrects what was seen last of a key, and reports whether anything was.
func (f *Fallback) correctSeen(check *Check, more int, now int64) (seen bool) {
	f.seen.ComputeIfPresent(check.stateKey(), func(s sight) (sight, otter.ComputeOp) {
		seen = true
		used := min(s.usedAt(now, check.Limit.spec.Algorithm)+more, check.Limit.Capacity())
		if used <= 0 {
			return sight{}, otter.InvalidateOp
		}
		return s.corrected(used, now, &check.Limit), otter.WriteOp
	})
	return seen
}

// Decide decides checks as a [Store] does, each under this process's share of its
// limit. The decisions are marked as Degraded, and are about the limits that were
// asked, but their numbers are the share's. A cost that exceeds the share, but not the
// limit, passes when the share is full. Shadow checks are not decided, and have nothing
// but their Limit. [Unlimited] allows everything, and is not marked.
func (f *Fallback) Decide(ctx context.Context, checks []Check, decisions []Decision) error {
	return limitedPartOf(checks).decide(ctx, f.shares, decisions, nil)
}

// Peek is Decide that charges nothing: Remaining is what is left of the share now.
func (f *Fallback) Peek(ctx context.Context, checks []Check, decisions []Decision) error {
	return limitedPartOf(conditions(checks)).decide(ctx, f.shares, decisions, nil)
}

// Reserve is Decide for what has a cost that is known only later, or that may not
// happen after all: see [Limiter.Reserve]. What is settled is settled in this process.
func (f *Fallback) Reserve(ctx context.Context, checks ...Check) (*Reservation, error) {
	return f.limiter.Reserve(ctx, checks...)
}

// share returns a check about this process's share. A cost that exceeds it takes all of
// it.
func (f *Fallback) share(check Check) Check {
	share := check.Limit.Share(f.replicas)
	if check.Cost <= check.Limit.Capacity() {
		check.Cost = min(check.Cost, share.Capacity())
	}
	check.Limit = share
	return check
}

// shares is the memory of a fallback as a store that is asked about limits and answers for its shares of
// them.
type shares struct {
	*Memory

	of *Fallback
}

// Decide decides the first of some calls.
func (s *shares) Decide(ctx context.Context, calls []Call) (answered int, err error) {
	asked, f := &calls[0], s.of
	own, places := Call{Times: asked.Times}, make([]int, 0, len(asked.Checks))
	for i, check := range asked.Checks {
		asked.Decisions[i] = Decision{Limit: check.Limit, Degraded: true}
		if check.Shadow {
			continue
		}
		if err := check.Limit.Validate(); err != nil {
			return 0, err
		}
		share := f.share(check)
		if err := share.Limit.Validate(); err != nil {
			return 0, err
		}
		own.Checks, places = append(own.Checks, share), append(places, i)
	}
	if len(own.Checks) == 0 {
		return 1, nil
	}
	own.Decisions, own.Receipts = make([]Decision, len(places)), make([]Receipt, len(places))
	unlock, err := f.begin(ctx, asked.Checks, own.Checks, places)
	lone := []Call{own}
	if err == nil {
		_, err = s.Memory.Decide(ctx, lone)
	}
	unlock()
	if err != nil {
		return 0, err
	}
	asked.Granted = lone[0].Granted
	for i, place := range places {
		d := own.Decisions[i]
		d.Limit, d.Degraded = asked.Checks[place].Limit, true
		asked.Decisions[place] = d
		if asked.Receipts != nil {
			asked.Receipts[place] = own.Receipts[i]
		}
	}
	return 1, nil
}

func (s *shares) Settle(ctx context.Context, settlements []Settlement) error {
	own := make([]Settlement, len(settlements))
	for i, one := range settlements {
		one.Check = s.of.share(one.Check)
		own[i] = one
	}
	s.of.deciding.RLock()
	defer s.of.deciding.RUnlock()
	return s.Memory.Settle(ctx, own)
}

// begin starts the keys of checks from what has been seen last of them, where that is later
// than what this process has decided about them itself. Nobody else starts a key until unlock
// is called.
func (f *Fallback) begin(ctx context.Context, checks, shares []Check, places []int) (unlock func(), err error) {
	f.deciding.RLock()
	if !f.hasSeen(checks, places) {
		return f.deciding.RUnlock, nil
	}
	f.deciding.RUnlock()
	f.deciding.Lock()
	for i, place := range places {
		if err := f.takeOver(ctx, &checks[place], shares[i].Limit); err != nil {
			return f.deciding.Unlock, err
		}
	}
	return f.deciding.Unlock, nil
}

// hasSeen reports whether anything has been seen of a check that this process has not gone on from.
func (f *Fallback) hasSeen(checks []Check, places []int) bool {
	for _, place := range places {
		if _, ok := f.seen.GetIfPresent(checks[place].stateKey()); ok {
			return true
		}
	}
	return false
}

// takeOver starts a key in the memory from what has been seen of it, which is kept if that
// fails. Nobody else decides meanwhile.
func (f *Fallback) takeOver(ctx context.Context, check *Check, share Limit) (err error) {
	key := check.stateKey()
	seen, ok := f.seen.Invalidate(key)
	if !ok {
		return nil
	}
	defer func() {
		if err != nil {
			key.Subject = strings.Clone(key.Subject)
			f.seen.SetIfAbsent(key, seen) // unless a store has said more since
		}
	}()
	if err := f.memory.Reset(ctx, check.Key, []Limit{share}); err != nil {
		return err
	}
	used := seen.usedAt(f.clock(), share.spec.Algorithm)
	if used == 0 {
		return nil
	}
	cost := min((used-1)/f.replicas+1, share.Capacity())
	return decideAlone(ctx, f.memory, []Check{{Key: check.Key, Limit: share, Cost: cost}}, make([]Decision, 1), nil)
}

// usedAt returns what is still used at a later moment, rounded up. A meter drains
// evenly; of a window it is not known, so all of it counts until its end.
func (s *sight) usedAt(now int64, a exact.Algorithm) int {
	left := s.reset - now
	switch {
	case left <= 0:
		return 0
	case a.Windowed() || now <= s.at:
		return s.used
	}
	high, low := bits.Mul64(uint64(s.used), uint64(left))
	used, rest := bits.Div64(high, low, uint64(s.reset-s.at))
	if rest > 0 {
		used++
	}
	return int(used)
}

// corrected returns what has been seen of a key once so much is used now. A meter drains
// at its pace from there; a window closes when it was to.
func (s *sight) corrected(used int, now int64, l *Limit) sight {
	reset := s.reset
	if !l.spec.Algorithm.Windowed() {
		reset = now + l.spec.Reset(l.spec.Charged(exact.Usage{}, used))
	}
	return sight{used: used, at: now, reset: reset}
}
