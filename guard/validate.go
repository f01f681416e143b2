package guard

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard/internal/fallback"
	"github.com/weir-go/ratelimit/headers"
)

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
		if err := cmp.Or(p.Queue.check(p.Limit, p.kind), p.Settle.check(p.Limit, p.kind)); err != nil {
			return fmt.Errorf("policy %d: %w", i, err)
		}
		if err := (&headers.Outcome{Unit: p.Unit}).Validate(); err != nil {
			return fmt.Errorf("policy %d: %w", i, err)
		}
		if err := p.checkShare(); err != nil {
			return fmt.Errorf("policy %d: %w", i, err)
		}
		limited := p.hasLimit()
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
	}
	return nil
}

// checkShare returns the reason why the share of a policy makes no sense, if it does not.
func (p *Policy) checkShare() error {
	switch {
	case p.Share == nil && p.Weight != nil:
		return errors.New("it has a Weight and no Share: leave both out, or none")
	case p.Share == nil || p.LimitFor != nil || !p.hasLimit():
		return nil
	}
	if err := core.FairShare(core.Check{Limit: p.Limit}, "tenant", 1)[1].Limit.Validate(); err != nil {
		return fmt.Errorf("its Share: %w", err)
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
			limit = p.Ban.Ban.Limit()
		}
		if p.Shadow || isNone(limit) || limit.Validate() != nil || !named(limit) {
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

// withBans sets in a copy the Limit of each policy that is a ban and its response, a zero quota for a nil Limit, and the kind of
// each Limit. It returns the reason why a policy makes no sense, if one does not.
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
		p.kind = kindOf(p.Limit)
	}
	return policies, nil
}

// checkBan returns the reason why the ban of a policy makes no sense, if it does not.
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
	case p.Settle.Cost != nil || p.Headroom != nil || p.Share != nil || p.Unit != "" || p.Queue != QueuePolicy{}:
		return errors.New("it has a Ban, for which Settle, Headroom, Share, Unit and Queue mean nothing: leave them out")
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

// fallsBack reports whether a policy may need the fallback. It returns the reason why
// a limit cannot be shared out, if one cannot.
func fallsBack(options Options, policies []Policy) (asked bool, err error) {
	replicas := options.replicas()
	for i := range policies {
		p := &policies[i]
		if p.OnError != Fallback && (p.OnError != unsaid || options.OnError != Fallback) && options.OnOverload != Fallback {
			continue
		}
		if p.LimitFor == nil && p.Limit != core.Unlimited {
			if err := fallback.ShareOf(p.Limit, replicas).Validate(); err != nil {
				return false, fmt.Errorf("policy %d: the share of %d processes: %w", i, replicas, err)
			}
		}
		asked = true
	}
	return asked, nil
}
