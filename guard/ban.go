package guard

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard/internal/checks"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// BanPolicy keeps a key out that has had too many strikes. A request whose key is banned is denied with 403, whatever the other
// policies say, and charges nothing. All policies of the request and its bans are asked in one call.
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
	// of [New]. Whoever uses the same name for a Ban shares it: see [core.Ban].
	Ban core.Ban

	// Strike says, when a request has been served, how many strikes it was: one for a 401, say. Less than 0 counts as 0. Like
	// [SettlePolicy].Cost, it is called once for each request that was let through. The strikes are made with what other policies settle.
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
	// The strikes of a Shadow ban nobody.
	Strike func(*http.Request, Served) int

	// Forgive says, when a request has been served that was no strike, whether it clears the strikes of the key: a login of this
	// user that succeeds. It ends no ban. A request whose client has gone ([Served].ClientGone) forgives nothing, and is not asked
	// about. The default forgives nothing.
	//
	// Forgive in a ban by address and user alone, and around the login alone, where a 200 means that the password was right. In a
	// ban by address, whoever has an account of their own could clear their strikes for guessing at other accounts.
	Forgive func(*http.Request, Served) bool

	// StrikeOnDenial makes each denial of the request by another policy of this middleware a strike, in the same
	// round trip. A Shadow, a list and another ban deny nothing in this sense.
	StrikeOnDenial bool

	// Tell answers a request that the ban denies with 429 and Retry-After, in place of 403. The default is
	// to tell nobody when a ban ends.
	Tell bool
}

// bans reports whether a policy is a ban.
func (p *Policy) bans() bool { return p.Ban.Ban != core.Ban{} }

// withBans sets the Limit of each policy that is a ban, and what responses do to it, a zero quota for a nil Limit, and the kind of
// each Limit, in a copy. It returns the reason why a policy makes no sense, if one does not.
func withBans(policies []Policy) ([]Policy, error) {
	policies = slices.Clone(policies)
	for i := range policies {
		p := &policies[i]
		if err := p.checkBan(policies); err != nil {
			return nil, fmt.Errorf("policy %d: %w", i, err)
		}
		if p.bans() {
			p.Limit, p.response = p.Ban.Ban.Limit(), p.Ban.response()
		} else if !p.hasLimit() { // LimitFor chooses it
			p.Limit = core.Quota{}
		}
		p.kind = checks.KindOf(p.Limit)
	}
	return policies, nil
}

// checkBan returns the reason why what a policy says about bans makes no sense, if it does not.
func (p *Policy) checkBan(all []Policy) error {
	if !p.bans() {
		if p.Ban.Strike != nil || p.Ban.Forgive != nil || p.Ban.StrikeOnDenial || p.Ban.Tell {
			return errors.New("it has no Ban.Ban: leave Ban.Strike, Ban.Forgive, Ban.StrikeOnDenial and Ban.Tell out, too")
		}
		return nil
	}
	if err := p.Ban.Ban.Validate(); err != nil {
		return err
	}
	waits := func(other Policy) bool { return other.Queue.MaxWait > 0 }
	switch {
	case p.hasLimit() || p.LimitFor != nil:
		return errors.New("it has a Ban and a limit: make two policies of them")
	case p.Settle.Cost != nil || p.Headroom != nil || p.Unit != "" || p.Queue != QueuePolicy{}:
		return errors.New("it has a Ban, for which Settle, Headroom, Unit and Queue mean nothing: leave them out")
	case p.By == nil:
		return errors.New("it has a Ban by the TCP peer, which would ban your own proxy if there is one: set By to keyfuncs.IP" +
			" with the addresses of your proxies, or, if clients connect directly, to keyfuncs.RemoteIP")
	case p.Ban.StrikeOnDenial && p.Cost != nil:
		return errors.New("its Cost strikes by request and StrikeOnDenial by denial: choose one of them")
	case p.Ban.StrikeOnDenial && p.Shadow:
		return errors.New("it is a Shadow with StrikeOnDenial, and shadows are not told of denials: use Strike")
	case p.Ban.StrikeOnDenial && slices.ContainsFunc(all, waits):
		return errors.New("it has StrikeOnDenial beside a policy with MaxWait, and whoever waits is denied many times: use Strike, or leave MaxWait out")
	case p.Ban.Strike != nil && p.Cost != nil:
		return errors.New("its Cost strikes by request and Strike by response: choose one of them")
	case p.Ban.Forgive != nil && p.Cost != nil:
		return errors.New("its Cost strikes by request, before Forgive could tell: leave one of them out")
	case p.Ban.Ban.Extend && !p.Ban.StrikeOnDenial && p.Cost == nil:
		return errors.New("its Ban extends by strikes during it, but no handler runs then: set StrikeOnDenial or Cost, or leave Extend out")
	}
	return nil
}

// checkOfBan returns what a ban asks about a request. If it does not apply, there is no key.
func (p *Policy) checkOfBan(r *http.Request) (core.Check, error) {
	check := core.Check{Limit: p.Limit, Shadow: p.Shadow, Mode: core.Condition}
	if p.Ban.StrikeOnDenial {
		check.Mode = core.OnDenial
	}
	if p.Cost != nil {
		if check.Cost = p.Cost(r); check.Cost < 0 {
			return core.Check{}, negativeCostError(check.Cost)
		}
		if check.Cost > 0 {
			check.Mode = core.Charge
		}
	}
	key, err := p.By(r)
	if errors.Is(err, keyfuncs.ErrNoKey) { // an anonymous client is known by the peer alone
		return core.Check{}, nil
	}
	check.Key = key
	return check, err
}

// response returns a function that says what the response to a request does to the ban: how many strikes it is, or, if it forgives,
// less than 0: as many as begin the ban, since a key has fewer. It returns nil if responses do nothing.
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

// strikesByResponse reports whether what a policy's requests are answered bans.
func (p *Policy) strikesByResponse() bool { return p.bans() && p.Ban.Strike != nil && !p.Shadow }

// loneBan returns the first ban by response, if no policy beside it limits the requests in progress, or else -1. Whether the
// two have one key cannot be known of functions. A LimitFor may choose such a limit.
func loneBan(policies []Policy) int {
	for i := range policies {
		if p := &policies[i]; !p.Shadow && !hasAlternatives(policies, i) && (p.LimitFor != nil || p.kind.Places) {
			return -1
		}
	}
	return slices.IndexFunc(policies, func(p Policy) bool { return p.strikesByResponse() })
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

// countStrikes sets the costs of bans among the outcomes of a denied request: the strikes that were made.
func countStrikes(c *call, own []Outcome) {
	banned := slices.ContainsFunc(own, func(o Outcome) bool { return bannedBy(&o) })
	for i := range c.Checks {
		if o := &own[i]; o.isBan() && !o.Shadow {
			if o.Cost = 0; c.Checks[i].Mode == core.OnDenial && !banned {
				o.Cost = c.Checks[i].Units()
			}
		}
	}
}

// statusOfDenied returns the status of a request that some outcomes deny.
func (g *generation) statusOfDenied(c *call, own []Outcome) int {
	status := http.StatusTooManyRequests
	for i := range own {
		if bannedBy(&own[i]) && !c.Terms[i].TellBan {
			status = http.StatusForbidden
		}
	}
	return status
}
