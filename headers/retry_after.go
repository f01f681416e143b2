package headers

import (
	"time"

	"github.com/weir-go/ratelimit/core"
)

// RetryAfter returns the value of the Retry-After field: the whole seconds,
// rounded up and at least 1, after which the request would pass all policies.
// That is the longest RetryAfter of those that refused it.
//
// It returns false if no policy refused the request, or if one of them refused
// it for good ([core.Never]), since no wait can help then. There must be no
// Retry-After in either case.
func RetryAfter(policies []Policy) (seconds int64, ok bool) {
	d, ok := longestWait(policies)
	if !ok {
		return 0, false
	}
	return secondsUp(d), true
}

// longestWait returns the time after which the request would pass all policies,
// or false if none refused it or no wait can help.
func longestWait(policies []Policy) (time.Duration, bool) {
	var longest time.Duration
	for i := range policies {
		if d := &policies[i].Decision; !d.Allowed {
			longest = max(longest, wait(d))
		}
	}
	return longest, longest != 0 && longest != core.Never
}

// wait returns the RetryAfter of a refusal. It is not 0, whatever a store may
// say, so that rounding it up gives the client some time to wait.
func wait(refusal *core.Decision) time.Duration {
	return max(refusal.RetryAfter, 1)
}

// reset returns the time that a single Reset stands for. After a refusal, it is
// the time to try again, as the drafts ask for it to be the same as Retry-After.
// Otherwise, and where no wait can help, it is the time until the key is as good
// as new.
func reset(d *core.Decision) time.Duration {
	if !d.Allowed && d.RetryAfter != core.Never {
		return wait(d)
	}
	return d.ResetAfter
}

// secondsUp returns d in whole seconds, rounded up, and 0 if d is negative.
func secondsUp(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}
