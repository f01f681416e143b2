package headers

import (
	"time"

	"github.com/weir-go/ratelimit/core"
)

// RetryAfter returns the value of the Retry-After field: the whole seconds, rounded up and
// at least 1, after which the request would pass all policies. That is the longest
// RetryAfter of the policies that denied it.
//
// It returns false if no policy denied the request, or if no wait can help ([core.Never]).
// The response must have no Retry-After then.
func RetryAfter(policies []Outcome) (seconds int64, ok bool) {
	d, ok := longestWait(policies)
	if !ok {
		return 0, false
	}
	return secondsUp(d), true
}

// longestWait returns the time after which the request would pass all policies, or false
// if none denied it or no wait can help.
func longestWait(policies []Outcome) (time.Duration, bool) {
	var longest time.Duration
	for i := range policies {
		if d := &policies[i].Decision; !d.Allowed {
			longest = max(longest, wait(d))
		}
	}
	return longest, longest != 0 && longest != core.Never
}

// deny reports whether a policy has denied the request.
func deny(policies []Outcome) bool {
	for i := range policies {
		if !policies[i].Decision.Allowed {
			return true
		}
	}
	return false
}

// wait returns the RetryAfter of a denial. It is at least a nanosecond, even if a store says
// 0, so that it is a second at least once it is rounded up.
func wait(denial *core.Decision) time.Duration {
	return max(denial.RetryAfter, 1)
}

// reset returns the value of a Reset field. After a denial it is the RetryAfter, since the
// drafts ask for Reset and Retry-After to be the same. Otherwise, and if no wait can
// help, it is the time until the key has its full capacity again.
func reset(d *core.Decision) time.Duration {
	if !d.Allowed && d.RetryAfter != core.Never {
		return wait(d)
	}
	return d.ResetAfter
}
