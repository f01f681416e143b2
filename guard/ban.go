package guard

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/algorithm"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// bans reports whether a policy is a ban.
func (p *Policy) bans() bool { return p.Ban != core.Ban{} }

// withBans returns policies of which those that are bans have the limit of their ban, or the reason why one of them
// makes no sense.
func withBans(policies []Policy) ([]Policy, error) {
	policies = slices.Clone(policies)
	for i := range policies {
		p := &policies[i]
		if err := p.checkBan(policies); err != nil {
			return nil, fmt.Errorf("policy %d: %w", i, err)
		}
		if p.bans() {
			p.Limit = p.Ban.Limit()
		}
	}
	return policies, nil
}

// checkBan returns the reason why what a policy says about bans makes no sense, if it does not.
func (p *Policy) checkBan(all []Policy) error {
	if !p.bans() {
		if p.Strike != nil || p.StrikeOnDenial || p.TellBan {
			return errors.New("it has no Ban: leave Strike, StrikeOnDenial and TellBan out, too")
		}
		return nil
	}
	if err := p.Ban.Validate(); err != nil {
		return err //nolint:wrapcheck // it says all
	}
	waits := func(other Policy) bool { return other.MaxWait > 0 }
	switch {
	case p.Limit != core.Limit{} || p.LimitFor != nil:
		return errors.New("it has a Ban and a limit: make two policies of them")
	case p.Settle != nil || p.Headroom != nil || p.Unit != "" || p.Undelayed != 0 || p.MaxWait != 0:
		return errors.New("it has a Ban, for which Settle, Headroom, Unit, Undelayed and MaxWait mean nothing: leave them out")
	case p.By == nil:
		return errors.New("it has a Ban by the TCP peer, which would ban your own proxy if there is one: set By to keyfuncs.IP" +
			" with the addresses of your proxies, or, if clients connect directly, to keyfuncs.RemoteIP")
	case p.StrikeOnDenial && p.Cost != nil:
		return errors.New("its Cost strikes by request and StrikeOnDenial by denial: choose one of them")
	case p.StrikeOnDenial && p.Shadow:
		return errors.New("it is a Shadow with StrikeOnDenial, and shadows are not told of denials: use Strike")
	case p.StrikeOnDenial && slices.ContainsFunc(all, waits):
		return errors.New("it has StrikeOnDenial beside a policy with MaxWait, and whoever waits is denied many times: use Strike, or leave MaxWait out")
	case p.Strike != nil && p.Cost != nil:
		return errors.New("its Cost strikes by request and Strike by response: choose one of them")
	case p.Ban.Extend && !p.StrikeOnDenial && p.Cost == nil:
		return errors.New("its Ban extends by strikes during it, but no handler runs then: set StrikeOnDenial or Cost, or leave Extend out")
	}
	return nil
}

// checkOfBan returns what a ban asks about a request. If it does not apply, there is no key.
func (p *Policy) checkOfBan(r *http.Request) (core.Check, error) {
	check := core.Check{Limit: p.Limit, Shadow: p.Shadow, Mode: core.Condition}
	if p.StrikeOnDenial {
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

// strikesByResponse reports whether what a policy's requests are answered bans.
func (p *Policy) strikesByResponse() bool { return p.bans() && p.Strike != nil && !p.Shadow }

// loneBan returns the first ban by response, if no policy beside it limits the requests in progress, or else -1. Whether the
// two have one key cannot be known of functions. A LimitFor may choose such a limit.
func loneBan(policies []Policy) int {
	for i := range policies {
		if p := &policies[i]; !p.Shadow && !hasAlternatives(policies, i) && (p.LimitFor != nil || algorithm.Holds(p.Limit)) {
			return -1
		}
	}
	return slices.IndexFunc(policies, func(p Policy) bool { return p.strikesByResponse() })
}

// isBan reports whether an outcome is that of a ban.
func (o *Outcome) isBan() bool { return algorithm.Bans(o.Decision.Limit) }

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
func (g *Guard) statusOfDenied(c *call, own []Outcome) int {
	status := http.StatusTooManyRequests
	for i := range own {
		if bannedBy(&own[i]) && !c.Terms[i].TellBan {
			status = http.StatusForbidden
		}
	}
	return status
}
