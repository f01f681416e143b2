package guard

import (
	"net/http"

	"github.com/weir-go/ratelimit/core"
)

// BanPolicy keeps a key out that has had too many strikes. A request with a banned key is denied with 403, even if no other
// policy denies it, and charges nothing. All policies of the request and its bans are asked in one call.
//
// Strike, StrikeOnDenial and [Policy].Cost say which requests are strikes, and Forgive which ones forgive them. A policy with none
// of these only heeds the bans of others. [Policy].By is needed: a ban by the TCP peer bans your own proxy if there is one, so [keyfuncs.RemoteIP] has to
// be written if that is meant. A peer of a private network is never struck or banned by its own address, nor is an address inside
// the prefixes that [keyfuncs.IP] trusts, alone or joined with the route, the method or the host. Options.Logger is warned
// once of each. A request without a key of the kind is neither.
//
// Clients are told of no limit. A ban that the store cannot be asked about is not invented: with FailOpen and
// Fallback the request goes on to the other policies.
type BanPolicy struct {
	// Ban says how many strikes begin a ban, and how long it lasts. The zero Ban is none, and then the other fields are an error
	// of [New]. Programs that use the same name for a Ban share it: see [core.Ban].
	Ban core.Ban

	// Strike says, when a request has been served, how many strikes it was: one for a 401, say. Less than 0 counts as 0. Like
	// [SettlePolicy].Cost, it is called once for each request that was let through. The strikes are made in the call that settles the other policies.
	//
	// A strike is made when the answer is known. Requests that are in progress at the same time know nothing of each other's, however
	// many they are. So give the same middleware a [core.Concurrent] limit with the same By: with n places, no more than the
	// strikes and n are served before the ban begins. The strike is made together with the place being given back.
	//
	//	guard.Policy{Limit: core.Concurrent(2, 30*time.Second), By: addressAndUser},
	//	guard.Policy{By: addressAndUser, Ban: guard.BanPolicy{
	//		Ban: guessing,
	//		Strike: func(_ *http.Request, s guard.Served) int {
	//			if s.Status == http.StatusUnauthorized {
	//				return 1
	//			}
	//			return 0
	//		},
	//		Forgive: func(_ *http.Request, s guard.Served) bool { return s.Status == http.StatusOK },
	//	}},
	//
	// The strikes of a Shadow ban no key.
	Strike func(*http.Request, Served) int

	// Forgive says, when a request has been served that was no strike, whether it clears the strikes of the key: a login of this
	// user that succeeds. It ends no ban. If the client has gone ([Served].ClientGone), Forgive is not called, and the request forgives
	// nothing. The default forgives nothing.
	//
	// Forgive in a ban by address and user alone, and around the login alone, where a 200 means that the password was right. In a
	// ban by address, an attacker with an account could clear the strikes for guesses at other accounts.
	Forgive func(*http.Request, Served) bool

	// StrikeOnDenial makes each denial of the request by another policy of this middleware a strike, in the same
	// round trip. A Shadow, a list and another ban deny nothing in this sense.
	StrikeOnDenial bool

	// Tell answers a request that the ban denies with 429 and Retry-After, in place of 403. The default is
	// to tell no client when a ban ends.
	Tell bool
}
