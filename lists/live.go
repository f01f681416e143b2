package lists

import (
	"net/netip"
	"sync/atomic"
)

// Live is a list that another one can replace while requests are served. A lookup loads a pointer and looks into the
// current [List]: it never waits.
//
// A Live may be used by many goroutines at once. The zero value is ready to use, and empty;
// [Watch] returns one that follows a file, or Redis. It must not be copied.
type Live struct{ current atomic.Pointer[List] }

// Swap replaces the list, as a whole, and returns the one before. Nil is the empty list.
func (l *Live) Swap(list *List) (old *List) { return l.current.Swap(list) }

// List returns the current list, or nil if it has always been the empty one.
func (l *Live) List() *List { return l.current.Load() }

// Has reports whether the current list has an address or a key: see [List.Has]. One list answers
// about both, also if another one comes into force meanwhile.
func (l *Live) Has(address netip.Addr, key string) bool { return l.current.Load().Has(address, key) }

// Keys returns how many different keys the current list has.
func (l *Live) Keys() int { return l.current.Load().Keys() }
