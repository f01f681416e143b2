package redisstore

import (
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/keyspace"
)

// key returns the Redis key of a check.
func (r *Store) key(c *call.Check) string { return r.keyOf(c.Key, c.Spec) }

// Name returns the Redis key of the state that a caller's key has under a spec.
func (r *Store) Name(key string, spec *exact.Spec) string { return r.keyOf(key, spec) }

// keyOf returns the Redis key of the state that a caller's key has under a spec.
func (r *Store) keyOf(key string, spec *exact.Spec) string {
	var scratch [256]byte
	return string(appendKey(scratch[:0], r.Prefix, key, spec))
}

// appendKey appends the Redis key of a state: see package keyspace.
func appendKey(b []byte, prefix, key string, spec *exact.Spec) []byte {
	return call.AppendIdentity(keyspace.AppendTag(b, prefix, key), spec)
}
