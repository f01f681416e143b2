package redisstore

import (
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/keyspace"
)

// Name returns the Redis key of the state that a caller's key has under a spec: see package keyspace.
func (r *Store) Name(key string, spec *exact.Spec) string {
	var scratch [256]byte
	return string(call.AppendIdentity(keyspace.AppendTag(scratch[:0], r.Prefix, key), spec))
}
