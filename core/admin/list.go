package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/inspect"
	"github.com/weir-go/ratelimit/core/internal/memory"
	"github.com/weir-go/ratelimit/core/internal/redisstore"
)

// Entry is a key that a store holds under one limit.
type Entry struct {
	// Key is the caller's key. One that is too long to stand in a Redis key is known by
	// its hash only: see Hashed.
	Key string
	// Limit is the name of the limit, as in [core.Limit]; Algorithm is that of its
	// algorithm. The numbers of a named limit are not in its keys, and so not known: see Named.
	Limit, Algorithm string
	// Named says that the limit was given its name, so that its numbers are not in it.
	Named bool
	// Shadow says that it is the state of a shadow check.
	Shadow bool
	// Hashed says that Key is "#" and a hash.
	Hashed bool
}

// ParseLimit returns the limit of the entry, and whether it is known: the numbers of a limit without a given name
// are in its keys.
func (e Entry) ParseLimit() (core.Limit, bool) {
	if algorithm, _ := exact.AlgorithmNamed(e.Algorithm); e.Named && algorithm.Prepaid() { // it has no numbers
		limit := core.Balance().Named(e.Limit)
		return limit, limit.Validate() == nil
	}
	p, ok := exact.ParseDerivedName(e.Limit)
	if !ok || e.Named {
		return nil, false
	}
	limit, err := core.ParseLimit(p.String())
	return limit, err == nil
}

// Lister is a [core.Store] of your own that can list its keys. One that wraps another store may
// call [List] with a limiter on that.
type Lister interface {
	// List returns some of the keys that start with a prefix, and the cursor that goes
	// on from there, or "" at the end. See the function [List].
	List(ctx context.Context, prefix, cursor string) (keys []Entry, next string, err error)
}

// List returns the keys that start with a prefix, a page at a time: begin with the cursor
// "", go on with next, and end when that is "". An empty prefix lists all keys.
//
// On Redis a key that was reset, or given back all that it had used, is listed until its limit would have recovered.
//
// A page may be empty. A key that was there all the time is listed at least once and perhaps
// twice; one that comes or goes meanwhile may be listed or not. On Redis, SCAN finds the keys, on
// one server of a cluster or ring after the other, so that other commands do not wait for long.
// Nothing else here needs the permission for SCAN. SCAN reads all keys of the database to find the
// limiter's: it is for administration, not for requests. The store's budget bounds each SCAN. Keys
// that were hashed for their length are listed under the prefixes "" and "#" only.
//
// A cursor that is not from this list, and a store of your own that is no [Lister], are
// errors. For the errors of the limiter's store see [core.FailureOf].
//
// List may be called by many goroutines at once. A nil limiter panics.
func List(ctx context.Context, limiter *core.Limiter, prefix, cursor string) (keys []Entry, next string, err error) {
	switch store := inspect.StoreOf(limiter); {
	case store.Redis != nil:
		return listRedis(ctx, store.Redis, prefix, cursor)
	case store.Memory != nil:
		return listMemory(ctx, store.Memory, prefix, cursor)
	default:
		lister, ok := store.Own.(Lister)
		if !ok {
			return nil, "", fmt.Errorf("admin: a %T cannot list its keys", store.Own)
		}
		return lister.List(ctx, prefix, cursor)
	}
}

var errCursor = errors.New("admin: that is no cursor of this list")

// startingWith returns the entries of states with keys that start with a prefix.
func startingWith(prefix string, states []call.NamedState) (entries []Entry) {
	for _, state := range states {
		if state.StartsWith(prefix) {
			entries = append(entries, Entry(state))
		}
	}
	return entries
}

func listMemory(ctx context.Context, store *memory.Store, prefix, cursor string) (keys []Entry, next string, err error) {
	page := 0
	if cursor != "" {
		if page, err = strconv.Atoi(cursor); err != nil || page < 0 || page >= store.Pages() {
			return nil, "", errCursor
		}
	}
	states, err := store.Page(ctx, page)
	if err != nil {
		return nil, "", err
	}
	if page+1 < store.Pages() {
		next = strconv.Itoa(page + 1)
	}
	return startingWith(prefix, states), next, nil
}

// pageSize is how many keys of the database a SCAN looks at: a fraction of a millisecond.
const pageSize = 250

// listRedis lists a page of one server. The cursor is the server's address and the cursor of
// its SCAN.
func listRedis(ctx context.Context, store *redisstore.Store, prefix, cursor string) (keys []Entry, next string, err error) {
	if closed := store.Closed(); closed != nil {
		return nil, "", closed
	}
	servers, err := serversOf(ctx, store)
	if err != nil {
		return nil, "", store.Explain(ctx, ctx, err)
	}
	address, at, ok := strings.Cut(cursor, " ")
	place, _ := slices.BinarySearchFunc(servers, address, func(s server, address string) int { return strings.Compare(s.address, address) })
	position, malformed := strconv.ParseUint(at, 10, 64)
	switch {
	case cursor == "":
		place, position = 0, 0
	case !ok || malformed != nil:
		return nil, "", errCursor
	case place < len(servers) && servers[place].address != address:
		position = 0 // that server has gone: the next one
	}
	if place == len(servers) {
		return nil, "", nil
	}
	command := redis.NewScanCmd(ctx, nil, "scan", position, "match", call.NamePattern(store.Prefix, prefix), "count", pageSize)
	err = store.Bound(ctx, func(ctx context.Context) error { return servers[place].client.Process(ctx, command) })
	if err != nil {
		return nil, "", err
	}
	names, position := command.Val()
	states := make([]call.NamedState, 0, len(names))
	for _, name := range names {
		if state, ok := call.ParseName(store.Prefix, name); ok && known(state.Algorithm) {
			states = append(states, state)
		}
	}
	switch {
	case position != 0:
		next = servers[place].address + " " + strconv.FormatUint(position, 10)
	case place+1 < len(servers):
		next = servers[place+1].address + " 0"
	}
	return startingWith(prefix, states), next, nil
}

// known reports whether there is an algorithm with a name.
func known(algorithm string) bool {
	_, ok := exact.AlgorithmNamed(algorithm)
	return ok
}

// server is one that has keys.
type server struct {
	address string
	client  redis.UniversalClient
}

// serversOf returns the servers that have keys, in the order of their addresses.
func serversOf(ctx context.Context, store *redisstore.Store) ([]server, error) {
	if !store.Topology().Sharded() {
		return []server{{"redis", store.Topology().Client}}, nil
	}
	var mu sync.Mutex
	var servers []server
	err := store.Topology().Each(ctx, func(_ context.Context, client redis.UniversalClient) error {
		mu.Lock()
		defer mu.Unlock()
		servers = append(servers, server{client.(*redis.Client).Options().Addr, client}) //nolint:forcetypeassert // where there are several
		return nil
	})
	slices.SortFunc(servers, func(a, b server) int { return strings.Compare(a.address, b.address) })
	return servers, err
}
