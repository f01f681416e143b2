// Package memory decides calls and carries out corrections on states inside this process.
package memory

import (
	"context"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Config says how a store works. All fields but Slack are needed.
type Config struct {
	// MaxKeys bounds how many keys the store holds.
	MaxKeys int
	// Clock returns the time in microseconds since 1970.
	Clock func() int64
	// Slack is how many microseconds a key outlives its recovery.
	Slack int64
}

// Store is a store in this process. It is made by [New], and may be used by many goroutines at once.
type Store struct {
	Config

	seed   maphash.Seed
	shards []shard
	closed atomic.Bool
}

const (
	mostShards = 64
	// leastShardKeys keeps the shards of a small store large enough to fill evenly.
	leastShardKeys = 1024
)

// New returns an empty store. It starts no goroutine.
func New(config Config) *Store {
	m := &Store{Config: config, seed: maphash.MakeSeed()}
	m.shards = make([]shard, max(1, min(mostShards, m.MaxKeys/leastShardKeys)))
	for i := range m.shards {
		m.shards[i].bound = (m.MaxKeys + i) / len(m.shards) // in all, MaxKeys
		m.shards[i].empty(m.seed, m.Slack)
	}
	return m
}

// place is where the state of a check is.
type place struct {
	shard int
	entry *entry // nil: there is none
}

// Decide decides some calls, one after the other, until one is denied. It returns how many it has
// answered. A call that fails ends the list; its error is that of the first call alone.
func (m *Store) Decide(ctx context.Context, calls []*call.Call) (answered int, err error) {
	for i, c := range calls {
		if err := m.decide(ctx, c); err != nil {
			if i > 0 {
				return i, nil // granted units stay granted
			}
			return 0, err
		}
		if !c.Passed() {
			return i + 1, nil
		}
	}
	return len(calls), nil
}

func (m *Store) decide(ctx context.Context, c *call.Call) error {
	if err := m.ready(ctx); err != nil {
		return err
	}
	if rand.Uint32()%sweepEvery == 0 {
		m.sweep()
	}
	if len(c.Checks) == 1 { // it needs no order of locks, and no memory of its own
		places := [1]place{{shard: m.shardOf(c.Checks[0].Key, c.Checks[0].Spec)}}
		s := &m.shards[places[0].shard]
		s.mu.Lock()
		defer s.mu.Unlock()
		return m.answer(c, places[:])
	}
	var scratch [fewChecks]place
	places := scratch[:0]
	for i := range c.Checks {
		places = append(places, place{shard: m.shardOf(c.Checks[i].Key, c.Checks[i].Spec)})
	}
	var locked [fewChecks]int
	defer m.unlock(m.lock(places, locked[:0]))
	return m.answer(c, places)
}

// answer decides the groups of a call. Their shards are locked.
func (m *Store) answer(c *call.Call, places []place) error {
	now, ended := m.Clock(), exact.MostEnded
	first := 0
	for _, group := range c.Groups {
		err := m.decideGroup(c, group, places[first:first+len(group)], now, &ended)
		first += len(group)
		if err == nil {
			continue
		}
		if !group[0].Shadow() {
			return err
		}
		for i := range group {
			group[i].Unanswered = true // nothing was charged, and the other checks do not depend on it
		}
	}
	return nil
}

// sweep forgets keys of some shard, so that keys in unused shards are forgotten, too. It does not wait for a lock.
func (m *Store) sweep() {
	s := &m.shards[rand.IntN(len(m.shards))]
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	s.sweep(m.Clock() - m.Slack)
}

func (m *Store) ready(ctx context.Context) error {
	if m.closed.Load() {
		return call.ErrClosed
	}
	if ctx.Err() != nil {
		return call.Unsent(call.GivenUp, "core: the call was given up: %w", context.Cause(ctx))
	}
	return nil
}

// fewChecks is how many checks a call has at most that needs no memory of its own.
const fewChecks = 4

// lock locks the shards of places, in order, and appends them to an empty list.
func (m *Store) lock(places []place, locked []int) []int {
	for i := range places {
		locked = append(locked, places[i].shard)
	}
	slices.Sort(locked)
	locked = slices.Compact(locked)
	for _, shard := range locked {
		m.shards[shard].mu.Lock()
	}
	return locked
}

func (m *Store) unlock(locked []int) {
	for _, shard := range locked {
		m.shards[shard].mu.Unlock()
	}
}

// shardOf returns the place of the shard that has the state of a key under a spec: that of the key, so that calls lock few shards. The
// shares of a cap, which may be many, are in all shards.
func (m *Store) shardOf(key string, spec *exact.Spec) int {
	hash := maphash.String(m.seed, key)
	if spec.Shared {
		hash += maphash.String(m.seed, spec.StateName)
	}
	return int(hash % uint64(len(m.shards)))
}

// decideGroup observes, decides and then writes the states of a group, as the scripts do. When room has to be made, the
// keys of all checks of the call are spared. Up to *ended reservations that have ended are given back. The shards are
// locked.
func (m *Store) decideGroup(c *call.Call, group []call.Check, places []place, now int64, ended *int) error {
	for i := range group {
		if group[i].ReserveFor > 0 {
			m.shards[places[i].shard].giveBackEnded(group[i].StateKey(), now, ended)
		}
	}
	for i := range group {
		s := &m.shards[places[i].shard]
		places[i].entry = s.entries.get(group[i].StateKey())
		if group[i].Charged = (exact.Charge{At: now}); !group[i].Spec.Noted {
			group[i].Charged.Order = s.pasts.Order() // after the reservations that have just been given back
		}
	}
	pass := c.Resolve(group, now, func(i int) *exact.State {
		if places[i].entry == nil {
			return nil
		}
		return &places[i].entry.state
	})
	if pass {
		if err := m.makeRoom(group, places, c.Checks, now); err != nil {
			return err
		}
	}
	for i := range group {
		check, entry := &group[i], places[i].entry
		if !check.Charge && !check.Writes(pass) {
			continue
		}
		full := check.Keep(now, pass)
		if !check.Writes(pass) {
			if entry != nil { // a denial may keep a log longer: its window may have become longer
				entry.full = max(entry.full, full)
			}
			continue
		}
		s := &m.shards[places[i].shard]
		if entry == nil {
			if check.Struck && s.entries.len() >= s.bound && !s.giveUp(now, c.Checks) {
				check.Struck = false // the call is denied all the same
				continue
			}
			entry = s.add(check.StateKey())
			places[i].entry = entry
		}
		if check.Spec.Shared {
			check.WriteShare(&entry.state, &places[i-1].entry.state, now)
		} else {
			check.Write(&entry.state, now, pass)
		}
		if pass && check.Noted() && !check.Waived {
			number := s.pasts.Number()
			entry.state.Note(check.Spec, check.Usage.Used, now, number)
			call.SetNumber(group, i, number)
		}
		if pass && !check.Waived && check.ReserveFor > 0 {
			s.reserve(entry, check.Reservation(now))
		}
		s.schedule(entry, full)
	}
	for i := range group { // behind the charge, which keeps a key of the call
		m.shards[places[i].shard].forget(now-m.Slack, mostForgotten)
	}
	return nil
}

// makeRoom gives keys up if the charges of a group would add more than fit, but no key of the call
// itself. It fails before anything has been written.
func (m *Store) makeRoom(group []call.Check, places []place, spared []call.Check, now int64) error {
	for i := range group {
		if !group[i].Charge || group[i].Waived || places[i].entry != nil {
			continue
		}
		s, added := &m.shards[places[i].shard], 1
		for j := range group[:i] {
			if group[j].Charge && !group[j].Waived && places[j].entry == nil && places[j].shard == places[i].shard {
				added++
			}
		}
		if s.entries.len()+added > s.bound && !s.giveUp(now, spared) {
			return call.Unsent(call.Full, "core: the memory store is at its bound of %d keys, and found none to give up: they all deny", m.MaxKeys)
		}
	}
	return nil
}

// Reset makes the state of a key as good as new under each of some specs.
func (m *Store) Reset(ctx context.Context, key string, specs []*exact.Spec) error {
	if err := m.ready(ctx); err != nil {
		return err
	}
	s := &m.shards[m.shardOf(key, specs[0])] // none of them is a share
	s.mu.Lock()
	defer s.mu.Unlock()
	now := m.Clock()
	for _, spec := range specs {
		k := call.StateKey(key, spec)
		e := s.entries.get(k)
		if e == nil {
			if s.pasts.Has(k) {
				s.pasts.Reset(k, now, spec)
			}
			continue
		}
		if stays, changed := e.state.Vacate(spec, now); stays {
			if changed {
				u, _ := spec.Observe(&e.state, now, 0)
				s.schedule(e, spec.Keep(u, now))
			}
			continue
		}
		s.pasts.Reset(k, now, spec, e.state.Spec())
		if s.open[k].Until() > 0 {
			e.state.Clear()
		} else {
			s.remove(e)
		}
	}
	return nil
}

// Settle carries out corrections: all of them or, if it finds no room, none.
func (m *Store) Settle(ctx context.Context, list []call.Correction) error {
	if err := m.ready(ctx); err != nil {
		return err
	}
	places := make([]place, len(list))
	for i := range list {
		places[i].shard = m.shardOf(list[i].Key, list[i].Spec)
	}
	defer m.unlock(m.lock(places, nil))
	now, ended := m.Clock(), exact.MostEnded
	spared := make([]call.Check, len(list))
	for i := range list {
		spared[i] = call.Check{Key: list[i].Key, Spec: list[i].Spec, Charge: true}
	}
	for i := range list {
		if c, s := &list[i], &m.shards[places[i].shard]; c.Reserved {
			s.giveBackEnded(c.StateKey(), now, &ended)
			if !s.open[c.StateKey()].Has(c.Holder) {
				c.Late()
			}
		}
	}
	added, in := m.added(list, spared, places)
	if err := m.makeRoom(added, in, spared, now); err != nil {
		return err
	}
	for i := range list {
		s := &m.shards[places[i].shard]
		if list[i].Reserved {
			s.close(list[i].StateKey(), list[i].Holder, now)
		}
		s.settle(list[i].StateKey(), list[i].Spec, &list[i].Correction, now)
	}
	for i := range list {
		if list[i].Wanted {
			m.shards[places[i].shard].observe(&list[i], now)
		}
	}
	return nil
}

// added returns the checks of corrections with keys that are not in the store yet, once for each key. The shards are
// locked.
func (m *Store) added(list []call.Correction, checks []call.Check, places []place) (added []call.Check, in []place) {
	for i := range list {
		key := list[i].StateKey()
		if list[i].Events <= 0 || m.shards[places[i].shard].entries.get(key) != nil ||
			slices.ContainsFunc(added, func(c call.Check) bool { return c.StateKey() == key }) {
			continue
		}
		added, in = append(added, checks[i]), append(in, places[i])
	}
	return added, in
}

// settle carries out a correction. The shard is locked and has room.
func (s *shard) settle(key exact.Key, of *exact.Spec, c *exact.Correction, now int64) {
	e := s.entries.get(key)
	var before exact.State
	if e != nil {
		before = e.state
	}
	after, changed := s.pasts.Settle(key, of, before, c, now)
	switch {
	case !changed:
		return
	case after.Blank() && s.open[key].Until() == 0:
		s.remove(e)
		return
	case after.Blank(): // an open reservation needs the entry
		after.Clear()
	}
	if e == nil {
		e = s.add(key)
	}
	e.state = after
	spec := after.Spec()
	u, _ := spec.Observe(&e.state, now, 0)
	s.schedule(e, spec.Keep(u, now))
}

// observe observes the usage after the corrections. The shard is locked.
func (s *shard) observe(c *call.Correction, now int64) {
	var st exact.State
	if e := s.entries.get(c.StateKey()); e != nil {
		st = e.state
	}
	c.ObserveState(&st, now)
}

// Ping returns an error only after Close.
func (m *Store) Ping(ctx context.Context) error { return m.ready(ctx) }

// Close forgets every key. Calls afterwards are errors. It never fails.
func (m *Store) Close() error {
	m.closed.Store(true)
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		s.empty(m.seed, m.Slack)
		s.mu.Unlock()
	}
	return nil
}
