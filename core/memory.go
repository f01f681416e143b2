package core

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Memory is a [Store] inside this process: for servers that run alone, for tests,
// and wherever a Redis server is more than the task needs. It gives the same
// answers as [Redis], decision for decision.
//
// It holds a bounded number of keys ([WithMaxKeys]). A key that is as good as new
// vanishes by itself. At the bound a new key takes the place of the one that
// would vanish soonest among those that admit requests, which then starts anew; a
// key that still refuses one unit is never given up. If none is found to give up
// among 128, the question is an error.
//
// Its clock starts with the system's and then only moves forward.
type Memory struct {
	maxKeys int
	clock   clock
	slack   int64 // microseconds that a key outlives its recovery

	seed   maphash.Seed
	shards []shard
	bound  int // keys in each shard
	closed atomic.Bool
}

// shard holds a part of the keys under a lock of its own.
type shard struct {
	mu      sync.Mutex
	entries map[entryKey]*entry
	leaving departures
}

// entryKey tells a state from all others.
type entryKey struct {
	key      string
	identity Limit
	shadow   bool
}

// entry is a state on its way out.
type entry struct {
	key   entryKey
	limit Limit // the numbers that wrote the state
	state state
	full  int64 // when the state is as good as new
	place int   // in the shard's departures
}

const (
	defaultMaxKeys = 1 << 20
	mostShards     = 64
	// leastShardKeys keeps the shards of a small store large enough to fill evenly.
	leastShardKeys = 1024
	// mostForgotten bounds how long a question is held up by keys that vanish.
	mostForgotten = 64
	// mostSpared bounds the search for a key that can be given up, among the soonest
	// and then among the others.
	mostSpared = 64
)

// NewMemory returns an empty store. It starts no goroutine.
func NewMemory(options ...MemoryOption) *Memory {
	m := &Memory{maxKeys: defaultMaxKeys, clock: forwardClock(), seed: maphash.MakeSeed()}
	for _, option := range options {
		option.applyMemory(m)
	}
	m.shards = make([]shard, max(1, min(mostShards, m.maxKeys/leastShardKeys)))
	m.bound = (m.maxKeys + len(m.shards) - 1) / len(m.shards)
	for i := range m.shards {
		m.shards[i].entries = make(map[entryKey]*entry)
	}
	return m
}

// forwardClock returns a clock that agrees with the system's now and follows its
// monotonic reading.
func forwardClock() clock {
	start := time.Now()
	return func() int64 { return start.UnixMicro() + time.Since(start).Microseconds() }
}

var errClosed = errors.New("core: the store is closed")

// Decide implements [Store].
func (m *Memory) Decide(ctx context.Context, checks []Check, decisions []Decision) error {
	return m.ask(ctx, checks, decisions, false)
}

// Peek implements [Store].
func (m *Memory) Peek(ctx context.Context, checks []Check, decisions []Decision) error {
	return m.ask(ctx, checks, decisions, true)
}

func (m *Memory) ask(ctx context.Context, checks []Check, decisions []Decision, peek bool) error {
	if err := m.ready(ctx); err != nil {
		return err
	}
	unlock := m.lock(checks)
	defer unlock()
	now := m.clock()
	q := newQuestion(checks, peek)
	defer q.free()
	for _, group := range q.groups {
		err := m.decide(group, now)
		if err != nil && !group[0].check.Shadow { // a shadow check goes uncharged
			return err
		}
		answer(group, decisions, peek)
	}
	return nil
}

func (m *Memory) ready(ctx context.Context) error {
	if m.closed.Load() {
		return errClosed
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("core: %w", context.Cause(ctx))
	}
	return nil
}

// lock locks the shards of the checks' keys, in order, and returns what unlocks
// them.
func (m *Memory) lock(checks []Check) (unlock func()) {
	if len(checks) == 1 {
		s := m.shard(checks[0].Key)
		s.mu.Lock()
		return s.mu.Unlock
	}
	places := make([]int, len(checks))
	for i := range checks {
		places[i] = m.place(checks[i].Key)
	}
	slices.Sort(places)
	places = slices.Compact(places)
	for _, place := range places {
		m.shards[place].mu.Lock()
	}
	return func() {
		for _, place := range places {
			m.shards[place].mu.Unlock()
		}
	}
}

func (m *Memory) place(key string) int {
	return int(maphash.String(m.seed, key) % uint64(len(m.shards)))
}

func (m *Memory) shard(key string) *shard { return &m.shards[m.place(key)] }

// decide observes and then writes the states of a group, as the scripts do. The
// shards are locked.
func (m *Memory) decide(group []ask, now int64) error {
	var repairs uint64 // a bit for each ask, as far as there are bits
	for i := range group {
		a := &group[i]
		s := m.shard(a.check.Key)
		s.forget(now - m.slack)
		var seen state
		if e := s.entries[a.entryKey()]; e != nil {
			seen = e.state
		}
		l := &a.check.Limit
		var repair bool
		if a.usage, repair = l.algorithm.arithmetic().observe(l, &seen, now, a.cost); repair {
			repairs |= 1 << min(i, 63)
		}
	}
	if passed(group) {
		if err := m.makeRoom(group, now); err != nil {
			return err
		}
		for i := range group {
			if a := &group[i]; a.charge {
				m.write(a, now, a.cost)
			}
		}
		return nil
	}
	for i := range group {
		if a := &group[i]; a.charge && a.usage[0]+a.usage[1] > 0 && repairs&(1<<min(i, 63)) != 0 {
			m.write(a, now, 0)
		}
	}
	return nil
}

// makeRoom gives keys up where the charges of a group would add more than fit,
// but none of the group's own. It fails before anything has been written.
func (m *Memory) makeRoom(group []ask, now int64) error {
	added := make(map[*shard]int)
	for i := range group {
		a := &group[i]
		s := m.shard(a.check.Key)
		if !a.charge || s.entries[a.entryKey()] != nil {
			continue
		}
		added[s]++
		if len(s.entries)+added[s] > m.bound && !s.giveUp(now, group) {
			return fmt.Errorf("core: the memory store is at its bound of %d keys, and found none to give up: they still refuse", m.maxKeys)
		}
	}
	return nil
}

func (a *ask) entryKey() entryKey {
	return entryKey{key: a.check.Key, identity: a.check.Limit.identity(), shadow: a.check.Shadow}
}

// write stores a state as of now with cost charged. The shard is locked.
func (m *Memory) write(a *ask, now int64, cost int) {
	s, key, l := m.shard(a.check.Key), a.entryKey(), &a.check.Limit
	arithmetic := l.algorithm.arithmetic()
	e := s.entries[key]
	if e == nil {
		e = &entry{key: key}
		s.entries[key] = e
		heap.Push(&s.leaving, e)
	}
	e.limit = *l
	arithmetic.store(l, &e.state, a.usage, now, cost)
	e.full = now + arithmetic.reset(l, arithmetic.charged(l, a.usage, cost))
	heap.Fix(&s.leaving, e.place)
}

// forget drops keys that were as good as new at an instant, some at a time.
func (s *shard) forget(now int64) {
	for range mostForgotten {
		if len(s.leaving) == 0 || s.leaving[0].full > now {
			return
		}
		s.remove(s.leaving[0])
	}
}

// giveUp drops the key that would vanish soonest among those that still admit a
// unit, and reports whether it found one. Departures are ordered as a heap, so
// the search runs over the soonest in about that order, then over some others, and
// not for ever. The keys of the question at hand are spared.
func (s *shard) giveUp(now int64, spared []ask) bool {
	for i := range 2*mostSpared + len(spared) {
		if i >= len(s.leaving) {
			break
		}
		if i >= mostSpared+len(spared) { // many refuse: look elsewhere
			i = rand.IntN(len(s.leaving))
		}
		e := s.leaving[i]
		if slices.ContainsFunc(spared, func(a ask) bool { return a.entryKey() == e.key }) {
			continue
		}
		arithmetic := e.limit.algorithm.arithmetic()
		if u, _ := arithmetic.observe(&e.limit, &e.state, now, 1); arithmetic.fits(&e.limit, u, 1) {
			s.remove(e)
			return true
		}
	}
	return false
}

func (s *shard) remove(e *entry) {
	heap.Remove(&s.leaving, e.place)
	delete(s.entries, e.key)
}

// Reset implements [Store].
func (m *Memory) Reset(ctx context.Context, key string, limits []Limit) error {
	if err := m.ready(ctx); err != nil {
		return err
	}
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range limits {
		for _, shadow := range [...]bool{false, true} {
			if e := s.entries[entryKey{key: key, identity: l.identity(), shadow: shadow}]; e != nil {
				s.remove(e)
			}
		}
	}
	return nil
}

// Len returns how many keys the store holds, each counted under each of its
// limits. Keys that are as good as new are dropped, and not counted, when another
// question comes near them.
func (m *Memory) Len() int {
	n := 0
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		n += len(s.entries)
		s.mu.Unlock()
	}
	return n
}

// Ping implements [Store]. It returns an error only after Close.
func (m *Memory) Ping(ctx context.Context) error { return m.ready(ctx) }

// Close implements [Store]. It forgets every key; questions asked afterwards are
// errors.
func (m *Memory) Close() error {
	m.closed.Store(true)
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		s.entries, s.leaving = make(map[entryKey]*entry), nil
		s.mu.Unlock()
	}
	return nil
}

// departures is a heap of entries, the one that is full again soonest first.
type departures []*entry

func (d departures) Len() int           { return len(d) }
func (d departures) Less(i, j int) bool { return d[i].full < d[j].full }

func (d departures) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i, j
}

func (d *departures) Push(x any) {
	e := x.(*entry) //nolint:forcetypeassert // the heap holds nothing else
	e.place = len(*d)
	*d = append(*d, e)
}

func (d *departures) Pop() any {
	last := len(*d) - 1
	e := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return e
}
