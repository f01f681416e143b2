// Package denialcache remembers which checks were denied, so that a client that goes on asking costs Redis next to nothing. It is
// apart from package core because it links a cache library.
package denialcache

import (
	"fmt"

	"github.com/maypok86/otter/v2"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/internal/denials"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// New returns a [core.Store] around another store. It remembers up to size of that store's denials,
// and repeats each of them for as long as the answer cannot have changed:
//
//	limiter := core.New(denialcache.New(core.NewRedis(client), 100_000))
//
// So a client that hammers a used-up key costs Redis one call in each retry period, and this process a lookup in a map. A
// denial takes about 220 bytes. [core.Trace.Repeated] tells of each call that was answered without the store.
//
// The cache denies nothing that the store would admit: without resets and refunds a limit only fills up, so that a denied
// check cannot pass before its RetryAfter, counted from when the call was sent, is over. The cache notices at once a
// reset or a settlement through it, a named limit with other numbers, and the units that a store of [core.NewRedis] gives
// back for its own calls. It repeats a denial for ten seconds at most. So it may take that long to notice that another
// process has reset a key, refunded a charge, raised a named limit, or given back the charges of a call over several keys
// of a cluster or ring, and that a server has lost keys or has its clock set forward. Put the cache directly around a
// store of NewRedis: a store of your own between them hides the units that Redis gives back.
//
// A check is answered from memory if it has been denied lately at the same cost, or at a lower cost from which the wait
// follows exactly. Its numbers are those of the denial, less the time that has passed. If the cost was more than 1, other
// processes may have used the units left meanwhile, so that the next RetryAfter is longer. A [core.Check.Headroom] counts
// as part of the cost here.
//
// A call does not go to the store if all its checks are answered from memory. If only some are, the store answers the
// others and charges nothing; shadow checks are decided as always. Of alternatives ([core.FirstOf]), either all are
// answered from memory or none.
//
// All other calls go to the store: calls that may pass, calls with a key and limit twice, with a named sliding window
// (its RetryAfter may be an estimate), with a [core.Concurrent] limit (its places may be given back at any time), or with
// a [core.Check.ReserveFor].
//
// If the cache knows that a [core.Ban] is in force, it denies the call without the store. The other checks of the call are
// answered as allowed, with no numbers. A call that may strike when it is denied ([core.OnDenial]) goes to the store
// unless a ban is known to be in force, and so does every call under a Ban with Extend.
//
// New starts no goroutine. It takes [core.WithTrace], [core.WithLogger] and [core.WithClock]. A nil store, a size less than
// 1 and an option that does not suit it panic. Close closes the store, too.
func New(store core.Store, size int, options ...core.Option) core.Store {
	if store == nil {
		panic("denialcache: New needs a Store")
	}
	if size < 1 {
		panic(fmt.Sprintf("denialcache: a cache of %d denials is less than 1", size))
	}
	remembering := denials.Remember(store, memory{otter.Must(&otter.Options[exact.Key, *denials.Entry]{
		MaximumSize: size,
		Executor:    func(task func()) { task() },
	})}, options)
	return remembering.(core.Store) //nolint:forcetypeassert // it is nothing else
}

// memory is a cache of the library as a memory of denials.
type memory struct {
	cache *otter.Cache[exact.Key, *denials.Entry]
}

func (m memory) Get(state exact.Key) (*denials.Entry, bool)    { return m.cache.GetIfPresent(state) }
func (m memory) Set(state exact.Key, entry *denials.Entry)     { m.cache.Set(state, entry) }
func (m memory) Delete(state exact.Key) (*denials.Entry, bool) { return m.cache.Invalidate(state) }
func (m memory) Clear()                                        { m.cache.InvalidateAll() }
