package core

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Listed is a key that a store holds under one limit.
type Listed struct {
	// Key is the caller's key. One that is too long to stand in a Redis key is known by
	// its hash only: see Hashed.
	Key string
	// Limit is the name of the limit, as in [Limit.Name]; Algorithm is that of its
	// algorithm. A named limit's numbers are not known to the store's keys.
	Limit, Algorithm string
	// Shadow says that it is the state of a shadow check.
	Shadow bool
	// Hashed says that Key is "#" and a hash.
	Hashed bool
}

// startsWith reports whether a key is listed under a prefix.
func (l *Listed) startsWith(prefix string) bool {
	if l.Hashed {
		return prefix == "" || prefix == hashMark
	}
	return strings.HasPrefix(l.Key, prefix)
}

// Lister is a [Store] that can list its keys. [Redis], [Memory] and, where the store
// behind it is one, [DenialCache] are.
type Lister interface {
	// List returns some of the keys that start with a prefix, and the cursor that goes
	// on from there, or "" at the end. See [Limiter.List].
	List(ctx context.Context, prefix, cursor string) (keys []Listed, next string, err error)
}

// List returns the keys that start with a prefix, a page at a time: begin with the cursor
// "", go on with next, and end when that is "". It holds nobody up: Redis is asked by
// SCAN, one server of a cluster after the other. As with SCAN, a page may be empty, a key
// that was there all the time is listed at least once and perhaps twice, and one that
// comes or goes meanwhile may be listed or not. An unknown cursor is an error.
//
// It reads all keys of the Redis database to find ours, so it is for administration, not
// for requests. On Redis it needs the permission for SCAN, which nothing else here does.
// Keys that were hashed for their length are listed under the prefixes "" and "#" only.
func (l *Limiter) List(ctx context.Context, prefix, cursor string) (keys []Listed, next string, err error) {
	return list(ctx, l.store, prefix, cursor)
}

func list(ctx context.Context, store Store, prefix, cursor string) (keys []Listed, next string, err error) {
	lister, ok := store.(Lister)
	if !ok {
		return nil, "", fmt.Errorf("core: a %T cannot list its keys", store)
	}
	return lister.List(ctx, prefix, cursor)
}

// List implements [Lister], if the store behind it does.
func (c *DenialCache) List(ctx context.Context, prefix, cursor string) (keys []Listed, next string, err error) {
	return list(ctx, c.store, prefix, cursor)
}

var errCursor = errors.New("core: that is no cursor of this list")

// List implements [Lister]. A page is a shard.
func (m *Memory) List(ctx context.Context, prefix, cursor string) (keys []Listed, next string, err error) {
	if err := m.ready(ctx); err != nil {
		return nil, "", err
	}
	place := 0
	if cursor != "" {
		if place, err = strconv.Atoi(cursor); err != nil || place < 0 || place >= len(m.shards) {
			return nil, "", errCursor
		}
	}
	now := m.clock()
	s := &m.shards[place]
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.entries {
		listed := Listed{Limit: key.Identity.Label(), Algorithm: key.Identity.Algorithm.String(), Shadow: key.Identity.IsShadow()}
		if listed.Key, listed.Hashed = callersKey(key.Subject); listed.startsWith(prefix) && e.full > now {
			keys = append(keys, listed)
		}
	}
	if place+1 < len(m.shards) {
		next = strconv.Itoa(place + 1)
	}
	return keys, next, nil
}

// pageSize is how many keys of the database a SCAN looks at: a fraction of a millisecond.
const pageSize = 500

// List implements [Lister]. The cursor is the address of a server and the cursor of its
// SCAN.
func (r *Redis) List(ctx context.Context, prefix, cursor string) (keys []Listed, next string, err error) {
	if r.closed.Load() {
		return nil, "", errClosed
	}
	servers, err := r.scannable(ctx)
	if err != nil {
		return nil, "", r.explainCall(ctx, ctx, err)
	}
	address, at, ok := strings.Cut(cursor, " ")
	place, _ := slices.BinarySearchFunc(servers, address, func(s scanned, address string) int { return strings.Compare(s.address, address) })
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
	command := redis.NewScanCmd(ctx, nil, "scan", position, "match", r.pattern(prefix), "count", pageSize)
	err = r.within(ctx, func(ctx context.Context) error { return servers[place].client.Process(ctx, command) })
	if err != nil {
		return nil, "", err
	}
	names, position := command.Val()
	for _, name := range names {
		if listed, ok := r.listed(name); ok && listed.startsWith(prefix) {
			keys = append(keys, listed)
		}
	}
	switch {
	case position != 0:
		next = servers[place].address + " " + strconv.FormatUint(position, 10)
	case place+1 < len(servers):
		next = servers[place+1].address + " 0"
	}
	return keys, next, nil
}

// scanned is a server that has keys.
type scanned struct {
	address string
	client  redis.UniversalClient
}

// scannable returns the servers that have keys, in the order of their addresses.
func (r *Redis) scannable(ctx context.Context) ([]scanned, error) {
	var mu sync.Mutex
	var servers []scanned
	add := func(_ context.Context, client redis.UniversalClient) error {
		mu.Lock()
		defer mu.Unlock()
		servers = append(servers, scanned{client.(*redis.Client).Options().Addr, client}) //nolint:forcetypeassert // where there are several
		return nil
	}
	if !r.topology.sharded() {
		return []scanned{{"redis", r.topology.client}}, nil
	}
	err := r.topology.each(ctx, add)
	slices.SortFunc(servers, func(a, b scanned) int { return strings.Compare(a.address, b.address) })
	return servers, err
}

// pattern returns what the Redis keys match whose subjects start with a prefix.
func (r *Redis) pattern(prefix string) string {
	literal := globEscaper.Replace(r.prefix + ":{")
	if prefix == hashMark { // that of a hash, and escaped that of a key
		return literal + "[#%]*"
	}
	var subject []byte
	for i := range len(prefix) {
		subject = appendEscaped(subject, prefix[i])
	}
	return literal + globEscaper.Replace(string(subject)) + "*"
}

var globEscaper = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

// listed reads a Redis key, as appendKey has written it.
func (r *Redis) listed(name string) (Listed, bool) {
	rest, ours := strings.CutPrefix(name, r.prefix+":{")
	subject, limit, found := strings.Cut(rest, "}:")
	if !ours || !found {
		return Listed{}, false
	}
	var l Listed
	if strings.HasPrefix(subject, hashMark) {
		l.Key, l.Hashed = subject, true
	} else {
		key, err := url.PathUnescape(subject) // %XX, as appendSubject writes it
		if err != nil {
			return Listed{}, false
		}
		l.Key = key
	}
	if strings.HasSuffix(limit, pastSuffix) {
		return Listed{}, false
	}
	limit, l.Shadow = strings.CutSuffix(limit, "=shadow")
	var given bool
	if l.Algorithm, l.Limit, given = strings.Cut(limit, "="); !given {
		l.Limit = limit
		l.Algorithm, _, _ = strings.Cut(limit, ":")
	}
	_, known := exact.AlgorithmNamed(l.Algorithm)
	return l, known && l.Limit != ""
}
