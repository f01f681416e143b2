package guardrpc

import (
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/guard/internal/rpc"
)

// Error is the error that a denied call ends with.
type Error struct {
	// Code is RESOURCE_EXHAUSTED (8) if a policy has denied the call, PERMISSION_DENIED (7) if a list or a ban has, UNAVAILABLE (14) if the store does not
	// answer and the policy fails closed, CANCELLED (1) if the client is gone, and INTERNAL (13) if a policy cannot name its check.
	Code uint32
	// Message says why, and nothing about keys, addresses or the store.
	Message string
	// Details say it to programs. The first one is google.rpc.ErrorInfo with the reason, which is RATE_LIMITED, DENIED or UNAVAILABLE. With RATE_LIMITED,
	// google.rpc.QuotaFailure has the names of the policies. Where it is known when the client may try again, google.rpc.RetryInfo says it. An error that
	// is INTERNAL or CANCELLED has none.
	Details []Detail
}

// Detail is a message of Protocol Buffers. An adapter makes it a google.protobuf.Any with the type URL "type.googleapis.com/" and the Type.
type Detail struct {
	// Type is the full name of the message, such as "google.rpc.RetryInfo".
	Type string
	// Value is the message in the binary format.
	Value []byte
}

// ErrorOf returns the error of a call that is denied.
func ErrorOf(denial *guard.Denial) Error {
	own := rpc.Denial{Status: denial.Status, Message: denial.Problem().Title, RetryAfter: denial.RetryAfter}
	denied := Error{Code: own.Code(), Message: own.Message}
	for _, detail := range own.Details(denial.ViolatedPolicies) {
		denied.Details = append(denied.Details, Detail(detail))
	}
	return denied
}

// longestPushback is the longest wait that a client is told to sleep by itself: it would sleep for longer even beyond its deadline.
const longestPushback = 5 * time.Second

// pushback returns the value of grpc-retry-pushback-ms: -1 is not to retry.
func pushback(wait time.Duration) string {
	if wait <= 0 || wait > longestPushback {
		return "-1"
	}
	return strconv.FormatInt(int64((wait+time.Millisecond-1)/time.Millisecond), 10)
}

// statusOf returns the HTTP status that stands for a code, as google.rpc.Code says it. One of the program's own is UNKNOWN.
func statusOf(code uint32) int {
	if code >= uint32(len(statuses)) {
		return http.StatusInternalServerError
	}
	return statuses[code]
}

// statuses are in the order of the codes: OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED,
// RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS and UNAUTHENTICATED.
var statuses = [...]int{200, rpc.StatusClientClosedRequest, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401}
