package ratelimit

import (
	"context"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// The names below are those of package guard, the engine, so that a program has to import
// this package and core alone. All adapters have the same ones.

// Policy is one limit and what it applies to: whose key is checked, what a request costs,
// who is exempt, and what happens when the store cannot answer. Limit or LimitFor is
// required; every other field has a default. The fields are described at [guard.Policy].
type Policy = guard.Policy

// Options say how a middleware answers: which headers it writes, what a denial looks
// like, what happens when the store cannot answer, and who is told. The zero value is
// ready to use. The fields are described at [guard.Options].
type Options = guard.Options

// Lists say who passes before any policy is asked, and who is denied: those of package
// lists, in Options.Lists. The fields are described at [guard.Lists].
type Lists = guard.Lists

// Listed says in an [Event] whether one of Options.Lists has decided about the request.
type Listed = guard.Listed

const (
	// Unlisted says that no list has decided about a request, but the policies.
	Unlisted = guard.Unlisted
	// ListAllowed says that a request goes on because of Lists.Allow.
	ListAllowed = guard.ListAllowed
	// ListDenied says that a request is denied because of Lists.Deny.
	ListDenied = guard.ListDenied
)

// ErrorMode says what happens to a request when the store cannot answer: [FailOpen],
// [FailClosed] or [Fallback]. The zero value means the default of the field that it is in.
type ErrorMode = guard.ErrorMode

const (
	// FailOpen lets the request through, without limit headers. It is the default when
	// the store cannot answer.
	FailOpen = guard.FailOpen
	// FailClosed answers 503 with a short Retry-After. It is the default when this process
	// is overloaded: see Options.OnOverload.
	FailClosed = guard.FailClosed
	// Fallback decides in this process, under its share of the limit (Options.Replicas).
	Fallback = guard.Fallback
)

// Event tells Options.Observe what was decided about one request that met one middleware:
// the outcome of each policy, the status of the answer, why the store did not answer, and
// how long that took. The fields are described at [guard.Event].
type Event = guard.Event

// Outcome is what one policy decided about one request: its name, the key, the cost, and
// the [core.Decision].
type Outcome = guard.Outcome

// Unanswered is a policy about which nothing was decided, since the store did not answer
// or the policy could not say what to check. An [Event] lists them.
type Unanswered = guard.Unanswered

// Denial is the answer to a request that may not go on: why, by which policies, and when
// the client may try again. Options.Denied is given one, and [guard.Denial.ServeHTTP]
// writes the usual answer.
type Denial = guard.Denial

// Problem is the problem document (RFC 9457) that a denied client gets. It names the
// violated policies, and says nothing about keys, addresses or the store.
type Problem = guard.Problem

// ProblemType is the media type of a [Problem]: application/problem+json.
const ProblemType = guard.ProblemType

// Served is what became of a request that was let through: the status and the size of the
// response, and whether the handler panicked. Policy.Settle decides by it what the request
// has really cost.
type Served = guard.Served

// Handle is a set of policies that another one can replace while requests are served, by
// Swap. [Use] makes a middleware of it. It may be used by many goroutines at once.
type Handle = guard.Handle

// NewHandle returns a Handle with these policies. It returns the reason as an error where
// [New] panics.
func NewHandle(l *core.Limiter, options Options, policies ...Policy) (*Handle, error) {
	return guard.NewHandle(l, options, policies...)
}

// RuleSet is where [FromPolicies] finds policies: a Set of package policies.
type RuleSet = guard.RuleSet

// Errors in [Event].Err, for [errors.Is].
var (
	// ErrNoLimit means that a LimitFor has returned the zero [core.Limit].
	ErrNoLimit = guard.ErrNoLimit
	// ErrNegativeCost means that a Cost has returned less than 0.
	ErrNegativeCost = guard.ErrNegativeCost
	// ErrNegativeHeadroom means that a Headroom has returned less than 0.
	ErrNegativeHeadroom = guard.ErrNegativeHeadroom
	// ErrSameAlternative means that two policies with alternatives are one limit for a request.
	ErrSameAlternative = guard.ErrSameAlternative
	// ErrBodyTooLong means that a function of a policy or a list wanted to read more of a body than Options.MaxKeyBody.
	ErrBodyTooLong = guard.ErrBodyTooLong
	// ErrNotReserved means that [Grow] found nothing that could grow.
	ErrNotReserved = guard.ErrNotReserved
	// ErrDraining means that Options.Draining has ended the wait of a request, for its turn or a place.
	ErrDraining = guard.ErrDraining
)

// Comparison counts how the verdicts of a shadow policy compare with those of the policies
// that are enforced: see [Compare]. The zero value is ready to use, by many goroutines at
// once. It must not be copied.
type Comparison = guard.Comparison

// PolicyFor returns the policy that the functions named after the algorithms use: a limit
// by the join of some key functions, or by the peer's address if there are none.
func PolicyFor(limit core.Limit, by ...keyfuncs.Func) Policy { return guard.PolicyFor(limit, by...) }

// Layers returns the policies of [Layered], for [New] where there are more of them. It
// panics if user.By is nil, and if address.Shadow is set.
func Layers(address, user Policy) []Policy { return guard.Layers(address, user) }

// FirstOf makes policies alternatives of each other, for [New]: the first that has room is charged, and the
// others cost nothing. It is described at [guard.FirstOf].
func FirstOf(policies ...Policy) []Policy { return guard.FirstOf(policies...) }

// Counts reports whether the outcome at a place among those of a request counts: of alternatives
// ([FirstOf]), the one that was charged, or that will be the first to have room.
func Counts(outcomes []Outcome, place int) bool { return guard.Counts(outcomes, place) }

// OutcomesFrom returns what the limiters in front of a handler have decided about its
// request, the outermost first. It takes the context of the request. The result is nil if
// no limiter has decided, or if the store could not answer. It must not be changed.
func OutcomesFrom(ctx context.Context) []Outcome { return guard.OutcomesFrom(ctx) }

// Spend tells how many units a request has spent, for a Policy.Settle to read in
// [Served].Spent. It takes the context of the request. The units of several calls are added
// up; less than 0 takes back what was told before. [guard.Spend] says what is lost.
func Spend(ctx context.Context, units int) { guard.Spend(ctx, units) }

// AsOwn returns a context for a request that a handler makes and serves itself, such as one of a batch: limiters charge
// it by itself. It takes the context of the handler's request. [guard.AsOwn] says more.
func AsOwn(ctx context.Context) context.Context { return guard.AsOwn(ctx) }

// Grow reserves more for a request whose handler finds out that it takes more than its Cost, such as a stream that goes
// on: total units in all under each of some limits, in one call, all or none. It takes the context of the request. If it
// is denied, the handler ends the stream, or waits. [guard.Grow] says more.
func Grow(ctx context.Context, total int, limits ...core.Limit) (core.Decision, error) {
	return guard.Grow(ctx, total, limits...)
}

// Settle settles a request now, before its handler returns, and returns what is left: for a trailer, or the last event of
// a stream. It takes the context of the request. [guard.Settle] says more.
func Settle(ctx context.Context) []Outcome { return guard.Settle(ctx) }

// PermitFrom returns the places that a request holds under [core.Concurrent] limits, or nil if it holds none: to
// work with [core.Permit.Context], to give [core.Permit.Token] to a resource, or to release them early. It takes the
// context of the request. They are given back when the handler has returned, in any case: see [guard.PermitFrom].
func PermitFrom(ctx context.Context) *core.Permit { return guard.PermitFrom(ctx) }

// Compare returns an Options.Observe that counts into c how the verdict of a shadow policy
// compares with that of the policies that are enforced. candidate is the name of the shadow
// policy's limit. next is told every event, too; it may be nil.
func Compare(c *Comparison, candidate string, next func(Event)) func(Event) {
	return guard.Compare(c, candidate, next)
}
