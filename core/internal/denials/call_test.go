package denials

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// What is known of a call follows from what is known of its checks.
func TestWhatIsKnownOfACall(t *testing.T) {
	now := int64(1_000_000)
	d, spec := at(&now), exact.SpecOf(leaky)
	ban := exact.SpecOf(exact.Params{
		Algorithm: exact.Ban, Capacity: 5, Events: 5, Period: time.Minute,
		Ban: exact.BanTerms{First: time.Minute, Factor: 2, Longest: time.Hour, Forget: time.Hour},
	})
	denied := func(spec *exact.Spec) Check {
		c := Check{Key: "denied", Spec: spec, OfBan: spec == ban, Units: 1}
		own := []Check{c}
		d.Begin(own)
		d.Denied(own, now, func(int) (Denial, bool) {
			return Denial{RetryAfter: time.Second, NextAfter: time.Second, ResetAfter: time.Second}, true
		})
		return c
	}
	limited, banned := denied(spec), denied(ban)
	with := func(c Check, change func(*Check)) Check {
		change(&c)
		return c
	}
	free := Check{Key: "free", Spec: spec, Units: 1}
	or := with(limited, func(c *Check) { c.Or = true })
	for name, c := range map[string]struct {
		checks []Check
		want   Known
	}{
		"nothing":                   {[]Check{free}, Known{}},
		"it is denied":              {[]Check{limited}, Known{Denied: 1, All: true}},
		"one of two is denied":      {[]Check{free, limited}, Known{Denied: 2}},
		"one alternative is denied": {[]Check{free, or}, Known{}},
		"the costs add up":          {[]Check{limited, limited}, Known{}},
		"it only looks":             {[]Check{with(limited, func(c *Check) { c.Units = 0 })}, Known{}},
		"it reserves for a time":    {[]Check{with(limited, func(c *Check) { c.Reserves = true })}, Known{}},
		"it is a shadow":            {[]Check{with(limited, func(c *Check) { c.Spec = spec.Shadow() })}, Known{}},
		"a ban is in force":         {[]Check{free, banned}, Known{Denied: 2, Banned: true, All: true}},
		"a ban is, with a shadow":   {[]Check{banned, with(free, func(c *Check) { c.Spec = spec.Shadow() })}, Known{Denied: 1, Banned: true}},
		"a denial strikes":          {[]Check{limited, {Key: "free", Spec: ban, OfBan: true, Units: 1, OnDenial: true}}, Known{}},
		"a denial strikes not":      {[]Check{limited, {Key: "free", Spec: ban, OfBan: true, Units: 1, Condition: true}}, Known{Denied: 1}},
	} {
		if got := d.Look(c.checks, now); got != c.want {
			t.Errorf("%s: %+v is known, want %+v", name, got, c.want)
		}
	}
}
