package guard_test

import (
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
)

// A candidate is compared with what is enforced, with none if there is none, and not with what the store has not answered.
func TestWhatACandidateIsComparedWith(t *testing.T) {
	candidate := guard.Outcome{Policy: "candidate", Shadow: true}
	enforced := guard.Outcome{Policy: "enforced", Decision: core.Decision{Allowed: true}}
	for name, c := range map[string]struct {
		event guard.Event
		want  uint64
	}{
		"what is enforced":         {guard.Event{Outcomes: []guard.Outcome{enforced, candidate}}, 1},
		"nothing":                  {guard.Event{Outcomes: []guard.Outcome{candidate}}, 1},
		"what was not answered":    {guard.Event{Outcomes: []guard.Outcome{candidate}, Unanswered: []guard.Unanswered{{Policy: "enforced"}}}, 0},
		"another":                  {guard.Event{Outcomes: []guard.Outcome{enforced}}, 0},
		"the same, once more":      {guard.Event{Outcomes: []guard.Outcome{enforced, candidate}, Settled: true}, 0},
		"the same, out of service": {guard.Event{Outcomes: []guard.Outcome{{Policy: "candidate", Shadow: true, Decision: core.Decision{Degraded: true}}}}, 0},
	} {
		var comparison guard.Comparison
		guard.Compare(&comparison, "candidate", nil)(c.event)
		if got := comparison.Counts(); got != (guard.ComparisonCounts{OnlyCandidateDenies: c.want}) {
			t.Errorf("compared with %s: %s, want %d", name, got, c.want)
		}
	}
}
