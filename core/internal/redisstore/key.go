package redisstore

import (
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Name returns the Redis key of the state that a caller's key has under a spec: see [call.AppendTag].
func (r *Store) Name(key string, spec *exact.Spec) string {
	var scratch [256]byte
	return string(append(call.AppendTag(scratch[:0], r.Prefix, key), spec.StateName...))
}
