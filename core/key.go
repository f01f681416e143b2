package core

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// longestSubject bounds how much of a caller's key stands in a Redis key.
const longestSubject = 96

// appendKey appends the Redis key of a check:
//
//	ratelimit:{ip:203.0.113.9}:leaky:10:1/s
//	ratelimit:{user:42}:fixed-window=login
//	ratelimit:{user:42}:fixed-window=login=shadow
//	ratelimit:{user:42}:fixed-window=login=past
//
// The subject in braces is the hash tag, so that all limits of one subject share
// a slot in a cluster. After it comes the limit's derived name, or its algorithm
// and its given name after an equals sign, which no name contains.
func appendKey(b []byte, prefix, key string, spec *exact.Spec) []byte {
	b = append(b, prefix...)
	b = append(b, ":{"...)
	b = appendSubject(b, key)
	b = append(b, "}:"...)
	b = spec.AppendIdentity(b)
	if spec.IsShadow() {
		b = append(b, "=shadow"...)
	}
	return b
}

// pastSuffix follows a Redis key in that of its past, which only settlements and resets
// write and read: see [exact.Pasts].
const pastSuffix = "=past"

// appendSubject appends a caller's key so that no two keys look alike, no byte of
// it means anything to Redis, and its length is bounded. Bytes other than ASCII
// letters, digits and -._~:/@+,*|!$()=? are written %XX. What would then be longer
// than longestSubject is written '#' and a hash of the key.
func appendSubject(b []byte, key string) []byte {
	start := len(b)
	for i := range len(key) {
		b = appendEscaped(b, key[i])
		if len(b)-start > longestSubject {
			return appendHash(b[:start], key)
		}
	}
	return b
}

// hashMark stands in front of a hash.
const hashMark = "#"

// appendHash appends what stands for a key that is too long.
func appendHash(b []byte, key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.AppendEncode(append(b, hashMark...), sum[:])
}

// isLong reports whether appendSubject hashes a key.
func isLong(key string) bool {
	if len(key) <= longestSubject/escapedLength {
		return false
	}
	length := len(key)
	for i := 0; i < len(key) && length <= longestSubject; i++ {
		if !isPlain(key[i]) {
			length += escapedLength - 1
		}
	}
	return length > longestSubject
}

// escapedLength is that of %XX.
const escapedLength = 3

// appendEscaped appends a byte of a caller's key, as itself or as %XX.
func appendEscaped(b []byte, c byte) []byte {
	if isPlain(c) {
		return append(b, c)
	}
	const hexadecimal = "0123456789ABCDEF"
	return append(b, '%', hexadecimal[c>>4], hexadecimal[c&15])
}

func isPlain(c byte) bool {
	if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
		return true
	}
	switch c {
	case '-', '.', '_', '~', ':', '/', '@', '+', ',', '*', '|', '!', '$', '(', ')', '=', '?':
		return true
	}
	return false
}

// shortKey returns a key to keep in memory for a caller's: itself, or a hash where it
// would be hashed in a Redis key, too. One that looks like a hash gets a mark more, which
// no hash has, so that no two keys meet.
func shortKey(key string) string {
	switch {
	case isLong(key):
		return string(appendHash(nil, key))
	case strings.HasPrefix(key, hashMark):
		return hashMark + key
	}
	return key
}

// callersKey returns the key that shortKey was given, or what stands for it.
func callersKey(short string) (key string, hashed bool) {
	if key, marked := strings.CutPrefix(short, hashMark+hashMark); marked {
		return hashMark + key, false
	}
	return short, strings.HasPrefix(short, hashMark)
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
	return exact.Key{Subject: shortKey(c.Key), Identity: c.spec().Identity()}
}
