package call

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

const (
	// ReservedSuffix follows a Redis key to make that of its open reservations, which are given back at their ends.
	ReservedSuffix = "=reserved"
	// WaitingSuffix follows a Redis key and a class of waiters to make that of the order in which processes wait.
	WaitingSuffix = "=waiting"
)

// AppendTag appends the part of a Redis key that all limits of a caller's key share.
//
// A Redis key is a prefix, a subject in braces, and a limit:
//
//	ratelimit:{ip:203.0.113.9}:leaky:10:1/s
//	ratelimit:{user:42}:fixed-window=login
//	ratelimit:{user:42}:fixed-window=login=shadow
//	ratelimit:{user:42}:fixed-window=login=reserved
//	ratelimit:{user:42}:fixed-window=login=100=waiting
//
// The subject stands for the caller's key. In braces it is the hash tag, so that all limits
// of one subject share a slot in a cluster. After it comes the limit's derived name, or its
// algorithm and its given name after an equals sign, which no name contains.
func AppendTag(b []byte, prefix, key string) []byte {
	b = append(b, prefix...)
	b = append(b, opening...)
	b = AppendSubject(b, key)
	return append(b, closing...)
}

// Name returns the Redis key of the state that a caller's key has under a spec: see [AppendTag].
func Name(prefix, key string, spec *exact.Spec) string {
	var scratch [256]byte
	return string(append(AppendTag(scratch[:0], prefix, key), spec.StateName...))
}

// AppendHashedTag appends the tag of a key that is known by its hash only, as [NamedState.Key] has it.
func AppendHashedTag(b []byte, prefix, hash string) []byte {
	return append(append(append(append(b, prefix...), opening...), hash...), closing...)
}

// IsHash reports whether a text can be the hash of a key.
func IsHash(text string) bool {
	hash, marked := strings.CutPrefix(text, hashMark)
	sum, err := base64.RawURLEncoding.DecodeString(hash)
	return marked && err == nil && len(sum) == sha256.Size
}

// These surround a subject.
const opening, closing = ":{", "}:"

// given stands in front of a given name.
const given = '='

// NamedState is the state that the name of a key describes.
type NamedState struct {
	// Key is the caller's key, or "#" and a hash if it is Hashed.
	Key string
	// Limit is the name of the limit, and Algorithm the name of its algorithm.
	Limit, Algorithm string
	// Named says that the limit was given its name.
	Named bool
	// Shadow says that it is the state of a shadow check.
	Shadow bool
	// Hashed says that the caller's key is known by its hash only.
	Hashed bool
}

// StartsWith reports whether the caller's key starts with a prefix. A hash starts with
// "" and "#" only.
func (s *NamedState) StartsWith(prefix string) bool {
	if s.Hashed {
		return prefix == "" || prefix == hashMark
	}
	return strings.HasPrefix(s.Key, prefix)
}

// ParseName reads a Redis key. It returns false for one that keeps no state, and for most that
// others have written. Whether there is such an algorithm is not known here.
func ParseName(prefix, name string) (s NamedState, ok bool) {
	rest, ours := strings.CutPrefix(name, prefix+opening)
	subject, limit, found := strings.Cut(rest, closing)
	if !ours || !found || strings.HasSuffix(limit, ReservedSuffix) || strings.HasSuffix(limit, WaitingSuffix) {
		return NamedState{}, false
	}
	if s.Key, s.Hashed = subject, strings.HasPrefix(subject, hashMark); !s.Hashed {
		key, err := url.PathUnescape(subject) // %XX, as AppendSubject writes it
		if err != nil {
			return NamedState{}, false
		}
		s.Key = key
	}
	limit, s.Shadow = strings.CutSuffix(limit, exact.ShadowSuffix)
	if s.Algorithm, s.Limit, s.Named = strings.Cut(limit, string(given)); !s.Named {
		s.Limit = limit
		s.Algorithm, _, _ = strings.Cut(limit, ":")
	}
	return s, s.Limit != ""
}

// NamePattern returns the pattern with which SCAN finds the Redis keys of the caller's keys that start with a text. It finds
// some others, too.
func NamePattern(prefix, start string) string {
	literal := globEscaper.Replace(prefix + opening)
	if start == hashMark { // that of a hash, and escaped that of a key
		return literal + "[#%]*"
	}
	var subject []byte
	for i := range len(start) {
		subject = appendEscaped(subject, start[i])
	}
	return literal + globEscaper.Replace(string(subject)) + "*"
}

var globEscaper = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

// longestSubject bounds how much of a caller's key stands in a Redis key.
const longestSubject = 96

// AppendSubject appends a caller's key so that no two keys look alike, no byte of it means anything to Redis, and its
// length is bounded. Bytes other than ASCII letters, digits and -._~:/@+,*|!$()=? are written %XX. If the result would be
// longer than longestSubject, it is '#' and a hash of the key instead.
func AppendSubject(b []byte, key string) []byte {
	start := len(b)
	for i := range len(key) {
		if plain[key[i]] {
			b = append(b, key[i])
		} else {
			b = appendEscaped(b, key[i])
		}
		if len(b)-start > longestSubject {
			return appendHash(b[:start], key)
		}
	}
	return b
}

// hashMark stands in front of a hash.
const hashMark = "#"

// appendHash appends the substitute for a key that is too long.
func appendHash(b []byte, key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.AppendEncode(append(b, hashMark...), sum[:])
}

// Shorten returns a key to keep in memory for a caller's key: the key itself, or a hash of
// one that AppendSubject hashes, too. One that looks like a hash gets a mark more, which no
// hash has, so that no two keys meet.
func Shorten(key string) string {
	switch {
	case isLong(key):
		return string(appendHash(nil, key))
	case strings.HasPrefix(key, hashMark):
		return hashMark + key
	}
	return key
}

// Restore returns the key that Shorten was given, or its substitute.
func Restore(short string) (key string, hashed bool) {
	if key, marked := strings.CutPrefix(short, hashMark+hashMark); marked {
		return hashMark + key, false
	}
	return short, strings.HasPrefix(short, hashMark)
}

// isLong reports whether AppendSubject hashes a key.
func isLong(key string) bool {
	if len(key) <= longestSubject/escapedLength {
		return false
	}
	length := len(key)
	for i := 0; i < len(key) && length <= longestSubject; i++ {
		if !plain[key[i]] {
			length += escapedLength - 1
		}
	}
	return length > longestSubject
}

// escapedLength is that of %XX.
const escapedLength = 3

// appendEscaped appends a byte of a caller's key, as itself or as %XX.
func appendEscaped(b []byte, c byte) []byte {
	if plain[c] {
		return append(b, c)
	}
	const hexadecimal = "0123456789ABCDEF"
	return append(b, '%', hexadecimal[c>>4], hexadecimal[c&15])
}

// plain has the bytes that a subject has as they are.
var plain = func() (plain [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/@+,*|!$()=?") {
		plain[c] = true
	}
	return plain
}()
