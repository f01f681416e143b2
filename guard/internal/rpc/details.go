package rpc

import (
	"encoding/binary"
	"net/http"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// Messages of Protocol Buffers, written by hand: that is less than a dependency for
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

// Detail is a message of Protocol Buffers that tells programs about a denial.
type Detail struct {
	// Type is its full name, and Value its bytes.
	Type  string
	Value []byte
}

// domain is that of the reasons.
const domain = "github.com/weir-go/ratelimit"

// reasons are those of google.rpc.ErrorInfo, by the Status.
var reasons = map[int]string{http.StatusTooManyRequests: "RATE_LIMITED", http.StatusForbidden: "DENIED", http.StatusServiceUnavailable: "UNAVAILABLE"}

// Code returns the number of the error code that stands for the Status.
func (d Denial) Code() uint32 { return uint32(d.code().number) }

// Details returns the details of a denial by some policies: google.rpc.ErrorInfo, QuotaFailure and RetryInfo, as far as there is something to tell.
func (d Denial) Details(policies []string) (all []Detail) {
	if reason := reasons[d.Status]; reason != "" {
		all = append(all, Detail{"google.rpc.ErrorInfo", appendBytes(appendBytes(nil, 1, []byte(reason)), 2, []byte(domain))})
	}
	if d.Status == http.StatusTooManyRequests && len(policies) > 0 {
		const quotaID = 5
		var violations []byte
		for _, policy := range policies {
			violation := appendBytes(appendBytes(nil, 1, []byte("policy:"+policy)), 2, []byte(d.Message))
			violations = appendBytes(violations, 1, appendBytes(violation, quotaID, []byte(policy)))
		}
		all = append(all, Detail{"google.rpc.QuotaFailure", violations})
	}
	if info := d.retryInfo(); info != nil {
		all = append(all, Detail{retryInfoName, info})
	}
	return all
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
