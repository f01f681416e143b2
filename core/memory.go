package core

import (
	"container/heap"
	"context"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
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
	closed atomic.Bool
}

// shard holds a part of the keys under a lock of its own.
type shard struct {
	mu      sync.Mutex
	entries map[exact.Key]*entry
	leaving departures
	bound   int // of entries
	pasts   exact.Pasts

	_ [128 - 8 - 8 - 24 - 8 - 48]byte // no cache line has two shards
}

// entry is a state on its way out.
type entry struct {
	subject string // of the state's key
	state   exact.State
	full    int64 // when the state is as good as new
	due     int64 // when to look whether it is: what full was, or before
	place   int   // in the shard's departures
}

const (
	defaultMaxKeys = 1 << 20
	mostShards     = 64
	// leastShardKeys keeps the shards of a small store large enough to fill evenly.
	leastShardKeys = 1024
	// mostForgotten bounds how long a question is held up by keys that vanish. It adds
	// one key for each check at most.
	mostForgotten = 2
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
	for i := range m.shards {
		m.shards[i].bound = (m.maxKeys + i) / len(m.shards) // in all, maxKeys
		m.shards[i].entries = make(map[exact.Key]*entry)
		m.shards[i].pasts = exact.NewPasts(m.shards[i].bound, m.slack)
	}
	return m
}

// forwardClock returns a clock that agrees with the system's now and follows its
// monotonic reading.
func forwardClock() clock {
	start := time.Now()
	began := start.UnixMicro()
	return func() int64 { return began + time.Since(start).Microseconds() }
}

// Decide implements [Store].
func (m *Memory) Decide(ctx context.Context, checks []Check, decisions []Decision) error {
	return m.ask(ctx, checks, decisions, nil, false)
}

// Reserve implements [Store].
func (m *Memory) Reserve(ctx context.Context, checks []Check, decisions []Decision, moments []Moment) error {
	return m.ask(ctx, checks, decisions, moments, false)
}

// Peek implements [Store].
func (m *Memory) Peek(ctx context.Context, checks []Check, decisions []Decision) error {
	return m.ask(ctx, checks, decisions, nil, true)
}

func (m *Memory) ask(ctx context.Context, checks []Check, decisions []Decision, moments []Moment, peek bool) error {
	if err := m.ready(ctx); err != nil {
		return err
	}
	if len(checks) == 1 {
		return m.askOne(&checks[0], decisions, moments, peek)
	}
	q := newQuestion(checks, peek)
	defer q.free()
	for i := range q.asks {
		a := &q.asks[i]
		a.shard = m.place(a.check.Key)
	}
	defer m.unlock(m.lock(q.asks))
	return m.answer(q.groups, q.asks, decisions, moments, peek)
}

// askOne is ask for a question of one check, which needs no order of locks, and no
// memory of its own.
func (m *Memory) askOne(check *Check, decisions []Decision, moments []Moment, peek bool) error {
	asks := [1]ask{newAsk(check, 0, peek)}
	asks[0].shard = m.place(check.Key)
	s := &m.shards[asks[0].shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.answer([][]ask{asks[:]}, asks[:], decisions, moments, peek)
}

// answer decides the groups of a question, whose shards are locked.
func (m *Memory) answer(groups [][]ask, asks []ask, decisions []Decision, moments []Moment, peek bool) error {
	now := m.clock()
	if moments != nil {
		for i := range asks {
			a := &asks[i]
			moments[a.index] = Moment{At: now, Order: m.shards[a.shard].pasts.Order()}
		}
	}
	for _, group := range groups {
		pass, err := m.decide(group, asks, decisions, now, peek)
		if err != nil && !group[0].check.Shadow {
			return err
		}
		if err != nil { // nothing was charged, and the other checks do not depend on it
			group[0].unanswered = true
			group[0].decide(false, peek, &decisions[group[0].index])
			continue
		}
		if moments != nil {
			charged(group, pass, moments)
		}
	}
	return nil
}

func (m *Memory) ready(ctx context.Context) error {
	if m.closed.Load() {
		return errClosed
	}
	if err := ctx.Err(); err != nil {
		return unsent(GivenUp, "core: the call was given up: %w", context.Cause(ctx))
	}
	return nil
}

// lock locks the shards of asks, in order, and returns which those are.
func (m *Memory) lock(asks []ask) (places []int) {
	places = make([]int, len(asks))
	for i := range asks {
		places[i] = asks[i].shard
	}
	slices.Sort(places)
	places = slices.Compact(places)
	for _, place := range places {
		m.shards[place].mu.Lock()
	}
	return places
}

func (m *Memory) unlock(places []int) {
	for _, place := range places {
		m.shards[place].mu.Unlock()
	}
}

func (m *Memory) place(key string) int {
	return int(maphash.String(m.seed, key) % uint64(len(m.shards)))
}

// fresh is the state of a key that is not there. Nobody writes it.
var fresh exact.State

// decide observes, answers and then writes the states of a group, as the scripts do, and
// reports whether it passes. The keys of all asks of the question are spared when room
// has to be made. The shards are locked.
func (m *Memory) decide(group, asks []ask, decisions []Decision, now int64, peek bool) (pass bool, err error) {
	for i := range group {
		m.shards[group[i].shard].forget(now - m.slack)
	}
	var repairs uint64 // a bit for each ask, as far as there are bits
	for i := range group {
		a := &group[i]
		seen := &fresh
		if a.entry = m.shards[a.shard].entries[a.check.stateKey()]; a.entry != nil {
			seen = &a.entry.state
		}
		var repair bool
		if a.usage, repair = a.check.Limit.spec.Observe(seen, now, a.cost); repair {
			repairs |= 1 << min(i, 63)
		}
	}
	pass = passed(group)
	answer(group, decisions, pass, peek)
	if pass {
		if err := m.makeRoom(group, asks, now); err != nil {
			return true, err
		}
	}
	for i := range group {
		a, cost := &group[i], 0
		switch {
		case !a.charge:
			continue
		case pass:
			cost = a.cost
		case a.usage.Unused() || repairs&(1<<min(i, 63)) == 0:
			a.keep(now + decisions[a.index].ResetAfter.Microseconds())
			continue
		}
		m.write(a, now, cost, now+decisions[a.index].ResetAfter.Microseconds())
	}
	return pass, nil
}

// keep has a key stay until an instant at least, if it is there: denials count on in a log whose
// window has become longer, as they have been told.
func (a *ask) keep(until int64) {
	if a.entry != nil {
		a.entry.full = max(a.entry.full, until)
	}
}

// makeRoom gives keys up where the charges of a group would add more than fit,
// but none that the question asks about. It fails before anything has been written.
func (m *Memory) makeRoom(group, asks []ask, now int64) error {
	for i := range group {
		a := &group[i]
		if !a.charge || a.entry != nil {
			continue
		}
		s, added := &m.shards[a.shard], 1
		for j := range group[:i] {
			if b := &group[j]; b.charge && b.entry == nil && b.shard == a.shard {
				added++
			}
		}
		if len(s.entries)+added > s.bound && !s.giveUp(now, asks) {
			return unsent(Full, "core: the memory store is at its bound of %d keys, and found none to give up: they still refuse", m.maxKeys)
		}
	}
	return nil
}

// write stores a state as of now with cost charged, from which it will have recovered
// at full. The shard is locked.
func (m *Memory) write(a *ask, now int64, cost int, full int64) {
	s := &m.shards[a.shard]
	e, added := a.entry, a.entry == nil
	if added {
		key := a.check.stateKey()
		key.Subject = strings.Clone(key.Subject) // it may be a part of a whole request
		e = &entry{subject: key.Subject}
		s.entries[key] = e
	}
	a.check.spec().Store(&e.state, a.usage, now, cost)
	e.full = full
	switch {
	case added:
		e.due = e.full
		heap.Push(&s.leaving, e)
	case e.full < e.due: // a named limit has become shorter
		e.due = e.full
		heap.Fix(&s.leaving, e.place)
	}
}

// forget drops keys that were as good as new at an instant, some at a time. Keys
// that have been used since they were last looked at are put where they belong now,
// so that to use a key does not move it.
func (s *shard) forget(now int64) {
	for range mostForgotten {
		if len(s.leaving) == 0 || s.leaving[0].due > now {
			return
		}
		if e := s.leaving[0]; e.full > now {
			e.due = e.full
			heap.Fix(&s.leaving, 0)
		} else {
			s.remove(e)
		}
	}
}

// giveUp drops a key that still admits a unit, and reports whether it found one: of
// those that it looks at first, the one that would vanish soonest. Departures are
// ordered as a heap, so these are about the soonest of all; if they all refuse, it looks
// at some others, and not for ever. The keys of the question at hand are spared.
func (s *shard) giveUp(now int64, spared []ask) bool {
	if len(s.leaving) == 0 {
		return false
	}
	for range mostSpared { // keys that have been used since stand too far in front
		e := s.leaving[0]
		if e.due == e.full {
			break
		}
		e.due = e.full
		heap.Fix(&s.leaving, 0)
	}
	var soonest *entry
	for _, e := range s.leaving[:min(len(s.leaving), mostSpared+len(spared))] {
		if (soonest == nil || e.full < soonest.full) && e.givesWay(now, spared) {
			soonest = e
		}
	}
	for range mostSpared {
		if soonest != nil {
			s.remove(soonest)
			return true
		}
		if e := s.leaving[rand.IntN(len(s.leaving))]; e.givesWay(now, spared) {
			soonest = e
		}
	}
	return false
}

// givesWay reports whether a key may be given up.
func (e *entry) givesWay(now int64, spared []ask) bool {
	key, spec := e.key(), e.state.Spec()
	if slices.ContainsFunc(spared, func(a ask) bool { return a.check.stateKey() == key }) {
		return false
	}
	u, _ := spec.Observe(&e.state, now, 1)
	return spec.Fits(u, 1)
}

// key returns that of an entry's state.
func (e *entry) key() exact.Key {
	return exact.Key{Subject: e.subject, Identity: e.state.Spec().Identity()}
}

func (s *shard) remove(e *entry) {
	heap.Remove(&s.leaving, e.place)
	delete(s.entries, e.key())
}

// Reset implements [Store].
func (m *Memory) Reset(ctx context.Context, key string, limits []Limit) error {
	if err := m.ready(ctx); err != nil {
		return err
	}
	s := &m.shards[m.place(key)]
	s.mu.Lock()
	defer s.mu.Unlock()
	now := m.clock()
	for _, l := range limits {
		for _, shadow := range [...]bool{false, true} {
			c := Check{Key: key, Limit: l, Shadow: shadow}
			k := c.stateKey()
			if e := s.entries[k]; e != nil {
				s.pasts.Reset(k, now, l.spec, e.state.Spec())
				s.remove(e)
			} else if s.pasts.Has(k) {
				s.pasts.Reset(k, now, l.spec)
			}
		}
	}
	return nil
}

// Settle implements [Store]. It settles everything or, where it finds no room, nothing.
func (m *Memory) Settle(ctx context.Context, settlements []Settlement) error {
	if err := m.ready(ctx); err != nil {
		return err
	}
	list := corrections(settlements)
	asks := make([]ask, len(list))
	for i := range list {
		check := list[i].check
		asks[i] = ask{check: check, charge: true, shard: m.place(check.Key)}
	}
	defer m.unlock(m.lock(asks))
	now := m.clock()
	if err := m.makeRoom(m.added(asks, list), asks, now); err != nil {
		return err
	}
	for i := range asks {
		m.settle(&asks[i], &list[i], now)
	}
	return nil
}

// added returns those asks whose corrections add a key, once for each key. The shards are locked.
func (m *Memory) added(asks []ask, list []correction) []ask {
	var added []ask
	for i := range asks {
		key := asks[i].check.stateKey()
		if list[i].Events <= 0 || m.shards[asks[i].shard].entries[key] != nil ||
			slices.ContainsFunc(added, func(a ask) bool { return a.check.stateKey() == key }) {
			continue
		}
		added = append(added, asks[i])
	}
	return added
}

// settle carries out a correction on the state of an ask, whose shard is locked and has room.
func (m *Memory) settle(a *ask, c *correction, now int64) {
	s, key := &m.shards[a.shard], a.check.stateKey()
	e := s.entries[key]
	var before exact.State
	if e != nil {
		before = e.state
	}
	after, changed := s.pasts.Settle(key, a.check.spec(), before, &c.Correction, now)
	if !changed {
		return
	}
	if after.Blank() {
		s.remove(e)
		return
	}
	added := e == nil
	if added {
		key.Subject = strings.Clone(key.Subject)
		e = &entry{subject: key.Subject}
		s.entries[key] = e
	}
	e.state = after
	spec := after.Spec()
	u, _ := spec.Observe(&e.state, now, 0)
	e.full = now + spec.Reset(u)
	if added {
		e.due = e.full
		heap.Push(&s.leaving, e)
	} else if e.full < e.due {
		e.due = e.full
		heap.Fix(&s.leaving, e.place)
	}
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
		s.entries, s.leaving, s.pasts = make(map[exact.Key]*entry), nil, exact.NewPasts(s.bound, m.slack)
		s.mu.Unlock()
	}
	return nil
}

// departures is a heap of entries, the one that is due soonest first.
type departures []*entry

func (d departures) Len() int           { return len(d) }
func (d departures) Less(i, j int) bool { return d[i].due < d[j].due }

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
