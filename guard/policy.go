package guard

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard/internal/mistakes"
	"github.com/weir-go/ratelimit/headers"
	"github.com/weir-go/ratelimit/internal/algorithm"
	"github.com/weir-go/ratelimit/internal/given"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// Policy is one limit and what it applies to. Its functions are called for every
// request, by many goroutines at once.
type Policy struct {
	// Limit is the limit. Its name, given or derived, is the policy's name in
	// headers and in problem documents.
	Limit core.Limit

	// Ban keeps a key out that has had too many strikes, in place of a Limit. A request whose key is banned is denied
	// with 403, whatever the other policies say, and charges nothing. All policies of the request and its bans are
	// asked in one call. Whoever uses the same name for a Ban shares it: see [core.Ban].
	//
	// What a strike is Strike, StrikeOnDenial and Cost say; a policy with none of them only heeds the bans of
	// others. By is needed: a ban by the TCP peer bans your own proxy if there is one, so [keyfuncs.RemoteIP] has to
	// be written if that is meant. A peer of a private network is never struck or banned by its own address, nor is an address inside
	// the prefixes that [keyfuncs.IP] trusts, alone or joined with the route, the method or the host. Options.Logger is warned
	// once of each. A request without a key of the kind is neither.
	//
	// Clients are told of no limit. A ban that the store cannot be asked about is not invented: with FailOpen and
	// Fallback the request goes on to the other policies.
	Ban core.Ban

	// Strike says, when a request has been served, how many strikes it was: a 401, say. Less than 0 forgives as many
	// of the key's latest strikes, and [core.Forgive] all of them: a login of this user that succeeds. Like Settle, it is called
	// once for each request that was let through. What it returns is carried out with what other policies settle.
	//
	// A strike is made when the answer is known. Requests that are in progress at the same time know nothing of each other's, however
	// many they are. So give the same middleware a [core.Concurrent] limit with the same By: with n places, no more than the
	// strikes and n are served before the ban begins. The strike is made together with the place being given back.
	//
	//	guard.Policy{Limit: core.Concurrent(2, 30*time.Second), By: addressAndUser},
	//	guard.Policy{Ban: guessing, By: addressAndUser, Strike: func(_ *http.Request, s guard.Served) int {
	//		switch s.Status {
	//		case http.StatusUnauthorized:
	//			return 1
	//		case http.StatusOK:
	//			return core.Forgive
	//		}
	//		return 0
	//	}},
	//
	// Forgive in a ban by address and user alone, and around the login alone, where a 200 means that the password was right. In a
	// ban by address, whoever has an account of their own could clear their strikes for guessing at other accounts.
	//
	// The strikes of a Shadow ban nobody.
	Strike func(*http.Request, Served) int

	// StrikeOnDenial makes each denial of the request by another policy of this middleware a strike, in the same
	// round trip. A Shadow, a list and another ban deny nothing in this sense.
	StrikeOnDenial bool

	// TellBan answers a request that the ban denies with 429 and Retry-After, in place of 403. The default is
	// to tell nobody when a ban ends.
	TellBan bool

	// LimitFor picks a limit for each request, in place of Limit: by plan, by
	// tenant. [core.Unlimited] means that the request is not limited by this policy. The zero
	// Limit, which a map returns for a plan that it does not have, and any other limit that is
	// not valid, are answered with 500. Give the limits of plans one
	// name, so that a client who changes plans keeps what it has used.
	LimitFor func(*http.Request) core.Limit

	// By says whose traffic the request is. The default is [keyfuncs.RemoteIP], the
	// TCP peer, which is the proxy if there is one: see [keyfuncs.IP]. If requests carry
	// a header of a proxy's, Options.Logger is warned, unless RemoteIP is given here, which
	// says that the peer is meant. A request that has no key of the kind
	// ([keyfuncs.ErrNoKey]) is limited by its peer's address, as [keyfuncs.Anonymous] says.
	// Any other error is answered with 500.
	By keyfuncs.Func

	// Cost is how many units the request takes. The default is 1. With 0 it is let
	// through and reported; a negative cost is answered with 500. Of a Ban it is how many strikes the
	// request itself is, whatever becomes of it, and the default is 0.
	Cost func(*http.Request) int

	// Headroom is how many units have to be left when the request has been charged, or else it is denied:
	// [core.Check.Headroom]. So requests of less importance leave something for the others. The default
	// is 0; a negative headroom is answered with 500. With a Cost of 0 it means nothing. Of policies that are
	// one limit the largest counts, since a request must satisfy them all. If a middleware in front
	// has charged the limit, this one charges nothing and needs no headroom.
	Headroom func(*http.Request) int

	// Unit is what the policy counts, for clients to read in RateLimit-Policy (qu). The default, "", is requests, or, of a
	// [core.Concurrent] limit, concurrent-requests. Others are "content-bytes", which the draft registers, and words of your
	// own, such as "tokens". It changes nothing that is
	// decided, and only [headers.Draft] and its like tell it. A unit that is not printable
	// ASCII is an error of [New]. Of policies that are one limit, the first one tells its
	// unit.
	Unit string

	// Undelayed is how many requests of a [core.Shaping] limit's queue pass without delay,
	// as nginx's "delay=" says: the first of a burst and so many behind it pass at once, and
	// the others are released at the limit's pace. ("nodelay" is [core.Leaky].) The default
	// is 0, which delays all but the first. Less than 0 is an error of [New], and so is more
	// for a Limit that is not a [core.Shaping] one. For such a limit that LimitFor picks it
	// means nothing. Units count if the policy has a Cost.
	Undelayed int

	// MaxWait is how long a request waits for a place of a [core.Concurrent] limit. The default is 0, which denies it
	// at once. In a process, those that wait are served in the order in which they came. Of several such policies of a
	// request, the shortest MaxWait counts.
	//
	// All policies of the request are charged when the places are taken, and none before. A request that another limit
	// denies is denied at once, with that limit's Retry-After. The wait ends with the request's context and with
	// Options.Draining. A request whose wait has ended is denied with 429. To answer 503 instead, have
	// Options.Denied set [Denial.Status].
	//
	// In the [Fallback] mode, and for a Shadow, nobody waits. Less than 0 is an error of [New], and so is more for a
	// Limit that is not a [core.Concurrent] one. For such a limit that LimitFor picks it means nothing.
	MaxWait time.Duration

	// Settle says, when a request has been served, what it has really cost; Cost is then
	// an estimate that is reserved. It is given the request as the handler was, and what
	// became of it. The difference is given back or charged in one call for all policies
	// of the request, into the window that was charged: see [core.Reservation.Settle].
	// What only the handler finds out it tells by [Spend].
	// Less than 0 counts as 0. The default leaves what was charged.
	//
	// It is called exactly once when the handler has run, also when that has panicked,
	// streamed, or lost its client. Where the handler has taken the connection over, it is
	// called when the handler returns, even if the connection stays open. It is not called
	// for requests that this middleware has denied or has let through unchecked. If the
	// handler leaves an error or a panic for others to answer, it is called when that answer
	// begins, or at the latest when the request ends. In the latter case it runs on another
	// goroutine, the body is closed, and of the framework's own context only the route is
	// known.
	//
	// A response that is not flushed leaves the server after it has been settled, one round
	// trip later if the cost has changed. What the store has certainly not settled by then
	// is tried again in the background for two seconds: see [core.Reservation.SettleLater].
	// A reservation stays charged if its process dies, unless the policy has a ReserveFor.
	//
	// Two policies of a request with one limit and one key are one limit, which is charged
	// once: the greater Cost is reserved, and the greater result of Settle is charged. A
	// policy without Settle counts with its Cost. The same holds for a policy further
	// inside whose limit a middleware in front has charged. It gives nothing back there,
	// and if its cost is greater, the rest is charged when the request has been served. A
	// Shadow in front is charged the rest only if it has a Settle.
	//
	// Reserve at least 1: a request with a Cost of 0 is never denied, whatever it is charged
	// afterwards.
	//
	// The response does not wait for the settlement, which is sent before it ends: see SettleFirst. [core.Limiter.Close]
	// waits for those that are under way.
	//
	// It is not asked about a [core.Concurrent] limit, whose places are all given back.
	Settle func(*http.Request, Served) int

	// SettleFirst has the response end only when the request is settled, a round trip later if the cost has changed. It is
	// for who has to find the real cost charged in all processes once the client has its answer, and for an
	// Options.Observe that reads what is left then. The default is not to wait. A request that strikes or forgives is always settled
	// first, with all its policies. It needs Settle: without one it is an error of [New].
	SettleFirst bool

	// ReserveFor is for how long the Cost of a request is reserved, and what [Grow] adds to it. If this process dies, it is
	// given back then: [core.Check.ReserveFor] says how. It is right for tokens per minute, and wrong for money, which is
	// spent all the same. It has to be longer than the longest request: one that is settled later is charged its
	// whole real cost, as of then, and the log says so.
	//
	// The default is 0, which leaves it charged. Any other time has to be from a millisecond to a day. It needs Settle. It is
	// an error of [New] with a [core.Concurrent] limit, which has a lease, a [core.Shaping] one, or a [core.Calendar] one,
	// whose units stay paid; for such a limit that LimitFor picks it means nothing. Of policies that are one limit the longest counts, and 0 is the longest.
	ReserveFor time.Duration

	// Skip exempts a request from this policy if it returns true. The default is to
	// exempt none. Never decide by an address that a client can forge.
	Skip func(*http.Request) bool

	// Or makes the policy an alternative of the one before it: see [FirstOf], which sets it. For the first policy
	// it is an error of [New], and so it is if only one of the two is a Shadow.
	Or bool

	// Shadow makes the policy decide and report to Options.Observe, and nothing
	// else: it denies nobody, appears in no header, and does not hinder the other
	// policies. Its state is its own, so that the limit starts fresh when Shadow is
	// taken away.
	Shadow bool

	// OnError says what this policy does when the store cannot answer. The default is
	// that of Options.OnError. Of two policies that are one limit, the stricter one decides.
	// In a cluster, whose servers fail one by one, the policies that can be decided are
	// decided.
	OnError ErrorMode
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

// Layers returns two policies for one [Guard]: a limit by address, and one by what
// user.By reads from the request, such as a user name or an API key, which the client
// chooses. A request without such a key counts by its address there, too, as address.By
// reads it, which is [keyfuncs.RemoteIP] by default.
//
// A client may choose another key for each request. A limit by that alone limits nobody,
// and fills the store with keys. Both limits are checked in one call, and a request that
// the limit by address denies leaves nothing behind.
//
// Layers panics if user.By is nil, and if address.Shadow is set: that protects nothing.
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
	user.By = keyfuncs.FirstOf(user.By, by)
	return []Policy{address, user}
}

// asksProgram reports whether functions of the program say something about a request, other than its key.
func (p *Policy) asksProgram() bool {
	return p.LimitFor != nil && given.Is(p.LimitFor) || p.Cost != nil && given.Is(p.Cost) || p.Headroom != nil && given.Is(p.Headroom) ||
		p.Skip != nil && given.Is(p.Skip) || p.Settle != nil && given.Is(p.Settle) || p.Strike != nil && given.Is(p.Strike)
}

// named reports whether a limit has got a name by [core.Limit.Named].
func named(l core.Limit) bool { return l.Identity().Capacity() == 0 }

// checkPolicies returns the reason why policies make no sense, if they do not.
func checkPolicies(policies []Policy) error {
	if len(policies) == 0 {
		return errors.New("no policy given")
	}
	if err := checkAlternatives(policies); err != nil {
		return err
	}
	for i := range policies {
		p := &policies[i]
		if !p.OnError.known() {
			return fmt.Errorf("policy %d: OnError is %v, want FailOpen, FailClosed or Fallback", i, p.OnError)
		}
		if p.Undelayed < 0 {
			return fmt.Errorf("policy %d: %d undelayed requests are negative", i, p.Undelayed)
		}
		if p.MaxWait < 0 {
			return fmt.Errorf("policy %d: a MaxWait of %v is negative", i, p.MaxWait)
		}
		if p.ReserveFor != 0 && (p.ReserveFor < time.Millisecond || p.ReserveFor > 24*time.Hour) {
			return fmt.Errorf("policy %d: a ReserveFor of %v is not from 1ms to 24h", i, p.ReserveFor)
		}
		if p.ReserveFor > 0 && p.Settle == nil {
			return fmt.Errorf("policy %d: ReserveFor is %v, but nothing is settled: set Settle, or leave ReserveFor out", i, p.ReserveFor)
		}
		if p.SettleFirst && p.Settle == nil {
			return fmt.Errorf("policy %d: SettleFirst is set, but nothing is settled: set Settle, or leave SettleFirst out", i)
		}
		if err := (&headers.Policy{Unit: p.Unit}).Validate(); err != nil {
			return fmt.Errorf("policy %d: %w", i, err)
		}
		limited := p.Limit != core.Limit{}
		switch {
		case limited && p.LimitFor != nil:
			return fmt.Errorf("policy %d has both a Limit (%s) and a LimitFor: leave one of them out", i, p.Limit)
		case !limited && p.LimitFor == nil:
			return fmt.Errorf("policy %d has no limit: set Limit or LimitFor", i)
		}
		if !limited {
			continue
		}
		if err := p.Limit.Validate(); err != nil {
			return fmt.Errorf("policy %d: %w", i, err)
		}
		if p.Undelayed > 0 && !algorithm.Delays(p.Limit) {
			return fmt.Errorf("policy %d: Undelayed is %d, but %s delays nobody: use core.Shaping, or leave Undelayed out", i, p.Undelayed, p.Limit)
		}
		if p.MaxWait > 0 && !algorithm.Holds(p.Limit) {
			return fmt.Errorf("policy %d: MaxWait is %v, but %s has no places to wait for: use core.Concurrent, or leave MaxWait out", i, p.MaxWait, p.Limit)
		}
		if p.ReserveFor > 0 && !algorithm.Reserves(p.Limit) {
			return fmt.Errorf("policy %d: ReserveFor is %v, which does not suit %s: leave ReserveFor out", i, p.ReserveFor, p.Limit)
		}
	}
	return nil
}

// checkNames returns an error if two limits have one name. Header fields compare names without regard to case.
func checkNames(policies []Policy) error {
	given := make(map[string]int) // to which policy
	for i := range policies {
		p := &policies[i]
		limit := p.Limit
		if p.bans() {
			limit = p.Ban.Limit()
		}
		if p.Shadow || limit == (core.Limit{}) || limit.Validate() != nil || !named(limit) {
			continue
		}
		name := strings.ToLower(limit.Name())
		if j, taken := given[name]; taken {
			if p.Limit == policies[j].Limit && (hasAlternatives(policies, i) || hasAlternatives(policies, j)) {
				continue // by one key they are one limit, of which the alternative charges nothing
			}
			return fmt.Errorf("policies %d and %d are both named %q", j, i, limit.Name())
		}
		given[name] = i
	}
	return nil
}

// unnamedByPeer returns the limits of policies that count for each other wherever they stand: those by the
// default key, without a name.
func unnamedByPeer(policies []Policy) []mistakes.Limit {
	var limits []mistakes.Limit
	for i := range policies {
		if p := &policies[i]; p.By == nil && p.LimitFor == nil && !named(p.Limit) && p.Limit != core.Unlimited {
			limits = append(limits, mistakes.Limit{Limit: p.Limit, Shadow: p.Shadow})
		}
	}
	return limits
}

// peerOf returns what the TCP peer is used for: as the key of a policy that names none, and as the address
// that is looked up in lists that name none.
func peerOf(o *Options, policies []Policy) mistakes.Peer {
	peer := mistakes.Peer{Lists: o.Lists.used() && o.Lists.Address == nil}
	for i := range policies {
		if p := &policies[i]; p.By == nil {
			peer.Counts, peer.Policy = true, p.Limit.Name()
			break
		}
	}
	return peer
}
