package grpcratelimit

import (
	"net/http"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
)

// longestPushback is the longest wait that a client is told to sleep by itself: it would sleep for longer even beyond its deadline.
const longestPushback = 5 * time.Second

// pushback returns the value of grpc-retry-pushback-ms: -1 is not to retry.
func pushback(wait time.Duration) string {
	if wait <= 0 || wait > longestPushback {
		return "-1"
	}
	return strconv.FormatInt(int64((wait+time.Millisecond-1)/time.Millisecond), 10)
}

// errorOf returns the error of a call that is denied.
func errorOf(denial *guard.Denial) error {
	title := denial.Problem().Title
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: reasons[denial.Status], Domain: domain}}
	if denial.Status == http.StatusTooManyRequests {
		failure := new(errdetails.QuotaFailure)
		for _, policy := range denial.ViolatedPolicies {
			violation := &errdetails.QuotaFailure_Violation{Subject: "policy:" + policy, Description: title, QuotaId: policy}
			failure.Violations = append(failure.Violations, violation)
		}
		details = append(details, failure)
	}
	if denial.RetryAfter > 0 && denial.RetryAfter != core.Never {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(denial.RetryAfter)})
	}
	denied := status.New(codeOf[denial.Status], title)
	if detailed, err := denied.WithDetails(details...); err == nil {
		return detailed.Err()
	}
	return denied.Err()
}

// domain is that of the reasons.
const domain = "github.com/weir-go/ratelimit"

var reasons = map[int]string{429: "RATE_LIMITED", 403: "DENIED", 503: "UNAVAILABLE"}

// codeOf are the codes of denials, by their status.
var codeOf = map[int]codes.Code{
	429: codes.ResourceExhausted, 413: codes.ResourceExhausted, 414: codes.ResourceExhausted, 503: codes.Unavailable, 403: codes.PermissionDenied,
	499: codes.Canceled, 500: codes.Internal,
}

// statusOf are the HTTP statuses that stand for codes, as in google.rpc.Code.
var statusOf = [...]int{
	codes.OK: 200, codes.Canceled: 499, codes.Unknown: 500, codes.InvalidArgument: 400, codes.DeadlineExceeded: 504, codes.NotFound: 404,
	codes.AlreadyExists: 409, codes.PermissionDenied: 403, codes.ResourceExhausted: 429, codes.FailedPrecondition: 400, codes.Aborted: 409,
	codes.OutOfRange: 400, codes.Unimplemented: 501, codes.Internal: 500, codes.Unavailable: 503, codes.DataLoss: 500, codes.Unauthenticated: 401,
}
