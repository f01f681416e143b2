package guard

import (
	"fmt"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// QueuePolicy says how requests wait for their turn or for a place.
type QueuePolicy struct {
	// MaxWait is how long a request waits for a place of a [core.Concurrent] limit. The default is 0, which denies it
	// at once. Requests that wait in a process are served in the order in which they came. Of several such policies of a
	// request, the shortest MaxWait counts.
	//
	// All policies of the request are charged when the places are taken, and none before. A request that another limit
	// denies is denied at once, with that limit's Retry-After. The wait ends with the request's context and with
	// Options.Draining. When MaxWait is over, the request is denied with 429. To answer 503 instead, have
	// Options.Denied set [Denial.Status].
	//
	// In the [Fallback] mode, and for a Shadow, no request waits. Less than 0 is an error of [New], and so is more for a
	// Limit that is not a [core.Concurrent] one. For such a limit that [Policy].LimitFor
	// picks it means nothing.
	MaxWait time.Duration

	// Undelayed is how many requests of a [core.Shaping] limit's queue pass without delay,
	// as nginx's "delay=" says: the first of a burst and Undelayed more pass at once, and
	// the others are released at the limit's pace. ("nodelay" is [core.Leaky].) The default
	// is 0, which delays all but the first. Less than 0 is an error of [New], and so is more
	// for a Limit that is not a [core.Shaping] one. For such a limit that [Policy].LimitFor picks
	// it means nothing. Units count if the policy has a [Policy].Cost.
	Undelayed int
}

// check returns the reason why it makes no sense under a limit of some kind, if it does not. The limit is not known if LimitFor chooses it.
func (q *QueuePolicy) check(limit core.Limit, kind limitKind) error {
	known := limit.Validate() == nil
	switch {
	case q.Undelayed < 0:
		return fmt.Errorf("%d undelayed requests are negative", q.Undelayed)
	case q.MaxWait < 0:
		return fmt.Errorf("a Queue.MaxWait of %v is negative", q.MaxWait)
	case known && q.Undelayed > 0 && !kind.Delays:
		return fmt.Errorf("Queue.Undelayed is %d, but %s delays no request: use core.Shaping, or leave Undelayed out", q.Undelayed, limit)
	case known && q.MaxWait > 0 && !kind.Places:
		return fmt.Errorf("Queue.MaxWait is %v, but %s has no places to wait for: use core.Concurrent, or leave MaxWait out", q.MaxWait, limit)
	}
	return nil
}
