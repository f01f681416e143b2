package core

import (
	"time"

	"github.com/weir-go/ratelimit/core/internal/memory"
)

// memoryStore is the store that [NewMemory] makes.
type memoryStore struct {
	ownStore

	config memory.Config // with the options applied
	traces traces        // of the stores around it
	store  *memory.Store
}

const defaultMaxKeys = 1 << 20

// NewMemory returns an empty [Store] inside this process: for servers that run alone, for tests, and
// wherever a Redis server is more than the task needs. It gives the same answers as a store of
// [NewRedis], decision for decision. NewMemory starts no goroutine. It takes [WithMaxKeys],
// [WithTrace] and [WithClock], and panics if another option is given.
//
// The store holds a bounded number of keys ([WithMaxKeys]). A key that is as good as new expires, and its memory is free
// again some calls later, also if they are about other keys. A store that gets no calls keeps its keys. At the bound, a
// new key takes the place of a key that still admits requests, the one that would expire soonest, which then starts anew.
// A key that denies even one unit is never given up. If the store finds none to give up among 128, the call is an error
// that is "full". A settlement that finds no room settles nothing.
//
// Its clock starts with the system's and then only moves forward. Ping fails only after Close. Close
// forgets every key, and calls after it are errors.
func NewMemory(options ...Option) Store {
	m := &memoryStore{config: memory.Config{MaxKeys: defaultMaxKeys, Clock: forwardClock()}}
	apply("NewMemory", options, ofMemory, m)
	m.store = memory.New(m.config)
	m.Store = m.store
	return m
}

// forwardClock returns a clock that never goes back: a function that returns microseconds since 1970, as this process's clock has them now and
// its monotonic clock counts them from now on. It may be called by many goroutines at once.
func forwardClock() func() int64 {
	start := time.Now()
	began := start.UnixMicro()
	return func() int64 { return began + time.Since(start).Microseconds() }
}
