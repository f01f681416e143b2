// Package bounded has a map that holds a limited number of entries. Packages that every user links use it in place of a cache
// library.
package bounded

import (
	"hash/maphash"
	"sync"
)

const (
	mostShards = 64  // of a map
	largeShard = 128 // entries, above which a map is split further
)

// Map is a map of a limited size. When it is full, the entries that were set longest ago give way. [New] makes a Map, and
// many goroutines may use it at once.
type Map[K comparable, V any] struct {
	seed   maphash.Seed
	shards []shard[K, V]
}

// shard has a part of the keys, and a lock of its own. Its entries are in two generations, and a key is in one of them at
// most. A full younger generation takes the place of the older one, which is dropped.
type shard[K comparable, V any] struct {
	mu         sync.RWMutex
	young, old map[K]V
	room       int // how many entries a generation holds
}

// New returns an empty map of up to size entries, or of two if size is less. It holds at least about half of size before
// the oldest entries give way.
func New[K comparable, V any](size int) *Map[K, V] {
	m := &Map[K, V]{seed: maphash.MakeSeed(), shards: make([]shard[K, V], max(1, min(size/largeShard, mostShards)))}
	for i := range m.shards {
		m.shards[i] = shard[K, V]{young: make(map[K]V), old: make(map[K]V), room: max(1, size/len(m.shards)/2)}
	}
	return m
}

// shardOf returns the shard of a key.
func (m *Map[K, V]) shardOf(key K) *shard[K, V] {
	if len(m.shards) == 1 {
		return &m.shards[0]
	}
	return &m.shards[maphash.Comparable(m.seed, key)%uint64(len(m.shards))]
}

// Get returns the entry of a key.
func (m *Map[K, V]) Get(key K) (value V, ok bool) {
	s := m.shardOf(key)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.get(key)
}

// Set sets the entry of a key. The map keeps the key: a string in it should be no part of a longer one.
func (m *Map[K, V]) Set(key K, value V) {
	s := m.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(key, value)
}

// Update has a function change the entry of a key, or add one. The function is told whether there is an entry, and returns
// whether there is to be one. It must not use the map. Nothing else happens to the key meanwhile. The map keeps the key, as
// for [Map.Set].
func (m *Map[K, V]) Update(key K, change func(value V, ok bool) (V, bool)) {
	s := m.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if value, keep := change(s.get(key)); keep {
		s.set(key, value)
	} else {
		s.remove(key)
	}
}

// Delete removes the entry of a key, and returns it.
func (m *Map[K, V]) Delete(key K) (value V, ok bool) {
	s := m.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if value, ok = s.get(key); ok {
		s.remove(key)
	}
	return value, ok
}

// Clear removes all entries.
func (m *Map[K, V]) Clear() {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		clear(s.young)
		clear(s.old)
		s.mu.Unlock()
	}
}

// Len returns how many entries there are.
func (m *Map[K, V]) Len() (n int) {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.RLock()
		n += len(s.young) + len(s.old)
		s.mu.RUnlock()
	}
	return n
}

// The lock is held while these methods are called.

func (s *shard[K, V]) get(key K) (value V, ok bool) {
	if value, ok = s.young[key]; !ok {
		value, ok = s.old[key]
	}
	return value, ok
}

func (s *shard[K, V]) set(key K, value V) {
	delete(s.old, key)
	if _, ok := s.young[key]; !ok && len(s.young) == s.room {
		clear(s.old)
		s.young, s.old = s.old, s.young
	}
	s.young[key] = value
}

func (s *shard[K, V]) remove(key K) {
	delete(s.young, key)
	delete(s.old, key)
}
