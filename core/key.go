package core

import "github.com/weir-go/ratelimit/core/internal/keyspace"

// appendKey appends the Redis key of a check: see package keyspace.
func appendKey(b []byte, prefix, key string, limit *Limit, shadow bool) []byte {
	b = keyspace.AppendTag(b, prefix, key)
	if limit.name == "" {
		b = limit.appendDerivedName(b)
	} else {
		b = keyspace.AppendNamed(b, limit.algorithm.String(), limit.name)
	}
	if shadow {
		b = append(b, keyspace.Shadow...)
	}
	return b
}
