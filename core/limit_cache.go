package core

import (
	"maps"
	"sync"
	"sync/atomic"
)

// limitCache keeps what has been worked out about limits, since there are few limits
// and many questions. The zero value is empty. It may be used concurrently.
type limitCache[K comparable, V any] struct {
	latest atomic.Pointer[cached[K, V]] // saves hashing a limit, which takes longer than comparing two
	known  atomic.Pointer[map[K]*cached[K, V]]
	mu     sync.Mutex // of who adds to known, by a copy
}

type cached[K comparable, V any] struct {
	key   K
	value V
}

// mostCached bounds the cache, where limits are made up for each request.
const mostCached = 1024

// find returns what is kept for a key, if anything is.
func (c *limitCache[K, V]) find(key *K) (value V, ok bool) {
	if latest := c.latest.Load(); latest != nil && latest.key == *key {
		return latest.value, true
	}
	if known := c.known.Load(); known != nil {
		if found := (*known)[*key]; found != nil {
			c.latest.Store(found)
			return found.value, true
		}
	}
	return value, false
}

// add returns the value that is kept for a key from now on: the first one, so that
// all have the same.
func (c *limitCache[K, V]) add(key K, value V) V {
	one := &cached[K, V]{key, value}
	c.mu.Lock()
	defer c.mu.Unlock()
	more := map[K]*cached[K, V]{}
	if known := c.known.Load(); known != nil {
		if first, ok := (*known)[one.key]; ok {
			return first.value
		}
		if len(*known) >= mostCached {
			return one.value
		}
		more = maps.Clone(*known)
	}
	more[one.key] = one
	c.known.Store(&more)
	return one.value
}
