package guard

import (
	"slices"

	"github.com/weir-go/ratelimit/core"
)

// tenancy is the tenant of a request under a limit that tenants share.
type tenancy struct {
	of     core.Check // the check of the limit, as its policy has it
	tenant string
	weight int
}

// check returns the check of the tenant's share behind that of its cap.
func (t *tenancy) check(of core.Check) core.Check {
	return core.FairShare(of, t.tenant, t.weight)[1]
}

// share adds the checks of shares, each behind the check of its cap. By now that costs as much as the dearest of the policies that are
// one limit.
func (c *call) share(shares []tenancy) {
	for i := range shares {
		own := &shares[i]
		place := c.find(&own.of)
		if slices.ContainsFunc(shares[:i], func(other tenancy) bool { return sameState(&other.of, &own.of) }) {
			continue
		}
		check, t := own.check(c.Checks[place]), c.Terms[place]
		t.limitKind, t.Name, t.Share = kindOf(check.Limit), check.Limit.Name(), true
		c.Checks, c.Terms = slices.Insert(c.Checks, place+1, check), slices.Insert(c.Terms, place+1, t)
	}
}
