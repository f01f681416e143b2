package guard

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/alternatives"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// errNoLimit is the error of a LimitFor that has returned no Limit: for a plan that is in no map, say.
var errNoLimit = errors.New("LimitFor has returned no Limit: return a limit, or core.Unlimited where there is none")

// call returns the call to make about a request, in the memory of an empty one. With an error, it returns the
// policy that could not name its check.
func (g *generation) call(r *http.Request, rc *requestContext, room call) (call, error) {
	c := call{Checks: slices.Grow(room.Checks, len(g.policies)), Terms: slices.Grow(room.Terms, len(g.policies))}
	if g.asks {
		rc.SetPathValues(r)
	}
	chooses, exempt := false, g.options.exempts(r)
	var shares []tenancy
	strikes := exempt && slices.ContainsFunc(g.policies, func(p Policy) bool { return p.Ban.Strike != nil })
	for _, shadow := range [...]bool{false, true} {
		for i := 0; i < len(g.policies); i = alternatives.End(g.policies, i, (*Policy).isOr) {
			p, end := &g.policies[i], alternatives.End(g.policies, i, (*Policy).isOr)
			// The places beside a ban bound the guesses in flight. LimitFor may pick some: that is seen below.
			if p.Shadow != shadow || exempt && !p.bans() && (!strikes || !p.kind.Places && (p.LimitFor == nil || end-i > 1)) {
				continue
			}
			if chooses = chooses || end-i > 1; end-i > 1 {
				if failed, err := g.addAlternatives(&c, r, rc, i, end); err != nil {
					return g.uncheckable(failed), fmt.Errorf("ratelimit: policy %d: %w", failed, err)
				}
				continue
			}
			if p.Skip != nil && p.Skip(r) {
				continue
			}
			if p.bans() {
				rc.watchOwnProxy()
			}
			check, err := p.check(r)
			if err != nil {
				return g.uncheckable(i), fmt.Errorf("ratelimit: policy %d: %w", i, err)
			}
			if p.bans() && (g.placement.NeverBanned(r, check.Key, rc.ownProxy.Told(), g.names[i]) || check.Key == "") {
				continue
			}
			t := g.terms(i, &check)
			if exempt && !t.Bans && !t.Places { // LimitFor has picked a rate
				continue
			}
			if check.Limit != core.Unlimited && !rc.chargedOutside(p, &check, t.limitKind) {
				c.add(check, t)
				c.MaxWait.heed(p.Queue.MaxWait, &check, t.limitKind)
				if p.Share != nil {
					own, err := p.tenancy(r, &check)
					if err != nil {
						return g.uncheckable(i), fmt.Errorf("ratelimit: policy %d: %w", i, err)
					}
					shares = append(shares, own)
				}
			}
		}
	}
	if chooses {
		if err := c.chargeOnce(g.union); err != nil {
			return c, fmt.Errorf("ratelimit: %w", err)
		}
	}
	if len(shares) > 0 {
		c.share(shares)
	}
	return c, nil
}

// addAlternatives adds to a call the checks of policies that are alternatives of each other, for a request. With an error, it
// returns the place of the policy that could not name its check.
func (g *generation) addAlternatives(c *call, r *http.Request, rc *requestContext, first, end int) (failed int, err error) {
	own := call{MaxWait: c.MaxWait}
	for i := first; i < end; i++ {
		p := &g.policies[i]
		if p.Skip != nil && p.Skip(r) {
			continue
		}
		check, err := p.check(r)
		if err != nil {
			return i, err
		}
		if check.Limit == core.Unlimited { // those behind it are never asked
			if len(own.Checks) == 0 {
				return 0, nil
			}
			check.Key = own.Checks[0].Key // it needs one
			own.append(check, g.terms(i, &check))
			break
		}
		t := g.terms(i, &check)
		if rc.chargedOutside(p, &check, t.limitKind) {
			return 0, nil
		}
		if own.find(&check) >= 0 { // it is the same as an earlier one
			continue
		}
		own.append(check, t)
		own.MaxWait.heed(p.Queue.MaxWait, &check, t.limitKind)
	}
	c.MaxWait = own.MaxWait
	c.addAlternatives(own)
	return 0, nil
}

// terms returns the terms of a policy's check.
func (g *generation) terms(policy int, check *core.Check) terms {
	p := &g.policies[policy]
	t := terms{limitKind: p.kindOf(check.Limit), Name: g.names[policy], Mode: p.OnError, Settle: p.Settle.Cost, First: p.Settle.First}
	if t.Unit = p.unitOf(t.limitKind); t.Places {
		t.Settle = nil
	}
	if p.bans() {
		t.Settle, t.TellBan = p.response, p.Ban.Tell
	}
	if t.Name == "" {
		t.Name = check.Limit.Name()
	}
	if p.OnError == unsaid {
		t.Mode = g.options.OnError
	}
	if p.bans() && t.Mode == Fallback { // a ban is not invented
		t.Mode = FailOpen
	}
	return t
}

// kindOf returns the kind of the limit of a check.
func (p *Policy) kindOf(limit core.Limit) limitKind {
	if p.LimitFor == nil {
		return p.kind
	}
	return kindOf(limit)
}

// chargedOutside reports whether a limiter in front has charged the check of a policy, of some kind. If the
// policy has a say in the cost, the check is remembered until the request is settled.
func (rc *requestContext) chargedOutside(p *Policy, check *core.Check, kind limitKind) bool {
	outer, index := rc.charged(check)
	if outer == nil {
		return false
	}
	if !kind.Places && (p.Settle.Cost != nil || check.Cost > outer.own()[index].Cost) {
		v := rc.reserving()
		v.outside = append(v.outside, outsideCharge{by: outer, index: index, settle: settling(p.Settle.Cost, check.Cost)})
	}
	return true
}

// uncheckable returns the call of a policy that could not name its check, as far as it is known.
func (g *generation) uncheckable(policy int) call {
	p, name := &g.policies[policy], g.names[policy]
	if name == "" && p.LimitFor == nil {
		name = p.Limit.Name()
	}
	return call{Checks: []core.Check{{Limit: p.Limit, Shadow: p.Shadow}}, Terms: []terms{{Name: name}}}
}

// unanswered returns the policies of a call that have no check among the decided ones.
// decided may be nil.
func unanswered(c, decided *call) []Unanswered {
	var list []Unanswered
	for i := range c.Checks {
		check, t := &c.Checks[i], &c.Terms[i]
		if decided == nil || decided.find(check) < 0 {
			list = append(list, Unanswered{Policy: t.Name, Limit: check.Limit, Shadow: check.Shadow, Mode: t.Mode})
		}
	}
	return list
}

// check returns the check of a policy for a request. If that is not limited, it has no key.
func (p *Policy) check(r *http.Request) (core.Check, error) {
	if p.bans() {
		return p.checkOfBan(r)
	}
	check := core.Check{Limit: p.Limit, Cost: 1, Shadow: p.Shadow}
	if p.LimitFor != nil {
		check.Limit = p.LimitFor(r)
		if isNone(check.Limit) {
			return core.Check{}, errNoLimit
		}
		if err := check.Limit.Validate(); err != nil {
			return core.Check{}, err
		}
	}
	if check.Limit == core.Unlimited {
		return check, nil
	}
	p.suit(&check)
	if err := p.weigh(r, &check); err != nil {
		return core.Check{}, err
	}
	key, err := p.By(r)
	check.Key, err = orAnonymous(r, key, err)
	return check, err
}

// checkOfBan returns the check of a ban for a request. If it does not apply, there is no key.
func (p *Policy) checkOfBan(r *http.Request) (core.Check, error) {
	check := core.Check{Limit: p.Limit, Shadow: p.Shadow, Mode: core.Condition}
	if p.Ban.StrikeOnDenial {
		check.Mode = core.OnDenial
	}
	if p.Cost != nil {
		if check.Cost = p.Cost(r); check.Cost < 0 {
			return core.Check{}, fmt.Errorf("cost %d is negative", check.Cost)
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

// suit sets the fields of a check that have a meaning under its limit, as the policy says.
func (p *Policy) suit(check *core.Check) {
	kind := p.kindOf(check.Limit)
	if kind.Delays {
		check.Undelayed = p.Queue.Undelayed
	}
	if kind.Reserves {
		check.ReserveFor = p.Settle.ReserveFor
	}
}

// weigh writes the cost and the headroom of a request into its check, as the policy's functions say. A request that costs
// nothing only looks.
func (p *Policy) weigh(r *http.Request, check *core.Check) error {
	if p.Cost != nil {
		check.Cost = p.Cost(r)
		if check.Cost < 0 {
			return fmt.Errorf("cost %d is negative", check.Cost)
		}
	}
	if check.Cost == 0 {
		check.Mode, check.ReserveFor = core.Look, 0
	}
	if p.Headroom != nil {
		headroom := p.Headroom(r)
		if headroom < 0 {
			return fmt.Errorf("headroom %d is negative", headroom)
		}
		if check.Mode != core.Look {
			check.Headroom = headroom
		}
	}
	return nil
}

// tenancy returns the tenant of a request under the limit of a policy's check.
func (p *Policy) tenancy(r *http.Request, check *core.Check) (tenancy, error) {
	own := tenancy{of: *check, weight: 1}
	if p.Weight != nil {
		own.weight = p.Weight(r)
	}
	tenant, err := p.Share(r)
	if own.tenant, err = orAnonymous(r, tenant, err); err != nil {
		return own, err
	}
	return own, own.check(*check).Limit.Validate()
}

// orAnonymous returns the key of a request, or the anonymous key in place of a missing one.
func orAnonymous(r *http.Request, key string, err error) (string, error) {
	if errors.Is(err, keyfuncs.ErrNoKey) || err == nil && key == "" {
		return keyfuncs.Anonymous(r)
	}
	return key, err
}

// exempts reports whether no policy but bans is asked about a request.
func (o *Options) exempts(r *http.Request) bool { return o.ExemptPreflights && isPreflight(r) }

// isPreflight reports whether a request may be a CORS preflight, which has no body. Any client can write one.
func isPreflight(r *http.Request) bool {
	hasBody := r.ContentLength != 0 || len(r.TransferEncoding) > 0
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != "" && !hasBody
}

// findPlain returns the plain check of a generation, or nil if its requests need more than that.
func (g *generation) findPlain() *plain {
	p := &g.policies[0]
	switch {
	case len(g.policies) > 1, g.options.Lists.used(), g.options.ExemptPreflights:
		return nil
	case p.LimitFor != nil, p.Skip != nil, p.Share != nil, p.Shadow, p.bans():
		return nil
	}
	quota, counts := p.Limit.(core.Quota)
	if !counts || quota == core.Unlimited || p.kind.Delays {
		return nil
	}
	check := core.Check{Limit: quota, Cost: 1}
	p.suit(&check)
	return &plain{quota: quota, check: check, terms: []terms{g.terms(0, &check)}, counts: p.Cost == nil && p.Headroom == nil && p.Settle.Cost == nil}
}
