// Package fallback decides in this process while the store cannot: it keeps the process's share of each limit.
package fallback

import (
	"context"
	"crypto/sha256"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/bounded"
	"github.com/weir-go/ratelimit/internal/unexported"
)

// Fallback decides in this process while the store cannot. It keeps this process's share of each limit. A
// key starts from its snapshot, the last answer of the store. [New] makes a Fallback, which may be
// used by many goroutines at once.
type Fallback struct {
	replicas  int                  // processes that share the limits
	clock     func() time.Duration // since some instant
	snapshots *bounded.Map[stateKey, snapshot]
	own       *core.Limiter // asked about shares
	limiter   *core.Limiter // asked about limits, of which it decides about the shares

	// starting is locked while a key starts from its snapshot, so that no call decides about a key
	// that has started in part. Calls that start no key lock it for reading.
	starting sync.RWMutex
}

// snapshot is the last answer of the store about a key under a limit.
type snapshot struct {
	used   int           // how many units
	at     time.Duration // as of when, on the fallback's clock
	reset  time.Duration // when nothing would be used any more
	closes bool          // all that is used counts until then, as in a window; else it drains evenly
}

// New returns the fallback of one of a number of processes that share the traffic about
// evenly. It keeps up to size snapshots, at about 120 bytes each, and decides about as many keys. The
// options are those of its memory, for tests.
func New(replicas, size int, options ...core.Option) *Fallback {
	start := time.Now()
	f := &Fallback{
		replicas:  replicas,
		clock:     func() time.Duration { return time.Since(start) },
		snapshots: bounded.New[stateKey, snapshot](size),
	}
	memory := core.NewMemory(append(options, core.WithMaxKeys(size))...)
	f.own, f.limiter = core.New(memory), core.New(&shares{Store: memory, of: f})
	return f
}

// Observe tells the decisions of the store.
func (f *Fallback) Observe(checks []core.Check, decisions []core.Decision) {
	now := f.clock()
	for i := range checks {
		check, d := &checks[i], &decisions[i]
		quota, closes, counts := countedBy(check)
		if !counts || isToldBeside(checks, i) || d.Degraded {
			continue
		}
		key := stateKeyOf(check.Key, check.Limit)
		if d.Remaining == check.Limit.Capacity() {
			f.snapshots.Delete(key)
			continue
		}
		f.snapshots.Set(key.kept(), snapshotOf(quota, closes, d, now))
	}
}

// countedBy returns the quota of a check with a state that can be told from its decision, and whether its units count until a window
// closes. It is not known when places are given back, nor how a tenant's share shrinks.
func countedBy(check *core.Check) (quota core.Quota, closes, known bool) {
	quota, counts := check.Limit.(core.Quota)
	traits := unexported.TraitsOf(quota)
	return quota, traits.Windowed, counts && !check.Shadow && quota != core.Unlimited && !traits.Shares
}

// isToldBeside reports whether a check is a condition about a state that another check of the call charges: its
// Remaining is older than that charge.
func isToldBeside(checks []core.Check, place int) bool {
	c := &checks[place]
	return c.Mode == core.Condition && slices.ContainsFunc(checks, func(other core.Check) bool {
		return other.Mode != core.Condition && c.Key == other.Key && c.Limit.Identity() == other.Limit.Identity()
	})
}

// ObserveSettled tells the real costs of the checks of a reservation. ago is the time since the store has decided it
// and Observe was told. It does not matter whether the store could settle it. No more is given
// back of a charge than is left of it. Conditions are left alone, since they were not charged.
func (f *Fallback) ObserveSettled(ctx context.Context, r *core.Reservation, checks []core.Check, ago time.Duration, costs []int) {
	if !r.Allowed() {
		return
	}
	now, decisions := f.clock(), r.Decisions()
	for i, cost := range costs {
		check := &checks[i]
		quota, closes, counts := countedBy(check)
		if !counts || check.Mode == core.Condition || decisions[i].Waived {
			continue
		}
		then := snapshotOf(quota, closes, &decisions[i], now-ago)
		left := then.usedAt(now)
		more := min(cost, quota.Capacity()) - check.Units()
		closed := left == 0 && then.used > 0 && then.closes // the window that was charged
		if more < 0 || more > 0 && !closed {
			f.correct(ctx, check.Key, quota, max(more, -left), now)
		}
	}
}

// ObserveCharged tells that a key was charged n units more: [core.Limiter.Charge].
func (f *Fallback) ObserveCharged(ctx context.Context, key string, limit core.Limit, n int) {
	if quota, counts := limit.(core.Quota); counts && quota != core.Unlimited {
		f.correct(ctx, key, quota, min(n, quota.Capacity()), f.clock())
	}
}

// correct charges a key more units, or gives units back if more is negative: in its snapshot, or if it
// has none, a part of them in this process's share.
func (f *Fallback) correct(ctx context.Context, key string, limit core.Quota, more int, now time.Duration) {
	if f.correctSnapshot(key, limit, more, now) {
		return
	}
	f.starting.RLock() // by now the key has started, or it is not known
	defer f.starting.RUnlock()
	if f.correctSnapshot(key, limit, more, now) {
		return
	}
	ctx, share := context.WithoutCancel(ctx), limit.Share(f.replicas) // the cost is a fact
	if more > 0 {                                                     // an error means that there is no room for the key
		_, _ = f.own.Charge(ctx, key, share, (more-1)/f.replicas+1)
	} else {
		_, _ = f.own.Refund(ctx, key, share, -more/f.replicas)
	}
}

// correctSnapshot corrects the snapshot of a key, and reports whether there is one.
func (f *Fallback) correctSnapshot(key string, limit core.Quota, more int, now time.Duration) (found bool) {
	f.snapshots.Update(stateKeyOf(key, limit).kept(), func(s snapshot, ok bool) (snapshot, bool) {
		if found = ok; !ok {
			return snapshot{}, false
		}
		used := min(s.usedAt(now)+more, limit.Capacity())
		if used <= 0 {
			return snapshot{}, false
		}
		return s.corrected(used, now, limit), true
	})
	return found
}

// Reserve decides checks as [core.Limiter.Reserve] does, each under this process's share of its limit.
// The decisions are marked as Degraded, and are about the limits that were asked, but their numbers
// are the share's. A cost that exceeds the share, but not the limit, passes when the share is full.
// Shadow checks are not decided, and have nothing but their Limit. [core.Unlimited] allows
// everything, and is not marked. The reservation is settled in this process.
func (f *Fallback) Reserve(ctx context.Context, checks ...core.Check) (*core.Reservation, error) {
	return f.limiter.Reserve(ctx, checks...)
}

// Peek is Reserve that charges nothing: Remaining is of the share now.
func (f *Fallback) Peek(ctx context.Context, checks ...core.Check) ([]core.Decision, error) {
	return f.limiter.PeekAll(ctx, checks...)
}

// share returns a check about this process's share. A cost that exceeds the share takes all of it. A
// headroom shrinks with the limit, rounded up, but leaves room for a cost that fits in the limit beside it.
func (f *Fallback) share(check core.Check) core.Check {
	share, capacity := ShareOf(check.Limit, f.replicas), check.Limit.Capacity()
	fits := check.Headroom <= capacity-check.Units()
	if check.Cost <= capacity {
		check.Cost = min(check.Cost, share.Capacity())
	}
	if check.Headroom > 0 {
		check.Headroom = (check.Headroom-1)/f.replicas + 1
		if fits {
			check.Headroom = min(check.Headroom, share.Capacity()-check.Units())
		}
	}
	check.Limit = share
	return check
}

// ShareOf returns the share of a limit that one of several processes has. That of a ban is all of it.
func ShareOf(limit core.Limit, replicas int) core.Limit {
	switch limit := limit.(type) {
	case core.Quota:
		return limit.Share(replicas)
	case core.Places:
		return limit.Share(replicas)
	}
	return limit
}

// shares is the memory of a fallback as a store: asked about limits, it decides about their shares.
type shares struct {
	core.Store

	of *Fallback
}

// Decide decides the first of some calls.
func (s *shares) Decide(ctx context.Context, calls []core.Call) (answered int, err error) {
	asked, f := &calls[0], s.of
	own, places := core.Call{Times: asked.Times}, make([]int, 0, len(asked.Checks))
	for i, check := range asked.Checks {
		asked.Decisions[i] = core.Decision{Limit: check.Limit, Degraded: true}
		if check.Shadow {
			continue
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
	own.Decisions, own.Receipts = make([]core.Decision, len(places)), make([]core.Receipt, len(places))
	unlock, err := f.start(ctx, asked.Checks, own.Checks, places)
	lone := []core.Call{own}
	if err == nil {
		_, err = s.Store.Decide(ctx, lone)
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

// Settle settles the shares of the charges.
func (s *shares) Settle(ctx context.Context, settlements []core.Settlement) error {
	own := make([]core.Settlement, len(settlements))
	for i, one := range settlements {
		one.Check = s.of.share(one.Check)
		own[i] = one
	}
	s.of.starting.RLock()
	defer s.of.starting.RUnlock()
	err := s.Store.Settle(ctx, own)
	for i := range own {
		settlements[i].Lost = own[i].Lost
		if d := settlements[i].Decision; d != nil && err == nil {
			d.Limit, d.Degraded = settlements[i].Check.Limit, true
		}
	}
	return err
}

// start starts the keys of checks from their snapshots. A key without a snapshot goes on from the state in
// this process, since the store has said nothing since then. No other key starts
// until unlock is called.
func (f *Fallback) start(ctx context.Context, checks, shares []core.Check, places []int) (unlock func(), err error) {
	f.starting.RLock()
	if !f.hasSnapshot(checks, places) {
		return f.starting.RUnlock, nil
	}
	f.starting.RUnlock()
	f.starting.Lock()
	for i, place := range places {
		if err := f.startKey(ctx, &checks[place], shares[i].Limit); err != nil {
			return f.starting.Unlock, err
		}
	}
	return f.starting.Unlock, nil
}

// hasSnapshot reports whether one of the keys of checks has a snapshot to start from.
func (f *Fallback) hasSnapshot(checks []core.Check, places []int) bool {
	for _, place := range places {
		if _, ok := f.snapshots.Get(stateKeyOf(checks[place].Key, checks[place].Limit)); ok {
			return true
		}
	}
	return false
}

// startKey starts a key from its snapshot, if it has one. If that fails, the snapshot is kept. The lock
// must be held.
func (f *Fallback) startKey(ctx context.Context, check *core.Check, share core.Limit) (err error) {
	quota, counts := share.(core.Quota)
	if !counts {
		return nil
	}
	key := stateKeyOf(check.Key, check.Limit)
	last, ok := f.snapshots.Delete(key)
	if !ok {
		return nil
	}
	defer func() {
		if err != nil {
			f.snapshots.Update(key.kept(), func(later snapshot, ok bool) (snapshot, bool) {
				if ok { // the store has said more since
					return later, true
				}
				return last, true
			})
		}
	}()
	if err := f.own.Reset(ctx, check.Key, quota); err != nil {
		return err
	}
	used := last.usedAt(f.clock())
	if used == 0 {
		return nil
	}
	_, err = f.own.AllowN(ctx, check.Key, quota, min((used-1)/f.replicas+1, quota.Capacity()))
	return err
}

// snapshotOf returns the snapshot of a decision about a limit, which was made at an instant.
func snapshotOf(limit core.Quota, closes bool, d *core.Decision, at time.Duration) snapshot {
	return snapshot{used: limit.Capacity() - d.Remaining, at: at, reset: at + d.ResetAfter, closes: closes}
}

// usedAt returns the units still used at a later instant, rounded up. A meter drains evenly. All of a
// window counts until its end, since it is not known when its units were used.
func (s *snapshot) usedAt(now time.Duration) int {
	left := s.reset - now
	switch {
	case left <= 0:
		return 0
	case s.closes || now <= s.at:
		return s.used
	}
	return divideUp(s.used, left, s.reset-s.at)
}

// corrected returns the snapshot with another number of units used. A meter drains them at its pace
// from now on. A window closes when it was to.
func (s *snapshot) corrected(used int, now time.Duration, limit core.Quota) snapshot {
	reset := s.reset
	if !s.closes {
		pace := limit.Rate()
		reset = now + time.Duration(divideUp(used, pace.Period, time.Duration(pace.Events)))
	}
	return snapshot{used: used, at: now, reset: reset, closes: s.closes}
}

// divideUp returns units·part/whole, rounded up. It has to be less than 2^63.
func divideUp(units int, part, whole time.Duration) int {
	high, low := bits.Mul64(uint64(units), uint64(part))
	quotient, rest := bits.Div64(high, low, uint64(whole))
	if rest > 0 {
		quotient++
	}
	return int(quotient)
}

// stateKey tells the states of keys apart.
type stateKey struct {
	subject string     // the caller's key, or the hash of a long one
	limit   core.Limit // its identity
}

// longestSubject is the longest key that is kept as it is, in bytes.
const longestSubject = 96

// stateKeyOf returns the key of the state that a caller's key has under a limit. It may be a part of
// the caller's key, and serves to look up: see kept.
func stateKeyOf(key string, limit core.Limit) stateKey {
	if len(key) > longestSubject {
		sum := sha256.Sum256([]byte(key))
		key = key[:longestSubject+1-len(sum)] + string(sum[:]) // longer than any key that stands for itself
	}
	return stateKey{subject: key, limit: limit.Identity()}
}

// kept returns a key with a copy of the caller's, which may be a part of a whole request.
func (k stateKey) kept() stateKey {
	k.subject = strings.Clone(k.subject)
	return k
}
