package core

import (
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/keyspace"
)

// appendKey appends the Redis key of a check: see package keyspace.
func appendKey(b []byte, prefix, key string, spec *exact.Spec) []byte {
	b = keyspace.AppendTag(b, prefix, key)
	b = spec.AppendIdentity(b)
	if spec.IsShadow() {
		b = append(b, keyspace.Shadow...)
	}
	return b
}

// spec returns the spec under which a check counts.
func (c *Check) spec() *exact.Spec {
	if c.Shadow {
		return c.Limit.spec.Shadow()
	}
	return c.Limit.spec
}

// stateKey returns that of the state which a check is about.
func (c *Check) stateKey() exact.Key {
	return exact.Key{Subject: keyspace.Shorten(c.Key), Identity: c.spec().Identity()}
}
