package rpc

import (
	"encoding/binary"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// Two messages of Protocol Buffers, written by hand: that is less than a dependency for
// every user.
//
// https://github.com/googleapis/googleapis/blob/master/google/rpc/status.proto
// https://github.com/googleapis/googleapis/blob/master/google/rpc/error_details.proto
// https://protobuf.dev/programming-guides/encoding

// retryInfoName is the name of the message that tells a client when to try again.
const retryInfoName = "google.rpc.RetryInfo"

// retryInfo returns a google.rpc.RetryInfo, or nil if no wait is known to help.
func (d Denial) retryInfo() []byte {
	if d.RetryAfter <= 0 || d.RetryAfter == core.Never {
		return nil
	}
	duration := appendNumber(nil, 1, int64(d.RetryAfter/time.Second))
	duration = appendNumber(duration, 2, int64(d.RetryAfter%time.Second))
	return appendBytes(nil, 1, duration)
}

// status returns a google.rpc.Status with a RetryInfo for its only detail.
func status(number int, message string, retryInfo []byte) []byte {
	detail := appendBytes(nil, 1, []byte("type.googleapis.com/"+retryInfoName)) // a google.protobuf.Any
	detail = appendBytes(detail, 2, retryInfo)
	b := appendNumber(nil, 1, int64(number))
	b = appendBytes(b, 2, []byte(message))
	return appendBytes(b, 3, detail)
}

// appendNumber appends a field of an integer type that is not negative. 0 is left out, as
// Protocol Buffers do.
func appendNumber(b []byte, field byte, n int64) []byte {
	if n == 0 {
		return b
	}
	return binary.AppendUvarint(append(b, field<<3), uint64(n))
}

// appendBytes appends a field that is a string or a message.
func appendBytes(b []byte, field byte, value []byte) []byte {
	const lengthPrefixed = 2
	b = binary.AppendUvarint(append(b, field<<3|lengthPrefixed), uint64(len(value)))
	return append(b, value...)
}
