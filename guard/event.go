package guard

import (
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
)

// Event tells [Options.Observe] about one request that met one middleware.
type Event struct {
	// Request is the request, as it came to the middleware.
	Request *http.Request
	// Outcomes are the decisions of the middleware's policies, in their order but with
	// shadow policies last. Policies without a decision are in Unanswered instead.
	// Decisions that were made without the store are Degraded.
	Outcomes []Outcome
	// Unanswered are the policies about which nothing was decided, because the store has
	// not answered, or not before the request's deadline, or because one of them could not
	// name its check. It is nil as long as all is well.
	Unanswered []Unanswered
	// Listed says that one of [Options].Lists has decided about the request: it goes on if Status is 0, and is denied
	// otherwise. Then it has no Outcomes.
	Listed bool
	// Status is 0 if the request goes on to the handler, and otherwise the status it
	// is answered with: 429 if it is denied, 403 if a list or a ban denies it, 413 if its body is
	// longer than Options.MaxKeyBody, 503 if the store could not answer and
	// the mode is FailClosed, or if the request's deadline has passed (in every mode), or if
	// the request's deadline or the server's end comes before its turn or its place, 500 if a policy
	// or [Lists].By could not name its key, and 499 if the client went away meanwhile.
	Status int
	// Err is why the store has not answered, or nil; [core.FailureOf] tells its kind. It is
	// a [context.DeadlineExceeded] if the request's own deadline has passed.
	// With Status 0 the request went through all the same: because the mode is
	// FailOpen, or Fallback and this process had nothing against it.
	Err error
	// Settled says that this is the second event of a request, which was served: with
	// the real costs in Outcomes, the status of the response, and why they could not be
	// settled in Err. If the response has waited for the settlement ([SettlePolicy].First,
	// or [Settle]), the Decision of each outcome tells the units left after it, as of a check that only
	// looks. An outcome has its earlier Decision if it was not settled, or needed no settlement, or if the response has not
	// waited.
	// A settlement that failed with [core.ErrNotDone] is tried again for two
	// seconds, of which no event tells. Only policies with Settle, Strike or Forgive have a second event.
	Settled bool
	// Reserved are the outcomes as they were decided, with the costs that were charged
	// then and by [Grow], if Settled is set. Each stands where it stands in Outcomes.
	Reserved []Outcome
	// Elapsed is how long the call took, or to settle it.
	Elapsed time.Duration
	// Held is for how long the request was held: for a place of a [core.Concurrent] limit, and then for
	// its turn under a [core.Shaping] limit. Elapsed does not count it.
	Held time.Duration
}

// Degraded reports whether the store has not answered, or not all that was asked; shadow
// policies aside, which are marked alone if they alone were not.
func (e *Event) Degraded() bool {
	if e.Settled {
		return false
	}
	return len(e.Unanswered) > 0 || slices.ContainsFunc(e.Outcomes, func(o Outcome) bool { return o.Decision.Degraded && !o.Shadow })
}

// Unanswered is a policy about which nothing was decided.
type Unanswered struct {
	// Policy is its name, as in [Outcome]; "" if that depends on a LimitFor that could not
	// tell.
	Policy string
	// Limit is the limit that was to be checked; nil where Policy is "".
	Limit core.Limit
	// Shadow says that the policy only watches.
	Shadow bool
	// Mode is the policy's mode for when the store does not answer. It is 0 if this policy is the one that could not
	// name its check.
	Mode ErrorMode
}

// Outcome is the decision of one policy about a request.
type Outcome struct {
	// Policy is the policy's name in headers and problem documents: that of its
	// limit, with a number after it if several policies of the request would have
	// the same.
	Policy string
	// Key is the key that the request counts for. It may name a person: think
	// before you log it.
	Key string
	// Unit is the unit that the policy counts: see [Policy].
	Unit string
	// Cost is how many units the check was for. Of a [Policy].Ban it is how many strikes were made, or, where it is
	// less than 0, forgiven.
	Cost int
	// Shadow says that the policy only watched.
	Shadow bool
	// Condition says that the policy is an alternative ([FirstOf]) and charges nothing, since another policy
	// of the request is the same limit: its Decision says whether its cost and headroom would fit.
	Condition bool
	// Decision is the answer. Of alternatives, one counts: the one that was charged, or, if none has room, the one that will
	// be the first to have some. The others are Waived.
	Decision core.Decision
}

// Denies reports whether the outcome keeps its request from going on. A shadow's never does.
func (o *Outcome) Denies() bool { return !o.Shadow && o.Decision.Denies() }

func anyDenied(outcomes []Outcome) bool {
	for i := range outcomes {
		if outcomes[i].Denies() {
			return true
		}
	}
	return false
}

// reported appends the outcomes that the client is told of. It is told of none
// that this process has decided by itself.
func reported(outcomes []Outcome, into []headers.Outcome) []headers.Outcome {
	for i := range outcomes {
		if o := &outcomes[i]; !o.Shadow && !o.Decision.Degraded && !o.isBan() && Counts(outcomes, i) {
			into = append(into, o.described())
		}
	}
	return into
}

// described returns the outcome as headers describe it.
func (o *Outcome) described() headers.Outcome {
	return headers.Outcome{Name: o.Policy, Unit: o.Unit, Decision: o.Decision, Key: o.Key}
}

// delay returns how long an admitted request has to be held back.
func delay(outcomes []Outcome) time.Duration {
	var longest time.Duration
	for i := range outcomes {
		if o := &outcomes[i]; !o.Shadow {
			longest = max(longest, o.Decision.Delay)
		}
	}
	return longest
}

// isBan reports whether an outcome is that of a ban.
func (o *Outcome) isBan() bool {
	_, bans := o.Decision.Limit.(core.Bans)
	return bans
}

// bannedBy reports whether an outcome is that of a ban which keeps its request from going on.
func bannedBy(o *Outcome) bool { return o.Denies() && o.isBan() }

// Banned reports whether a ban denied the request. The other policies of the middleware have no outcomes then, but
// for shadows.
func (e *Event) Banned() bool {
	for i := range e.Outcomes {
		if bannedBy(&e.Outcomes[i]) {
			return true
		}
	}
	return false
}

// Counts reports whether the outcome at a place among those of a request says something that the others do not: of
// alternatives ([FirstOf]), the one that is not Waived, and of a limit that is both an alternative and a policy
// beside it, the one that denies. So counters count each charge and each limit once.
func Counts(outcomes []Outcome, place int) bool {
	o := &outcomes[place]
	if o.Decision.Waived || o.Decision.Limit == core.Unlimited {
		return false
	}
	if o.Condition {
		return !o.Decision.Allowed
	}
	for i := range outcomes {
		if other := &outcomes[i]; other.Condition && other.Decision.Denies() &&
			other.Key == o.Key && other.Policy == o.Policy && other.Shadow == o.Shadow {
			return false
		}
	}
	return true
}
