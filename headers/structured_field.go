package headers

import (
	"encoding/base64"
	"strconv"
)

// The functions of this file serialise structured fields (RFC 9651). They append to the
// caller's buffer, since they run for every response.

// largest is the largest Integer.
const largest = 999_999_999_999_999

// clamp returns n, or the nearest Integer that is a count.
func clamp(n int64) int64 { return min(max(n, 0), largest) }

// isString reports whether s can be a String, which is printable ASCII.
func isString(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// appendString appends s as a String. isString(s) must hold.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}

// appendInteger appends the count n as an Integer, clamped.
func appendInteger(b []byte, n int64) []byte {
	return strconv.AppendInt(b, clamp(n), 10)
}

// appendParameter appends a parameter that is an Integer.
func appendParameter(b []byte, key string, n int64) []byte {
	b = append(b, ';')
	b = append(b, key...)
	b = append(b, '=')
	return appendInteger(b, n)
}

// appendBytes appends a Byte Sequence.
func appendBytes(b, value []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(append(b, ':'), value), ':')
}

// appendComma appends the separator before a member of a List, unless that is the first.
func appendComma(b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	return append(b, ", "...)
}
