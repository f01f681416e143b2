package headers

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"slices"
)

// leastSecret is the length of the shortest secret in bytes, and that of a partition key.
const leastSecret = 16

// DraftPartitioned returns [Draft] with the parameter pk, the partition key. It identifies the quota for a client that acts for several
// users, or from several addresses:
//
//	RateLimit-Policy: "burst";q=1;w=1;weir-burst=10;pk=:v5dJSr0QjeIijDWrwdIP/g==:
//	RateLimit: "burst";r=9;t=9;pk=:v5dJSr0QjeIijDWrwdIP/g==:
//
// The parameter is 16 bytes of an HMAC-SHA-256 of the key under the secret. It is the same for
// the same key on every server that has the secret. Without the secret the key cannot be found,
// not even by trying all addresses.
//
// All servers of a fleet need the same secret of at least 16 random bytes. Do not use the secret
// of [keyfuncs.Secret]. DraftPartitioned copies it, and panics if it is shorter.
//
// [keyfuncs.Secret]: https://pkg.go.dev/github.com/weir-go/ratelimit/keyfuncs#Secret
func DraftPartitioned(secret []byte) Writer {
	if len(secret) < leastSecret {
		panic(fmt.Sprintf("headers: partition keys: secret of %d bytes, want at least %d", len(secret), leastSecret))
	}
	return draft11{&partitions{slices.Clone(secret)}}
}

// partitions makes partition keys. A nil *partitions makes none.
type partitions struct{ secret []byte }

// appendTo appends the parameter pk for a key.
func (p *partitions) appendTo(b []byte, key string) []byte {
	if p == nil || key == "" {
		return b
	}
	mac := hmac.New(sha256.New, p.secret)
	mac.Write([]byte("ratelimit partition\x00"))
	mac.Write([]byte(key))
	var sum [sha256.Size]byte
	return appendBytes(append(b, ";pk="...), mac.Sum(sum[:0])[:leastSecret])
}
