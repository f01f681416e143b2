package guard_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// A ban that answers strike bounds nothing for requests that are in progress at the same time. The log says so once, and not again when the
// policies are replaced.
func TestABanByResponseThatStandsAloneIsWarnedOf(t *testing.T) {
	strike := func(*http.Request, guard.Served) int { return 0 }
	by := keyfuncs.RemoteIP
	ban := core.Ban{Strikes: core.SlidingLog(3, time.Minute), First: time.Minute}.Named("brute")
	rate, places := core.Leaky(10, core.PerSecond(1)), core.Concurrent(2, time.Minute)
	alone, other := guard.Policy{Ban: guard.BanPolicy{Ban: ban, Strike: strike}, By: by}, guard.Policy{Limit: rate, By: by}
	for name, c := range map[string]struct {
		policies []guard.Policy
		warned   bool
	}{
		"alone":                           {[]guard.Policy{alone}, true},
		"beside a rate":                   {[]guard.Policy{other, alone}, true},
		"beside places of a shadow":       {[]guard.Policy{alone, {Limit: places, By: by, Shadow: true}}, true},
		"beside places as an alternative": {append(guard.FirstOf(guard.Policy{Limit: places, By: by}, other), alone), true},
		"beside places":                   {[]guard.Policy{alone, {Limit: places, By: by}}, false},
		"beside limits by plan":           {[]guard.Policy{alone, {LimitFor: func(*http.Request) core.Limit { return places }, By: by}}, false},
		"by denial":                       {[]guard.Policy{other, {Ban: guard.BanPolicy{Ban: ban, StrikeOnDenial: true}, By: by}}, false},
		"by request":                      {[]guard.Policy{{Ban: guard.BanPolicy{Ban: ban}, By: by, Cost: func(*http.Request) int { return 1 }}}, false},
		"of a shadow":                     {[]guard.Policy{{Ban: guard.BanPolicy{Ban: ban, Strike: strike}, By: by, Shadow: true}}, false},
		"of others":                       {[]guard.Policy{{Ban: guard.BanPolicy{Ban: ban}, By: by}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			j := new(journal)
			limiter := core.New(core.NewMemory())
			defer limiter.Close()
			options := j.options()
			h, err := guard.New(limiter, options, c.policies...)
			if err != nil {
				t.Fatal(err)
			}
			if c.warned {
				j.expectWarning(t, "a ban by response stands alone", "brute", "core.Concurrent")
			}
			if err := h.Swap(limiter, options, c.policies...); err != nil {
				t.Fatal(err)
			}
			j.expectNothing(t)
		})
	}
}
