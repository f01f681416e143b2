package guard

import (
	"fmt"
	"net/http"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/given"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Policy is one limit and its use: for which requests, by which key, at which cost. Its functions are called for every
// request, by many goroutines at once.
type Policy struct {
	// Limit is the limit. Its name, given or derived, is the policy's name in
	// headers and in problem documents.
	Limit core.Limit

	// Ban keeps a key out that has had too many strikes, in place of a Limit. The default is no ban.
	Ban BanPolicy

	// LimitFor picks a limit for each request, in place of Limit: by plan, by
	// tenant. [core.Unlimited] means that the request is not limited by this policy. A nil
	// Limit, which a map returns for a plan that it does not have, and any other limit that is
	// not valid, are answered with 500. Give the limits of plans one
	// name, so that the usage of a client stays when its plan changes.
	LimitFor func(*http.Request) core.Limit

	// By names the key that the request counts against. The default is [keyfuncs.RemoteIP], the
	// TCP peer, which is the proxy if there is one: see [keyfuncs.IP]. If requests carry
	// a header of a proxy's, Options.Logger is warned, unless RemoteIP is given here, which
	// says that the peer is meant. A request that has no key of the kind
	// ([keyfuncs.ErrNoKey]) is limited by its peer's address, as [keyfuncs.Anonymous] says.
	// Any other error is answered with 500.
	By keyfuncs.Func

	// Cost is how many units the request takes. The default is 1. With 0 it is let
	// through and reported; a negative cost is answered with 500. Of a Ban it is how many strikes the
	// request itself is, in addition to its response, and the default is 0.
	Cost func(*http.Request) int

	// Headroom is how many units have to be left when the request has been charged, or else it is denied:
	// [core.Check.Headroom]. So requests of less importance leave something for the others. The default
	// is 0; a negative headroom is answered with 500. With a Cost of 0 it means nothing. Of policies that are
	// one limit the largest counts, since a request must satisfy them all. If a middleware in front
	// has charged the limit, this one charges nothing and needs no headroom.
	Headroom func(*http.Request) int

	// Share shares the limit among tenants, as [core.FairShare] does: it names the tenant of the request, such as the account of a
	// user. The check of the tenant's share stands behind that of the limit in the call, in the headers and in reports, and its name ends
	// with "-share" if the limit has one. The limit is a leaky or a token bucket, mostly under one key for all, [keyfuncs.Global]. A
	// request without a tenant ([keyfuncs.ErrNoKey]) has its peer's address as one. A tenant that a client can choose is no
	// protection: see [Layers]. The default is no share. An alternative ([FirstOf]) has none. Of policies that are one limit, the
	// first one with a Share counts.
	Share keyfuncs.Func

	// Weight is the weight of the tenant of a request, from 1 to 1,000: by its plan, say. The default is 1. Without a Share it is an
	// error of [New]; any other number is answered with 500.
	Weight func(*http.Request) int

	// Unit is the unit that the policy counts, for clients to read in RateLimit-Policy (qu). The default, "", is requests, or, of a
	// [core.Concurrent] limit, concurrent-requests. Others are "content-bytes", which the draft registers, and words of your
	// own, such as "tokens". It changes nothing that is
	// decided, and only [headers.Draft] and its like tell it. A unit that is not printable
	// ASCII is an error of [New]. Of policies that are one limit, the first one tells its
	// unit.
	Unit string

	// Settle corrects the cost of a request that has been served. The default leaves it at Cost.
	Settle SettlePolicy

	// Queue says how requests wait for a place of a [core.Concurrent] limit, or for their turn under a [core.Shaping] one.
	Queue QueuePolicy

	// Skip exempts a request from this policy if it returns true. The default is to
	// exempt none. Never decide by an address that a client can forge.
	Skip func(*http.Request) bool

	// Shadow makes the policy decide and report to Options.Observe, and nothing
	// else: it denies no request, appears in no header, and does not hinder the other
	// policies. Its state is its own, so that the limit starts fresh when Shadow is
	// taken away.
	Shadow bool

	// OnError is the mode of this policy for when the store cannot answer. The default is
	// that of Options.OnError. Of two policies that are one limit, the stricter one decides.
	// The servers of a cluster fail one by one: the policies that can be decided are
	// decided.
	OnError ErrorMode

	or       bool                            // an alternative of the policy before it, see FirstOf
	response func(*http.Request, Served) int // see BanPolicy.response; nil: it does nothing, or there is no ban
	kind     limitKind                       // of the Limit or the Ban, once they are known
}

// PolicyFor returns the policy that the functions named after the algorithms use:
// a limit by the join of some key functions, or by the peer's address if there
// are none.
func PolicyFor(limit core.Limit, by ...keyfuncs.Func) Policy {
	policy := Policy{Limit: limit}
	if len(by) > 0 {
		policy.By = keyfuncs.Join(by...)
	}
	return policy
}

// Layers returns two policies for one [Guard]: a limit for each address, and one for each user, API key or other key
// that user.By reads from the request:
//
//	ratelimit.New(limiter, ratelimit.Options{}, guard.Layers(
//		ratelimit.Policy{Limit: core.Leaky(100, core.PerSecond(20)).Named("address")},
//		ratelimit.Policy{Limit: core.TokenBucket(20, core.PerSecond(5)).Named("user"), By: keyfuncs.Header("X-API-Key")},
//	)...)
//
// A client chooses its own user name or API key, and may choose another one for each
// request. A limit by that key alone limits no client, and fills the store with keys. A client
// cannot choose its address. Both limits are checked in one call, and a request that the
// limit by address denies leaves nothing behind: a client makes no more keys than the
// limit by address admits requests.
//
// address.By is [keyfuncs.RemoteIP] by default; name your proxies to [keyfuncs.IP].
// A request without a key of user.By's kind counts by its address there, too, as
// address.By reads it. Make the limit by address large enough for several users behind
// one address.
//
// Layers panics if user.By is nil, and if the limit by address is a Shadow, which protects
// nothing. A request that address.Skip or a Cost of 0 exempts from the
// limit by address can make as many keys as it likes.
func Layers(address, user Policy) []Policy {
	if user.By == nil {
		panic("ratelimit: Layers: the inner policy has no By, so it would be by address, too")
	}
	if address.Shadow {
		panic("ratelimit: Layers: the limit by address is a shadow, which protects nothing")
	}
	by := address.By
	if by == nil {
		by = keyfuncs.RemoteIP
	}
	user.By = keyfuncs.Or(user.By, by)
	return []Policy{address, user}
}

// asksProgram reports whether functions of the program say something about a request, other than its key.
func (p *Policy) asksProgram() bool {
	return p.LimitFor != nil && given.Is(p.LimitFor) || p.Cost != nil && given.Is(p.Cost) || p.Headroom != nil && given.Is(p.Headroom) ||
		p.Weight != nil && given.Is(p.Weight) ||
		p.Skip != nil && given.Is(p.Skip) || p.Settle.Cost != nil && given.Is(p.Settle.Cost) ||
		p.Ban.Strike != nil && given.Is(p.Ban.Strike) || p.Ban.Forgive != nil && given.Is(p.Ban.Forgive)
}

// bans reports whether a policy is a ban.
func (p *Policy) bans() bool { return p.Ban.Ban != core.Ban{} }

func (p *Policy) isOr() bool { return p.or }

// response returns a function that says how many strikes of the ban the response to a request is, or less than 0 if it forgives:
// minus as many as begin the ban, since a key has fewer. It returns nil if responses do nothing.
func (b BanPolicy) response() func(*http.Request, Served) int {
	if b.Forgive == nil && b.Strike == nil {
		return nil
	}
	return func(r *http.Request, s Served) int {
		if b.Strike != nil {
			if strikes := b.Strike(r, s); strikes > 0 {
				return strikes
			}
		}
		if b.Forgive != nil && !s.ClientGone && b.Forgive(r, s) {
			return -b.Ban.Strikes.Capacity()
		}
		return 0
	}
}

// strikesByResponse reports whether the response to a request may be a strike under the policy.
func (p *Policy) strikesByResponse() bool { return p.bans() && p.Ban.Strike != nil && !p.Shadow }

// concurrentRequests is the unit of a [core.Concurrent] limit, as the draft registers it.
const concurrentRequests = "concurrent-requests"

// unitOf returns the unit that a policy counts under a limit of some kind.
func (p *Policy) unitOf(kind limitKind) string {
	if p.Unit == "" && kind.Places {
		return concurrentRequests
	}
	return p.Unit
}

// hasLimit reports whether a policy names a limit.
func (p *Policy) hasLimit() bool { return !isNone(p.Limit) }

// isNone reports whether a limit is missing: it is nil, or the zero quota that a map of quotas returns for a missing key.
func isNone(limit core.Limit) bool { return limit == nil || limit == (core.Quota{}) }

// named reports whether a limit has got a name by [core.Quota.Named].
func named(l core.Limit) bool { return l.Identity().Capacity() == 0 }

// ErrorMode decides about a request when the store cannot answer. Of several
// policies of a request, one that fails closed decides; then one that denies.
type ErrorMode int

const (
	// unsaid is the default: in a Policy, that of the Options.
	unsaid ErrorMode = iota
	// FailOpen lets the request through, without limit headers: nothing is known
	// that they could say.
	FailOpen
	// FailClosed answers 503 with a short Retry-After, never 429: the client has
	// done nothing wrong.
	FailClosed
	// Fallback decides in this process, under its share of the limit ([core.Limit.Share] of
	// Options.Replicas). It starts a key from the last answer of the store, real costs
	// included, divided by Options.Replicas. A cost that exceeds the share, but not the limit,
	// passes when the share is full. The places of a [core.Concurrent] limit start free. A denial is a 429 with a Retry-After; limit headers are left
	// out. A Guard remembers up to 100,000 keys, at about 120 bytes each: the latest 50,000 in any case. It decides about as many.
	// Where there is no room for one more key, it fails closed.
	Fallback
)

// stricter returns the mode of two that lets less through.
func stricter(a, b ErrorMode) ErrorMode {
	for _, mode := range [...]ErrorMode{FailClosed, Fallback} {
		if a == mode || b == mode {
			return mode
		}
	}
	return FailOpen
}

// String returns the name of the mode.
func (m ErrorMode) String() string {
	switch m {
	case unsaid:
		return "unsaid"
	case FailOpen:
		return "FailOpen"
	case FailClosed:
		return "FailClosed"
	case Fallback:
		return "Fallback"
	}
	return fmt.Sprintf("ErrorMode(%d)", int(m))
}

func (m ErrorMode) known() bool { return m >= unsaid && m <= Fallback }
