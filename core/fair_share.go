package core

import (
	"strings"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// FairShare returns two checks for a call: the one of a limit that many tenants have together, its cap, and behind it the one of a
// tenant's share of the cap. No tenant has to be known before. A tenant that is alone gets all of the rate. Tenants that ask for more
// than there is get the same. One that asks for less gets all it asks for, and a newcomer gets its share at once:
//
//	cap := core.Check{Key: "gpu", Limit: core.TokenBucket(200, core.PerSecond(100)), Cost: tokens}
//	decisions, err := limiter.AllowAll(ctx, core.FairShare(cap, "tenant:7", 1)...)
//
// The call may have other checks around these two. The check of the cap is decided and charged as it would be alone. The other one
// has a [Decision] of its own, which says whether the tenant's share has room, in the cap's units. Both are charged, or none is. A
// settlement has a cost for each of them, the same one, and corrects both.
//
// The cap is a [Leaky] bucket or a [TokenBucket]; any other limit is an error ([ErrInvalid]). A tenant holds the units that it was
// charged and that have not drained: when the bucket drains from L units to L′, the units of each tenant shrink by L′/L. A tenant may
// hold as many units as are free, and with a weight of w as many as w times that. So n tenants that ask without end hold
// capacity/(n+1) each, and as much stays free for a newcomer. That needs a capacity of more units than tenants ask at once, times the
// usual cost. A tenant that is alone has the whole rate, and half of the capacity as its burst. If all have the weight w, it is
// w/(w+1) of the capacity, and less stays free for newcomers.
//
// A weight is from 1 to 1,000. It may be another one in each call. The name of a tenant is any text that is not empty. A client that
// can choose its name gets a share for each name: limit the clients by something they cannot choose, too. The state of a tenant lives
// until the cap would have drained all that it had when the tenant was charged last.
//
// RetryAfter of a share is the time after which the call passes if no other call is charged, to a tick of the limit's clock. Other
// calls make it longer. Units that the cap's check has as its [Check.Headroom] are not free for any tenant. All counts of limits are
// exact, but the units of a tenant are rounded up, by less than 2^-40 of the capacity. When the numbers of a named cap change, or the
// cap is [Limiter.Reset], all tenants begin anew. The checks may be conditions, look, or be shadows, and must not be alternatives
// ([FirstOf]). A call charges a cap once. Verbs of one limit take no share. Package denialcache does not remember the denial of a
// share, and [Lease] does not grant one. A ReserveFor gives units back to the cap alone. Units that
// settlements give back to the cap have the units of all tenants shrink a little faster until the next call.
func FairShare(of Check, tenant string, weight int) []Check {
	share := Check{Key: of.Key, Cost: of.Cost, Mode: of.Mode, Headroom: of.Headroom, Shadow: of.Shadow}
	if share.Limit = of.Limit; of.Limit != Unlimited {
		share.Limit = Quota{limitWith(exact.FairParams(specOf(of.Limit).Params, tenantName(tenant), weight))}
	}
	return []Check{of, share}
}

// tenantName returns the name of a tenant as a part of the names of its states.
func tenantName(tenant string) string {
	return tenantEscaper.Replace(string(call.AppendSubject(nil, tenant)))
}

// tenantEscaper escapes the characters that separate parts of the names of states and of the texts of limits.
var tenantEscaper = strings.NewReplacer(":", "%3A", "=", "%3D", ",", "%2C")

// shares reports whether a check is about a tenant's share of the cap that the check before it is about.
func (c *Check) shares() bool { return c.Limit != nil && c.Limit.known().Shared }

// validateShare returns the reason why the check at a place is no share of the check before it, or nil.
func validateShare(checks []Check, place int) error {
	c := &checks[place]
	if place == 0 {
		return invalid("core: %s is asked alone: use core.FairShare, which asks the cap, too", c.Limit)
	}
	of := &checks[place-1]
	own := Check{Key: of.Key, Limit: c.Limit, Cost: of.Cost, Mode: of.Mode, Headroom: of.Headroom, Shadow: of.Shadow}
	switch {
	case of.Limit == nil || !of.Limit.known().IsCapOf(c.Limit.known()):
		return invalid("core: check %d is about %s, and the check before it not about its cap: use core.FairShare", place, c.Limit)
	case *c != own:
		return invalid("core: check %d is about %s, and not equal to the check of its cap: use core.FairShare", place, c.Limit)
	case isEither(checks, place-1):
		return invalid("core: check %d is about %s, and its cap an alternative: neither can be one", place, c.Limit)
	}
	for i := range checks {
		if i != place-1 && checks[i].Mode == Charge && sameState(&checks[i], of) {
			return invalid("core: checks %d and %d charge the cap of %s", min(i, place-1), max(i, place-1), c.Limit)
		}
	}
	return nil
}
