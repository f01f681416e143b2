package core

import (
	"context"
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"
)

// Share returns the limit that one of n processes keeps when they cannot agree: a part
// of the capacity, rounded up, and of the rate. The parts of all processes together may
// be a little more than the limit, and less than what its traffic needs where that is
// spread unevenly. The name stays. Fewer than 1 process is like 1.
func (l Limit) Share(n int) Limit {
	if n <= 1 || l.Validate() != nil {
		return l
	}
	capacity := (l.capacity-1)/n + 1
	rate := Rate{Events: capacity, Period: l.rate.Period}
	if !l.algorithm.windowed() {
		high, period := bits.Mul64(uint64(l.rate.Period), uint64(n))
		if high != 0 || period > uint64(longest) {
			period = uint64(longest)
		}
		rate = Rate{Events: l.rate.Events, Period: time.Duration(period)}
	}
	return newLimit(l.algorithm, capacity, rate).Named(l.name)
}

// Fallback decides in this process while a store cannot: each process keeps its share
// of the limits, and starts from what it has seen last of a key. So an outage means
// approximately limited, where nothing is better. It is made by [NewFallback], and may
// be used by many goroutines at once.
type Fallback struct {
	replicas int
	clock    clock
	memory   *Memory
	seen     *otter.Cache[entryKey, sight]
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
		panic(fmt.Sprintf("core: a fallback for one of %d processes and %d keys makes no sense", replicas, size))
	}
	f := &Fallback{
		replicas: replicas,
		clock:    forwardClock(),
		seen: otter.Must(&otter.Options[entryKey, sight]{
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
	return f
}

// Observe tells what a store has decided.
func (f *Fallback) Observe(checks []Check, decisions []Decision) {
	now := f.clock()
	for i := range checks {
		check, d := &checks[i], &decisions[i]
		if check.Shadow || d.Degraded {
			continue
		}
		key := check.entryKey()
		used := check.Limit.capacity - d.Remaining
		if used == 0 {
			f.seen.Invalidate(key)
			continue
		}
		key.key = strings.Clone(key.key)
		f.seen.Set(key, sight{used: used, at: now, reset: now + d.ResetAfter.Microseconds()})
	}
}

// Decide decides checks as a [Store] does, each under this process's share of its
// limit. The decisions are marked as Degraded, and are about the limits that were
// asked, but their numbers are the share's. A cost that exceeds the share, but not the
// limit, passes when the share is full. Shadow checks are not decided, and have nothing
// but their Limit.
func (f *Fallback) Decide(ctx context.Context, checks []Check, decisions []Decision) error {
	shares, places := make([]Check, 0, len(checks)), make([]int, 0, len(checks))
	for i := range checks {
		check := checks[i]
		decisions[i] = Decision{Limit: check.Limit, Degraded: true}
		if check.Shadow {
			continue
		}
		share := check.Limit.Share(f.replicas)
		if check.Cost <= check.Limit.capacity {
			check.Cost = min(check.Cost, share.capacity)
		}
		if err := share.Validate(); err != nil {
			return err
		}
		if err := f.begin(ctx, &checks[i], share); err != nil {
			return err
		}
		check.Limit = share
		shares, places = append(shares, check), append(places, i)
	}
	if len(shares) == 0 {
		return nil
	}
	decided := make([]Decision, len(shares))
	if err := f.memory.Decide(ctx, shares, decided); err != nil {
		return err
	}
	for i, place := range places {
		decided[i].Limit, decided[i].Degraded = checks[place].Limit, true
		decisions[place] = decided[i]
	}
	return nil
}

// begin starts a key from what has been seen last, if that is later than what this
// process has decided about it itself.
func (f *Fallback) begin(ctx context.Context, check *Check, share Limit) error {
	seen, ok := f.seen.Invalidate(check.entryKey())
	if !ok {
		return nil
	}
	limits := []Limit{share}
	if err := f.memory.Reset(ctx, check.Key, limits); err != nil {
		return err
	}
	used := seen.usedAt(f.clock(), share.algorithm)
	if used == 0 {
		return nil
	}
	cost := min((used-1)/f.replicas+1, share.capacity)
	return f.memory.Decide(ctx, []Check{{Key: check.Key, Limit: share, Cost: cost}}, make([]Decision, 1))
}

// usedAt returns what is still used at a later moment, rounded up. A meter drains
// evenly; of a window it is not known, so all of it counts until its end.
func (s *sight) usedAt(now int64, a algorithm) int {
	left := s.reset - now
	switch {
	case left <= 0:
		return 0
	case a.windowed() || now <= s.at:
		return s.used
	}
	high, low := bits.Mul64(uint64(s.used), uint64(left))
	used, rest := bits.Div64(high, low, uint64(s.reset-s.at))
	if rest > 0 {
		used++
	}
	return int(used)
}
