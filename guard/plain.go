package guard

import (
	"net/http"

	"github.com/weir-go/ratelimit/core"
)

// findPlain returns the plain check of a generation, or nil if its requests need more than that.
func (g *generation) findPlain() *plain {
	p := &g.policies[0]
	switch {
	case len(g.policies) > 1, g.options.Lists.used(), g.options.ExemptPreflights:
		return nil
	case p.LimitFor != nil, p.Skip != nil, p.Shadow, p.bans():
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

// plainCheck returns the check of a request, as the functions of the policy say.
func (g *generation) plainCheck(rc *requestContext, r *http.Request) (core.Check, error) {
	p, check := &g.policies[0], g.plain.check
	if !g.plain.counts {
		if g.asks {
			rc.SetPathValues(r)
		}
		if err := p.weigh(r, &check); err != nil {
			return core.Check{}, err
		}
	}
	var err error
	if check.Key, err = p.By(r); check.Key == "" || err != nil {
		check.Key, err = orAnonymous(r, check.Key, err)
	}
	return check, err
}
