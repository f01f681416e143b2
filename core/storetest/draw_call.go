package storetest

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// drawCall draws some checks of the history's keys under its limits. Versions of one named limit do not meet on a key.
func (h *history) drawCall(t *rapid.T) []core.Check {
	var checks []core.Check
	count := 1
	if rapid.Bool().Draw(t, "several") {
		count = rapid.IntRange(2, 4).Draw(t, "checks")
	}
	for range count {
		c := core.Check{Key: rapid.SampledFrom(h.keys).Draw(t, "key"), Limit: rapid.SampledFrom(h.limits).Draw(t, "limit")}
		c.Mode = rapid.SampledFrom([]core.Mode{core.Charge, core.Charge, core.Charge, core.Charge, core.Charge, core.Charge, core.Charge, core.Charge, core.Condition, core.Look}).Draw(t, "mode")
		if c.Mode != core.Look {
			c.Cost = drawAnyCost(t, c.Limit)
			if rapid.IntRange(0, 3).Draw(t, "with headroom") == 0 {
				c.Headroom = drawHeadroom(t, c)
			}
		}
		c.Shadow = rapid.IntRange(0, 5).Draw(t, "shadow") == 0
		if len(checks) > 0 && rapid.IntRange(0, 2).Draw(t, "alternative") == 0 {
			c.Or, c.Shadow = true, checks[len(checks)-1].Shadow
		}
		if more := append(slices.Clone(checks), c); mayMeet(more) {
			checks = more
		}
	}
	alike := make(map[string]int)
	for _, c := range checks {
		alike[identity(c)]++
	}
	for i := range checks {
		if c := &checks[i]; c.Mode == core.Charge && slices.Contains(unshaped, c.Limit.Algorithm()) && alike[identity(*c)] == 1 && rapid.IntRange(0, 2).Draw(t, "for a time") == 0 {
			c.ReserveFor = rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour}).Draw(t, "reserved for")
		}
	}
	return checks
}

// mayMeet reports whether those checks of a call may be asked together that are about the same state.
func mayMeet(checks []core.Check) bool {
	for i, c := range checks {
		for j, d := range checks[:i] {
			if identity(c) != identity(d) {
				continue
			}
			alternatives := len(alternativesOf(checks, i)) > 1 || len(alternativesOf(checks, j)) > 1
			switch {
			case c.Limit != d.Limit,
				alternatives && c.Mode == core.Charge && d.Mode == core.Charge,
				!alternatives && (c.Mode == core.Condition || d.Mode == core.Condition):
				return false
			}
		}
	}
	return true
}
