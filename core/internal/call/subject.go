package call

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

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
