//go:build !race

// Pages are written by one goroutine: make test runs it without the race detector, which takes ten times as long.

package report_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/cmd/weir/internal/report"
	"github.com/weir-go/ratelimit/cmd/weir/internal/simulate"
)

// The page of a simulation needs no network, and whatever a client sends stays text.
func TestSimulationPage(t *testing.T) {
	series := simulate.Series{From: time.Unix(0, 0).UTC(), Width: time.Second, Points: []simulate.Point{{Admitted: 3, Denied: 1}, {}, {Admitted: 1}}}
	page := report.Simulation{Policies: "limits.yaml", Result: &simulate.Result{
		Requests: 5, Denied: 1, Series: series, Notes: []string{"a <note>"},
		Limits: []simulate.Limit{
			{Name: "burst", Requests: 5, Denied: 1, Keys: 2, DeniedKeys: 1, Busiest: []simulate.Key{{Key: "<script>", Requests: 2, Denied: 1}}, Series: series},
			{Name: "quiet", Shadow: true, Requests: 5, Keys: 2},
		},
	}}
	var b bytes.Buffer
	if err := page.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if found := fetches.FindAllString(text, -1); len(found) > 0 || strings.Contains(text, "NaN") || strings.Contains(text, "%!") {
		t.Errorf("%q in %s", found, text)
	}
	for _, want := range []string{"would have denied 1 of 5 requests (20 %)", "&lt;script&gt;", "a &lt;note&gt;", "3 admitted, 1 denied", "<small>shadow</small>"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	b.Reset()
	none := report.Simulation{Result: &simulate.Result{}}
	if err := none.WriteHTML(&b); err != nil || !strings.Contains(b.String(), "No request met a limit.") {
		t.Errorf("%v: %s", err, b.String())
	}
}
