package algorithm_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/algorithm"
)

// A new algorithm has to be added here, where it shows what holds for it.
func TestEveryAlgorithmIsKnown(t *testing.T) {
	rate, limiter := core.PerSecond(1), core.New(core.NewMemory())
	var known []string
	for _, test := range []struct {
		limit                                core.Limit
		holds, delays, windowed, bans, dated bool
	}{
		{limit: core.Leaky(1, rate)},
		{limit: core.Shaping(1, rate), delays: true},
		{limit: core.TokenBucket(1, rate)},
		{limit: core.GCRA(1, rate)},
		{limit: core.FixedWindow(1, time.Second), windowed: true},
		{limit: core.SlidingWindow(1, time.Second), windowed: true},
		{limit: core.SlidingLog(1, time.Second), windowed: true},
		{limit: core.Concurrent(1, time.Second), holds: true},
		{limit: core.Ban{Strikes: core.SlidingLog(1, time.Second)}.Limit(), bans: true},
		{limit: core.Calendar(1, core.Daily("UTC")), windowed: true, dated: true},
	} {
		known = append(known, test.limit.Algorithm())
		for _, l := range []core.Limit{test.limit} {
			if algorithm.Holds(l) != test.holds || algorithm.Delays(l) != test.delays || algorithm.Windowed(l) != test.windowed ||
				algorithm.Bans(l) != test.bans || algorithm.Dated(l) != test.dated {
				t.Errorf("%s: holds %t, delays %t, windowed %t, bans %t, dated %t", l,
					algorithm.Holds(l), algorithm.Delays(l), algorithm.Windowed(l), algorithm.Bans(l), algorithm.Dated(l))
			}
			_, err := limiter.Reserve(t.Context(), core.Check{Key: "key", Limit: l, ReserveFor: time.Minute})
			if algorithm.Reserves(l) != (err == nil) {
				t.Errorf("%s: reserves %t, and core says %v", l, algorithm.Reserves(l), err)
			}
		}
	}
	_, err := core.ParseLimit("none 1, 1s")
	_, names, ok := strings.Cut(err.Error(), "want one of ")
	if all := strings.Split(names, ", "); !ok || !slices.Equal(all, known) {
		t.Errorf("the algorithms are %q, want %q", all, known)
	}
	if algorithm.Holds(core.Unlimited) || algorithm.Delays(core.Unlimited) || algorithm.Windowed(core.Unlimited) {
		t.Error("an unlimited client is limited")
	}
}
