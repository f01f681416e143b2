package memory

import (
	"context"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Len returns how many keys the store holds, each counted under each of its limits.
func (m *Store) Len() int {
	n := 0
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		n += s.entries.len()
		s.mu.Unlock()
	}
	return n
}

// Pages returns how many pages the keys are on.
func (m *Store) Pages() int { return len(m.shards) }

// Page returns the keys of the states on a page.
func (m *Store) Page(ctx context.Context, page int) (states []call.NamedState, err error) {
	if err := m.ready(ctx); err != nil {
		return nil, err
	}
	now := m.Clock()
	s := &m.shards[page]
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.entries.all() {
		if e.full <= now {
			continue
		}
		key := e.key()
		of := key.Identity
		state := call.NamedState{Limit: of.Label(), Algorithm: of.Algorithm.String(), Named: of.Name != "", Shadow: of.IsShadow()}
		state.Key, state.Hashed = call.Restore(key.Subject)
		states = append(states, state)
	}
	return states, nil
}

// Banned returns the ban of a key that is in force, and whether there is one.
func (m *Store) Banned(ctx context.Context, key string, spec *exact.Spec) (b exact.Banned, inForce bool, err error) {
	if err := m.ready(ctx); err != nil {
		return exact.Banned{}, false, err
	}
	s := &m.shards[m.shardOf(key, spec)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries.get(call.StateKey(key, spec)); e != nil {
		b, inForce = e.state.Banned(m.Clock())
	}
	return b, inForce, nil
}

// Held returns the holders of places of a key under a spec.
func (m *Store) Held(ctx context.Context, key string, spec *exact.Spec) ([]exact.Held, error) {
	if err := m.ready(ctx); err != nil {
		return nil, err
	}
	s := &m.shards[m.shardOf(key, spec)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries.get(call.StateKey(key, spec)); e != nil {
		return e.state.Held(m.Clock()), nil
	}
	return nil, nil
}

// Prepaid returns a balance: the units left and spent, and its latest top-ups.
func (m *Store) Prepaid(ctx context.Context, key string, spec *exact.Spec) (left, spent int64, topUps []exact.ToppedUp, err error) {
	if err := m.ready(ctx); err != nil {
		return 0, 0, nil, err
	}
	s := &m.shards[m.shardOf(key, spec)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries.get(call.StateKey(key, spec)); e != nil {
		left, spent = e.state.Prepaid()
		topUps = e.state.ToppedUp()
	}
	return left, spent, topUps, nil
}
