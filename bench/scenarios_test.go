//go:build !race

// Figures are measured without the race detector, and so are these, which mean nothing.

package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/internal/redistest"
)

// TestEveryScenarioRuns verifies every contender and runs every scenario for as
// short as it takes to ask each of them once.
func TestEveryScenarioRuns(t *testing.T) {
	redistest.Start(t) // skips, or fails, where there is no server to start
	r, comparisons, err := run(t.Context(), smokeProfile(), regexp.MustCompile(""), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	slugs := map[string]bool{}
	for _, c := range comparisons {
		if slugs[c.slug] {
			t.Errorf("two comparisons are called %s", c.slug)
		}
		slugs[c.slug] = true
		for _, e := range c.entries {
			if len(e.samples) != 1 {
				t.Errorf("%s: %s has %d samples, want 1", c.slug, e.name, len(e.samples))
			}
		}
		for _, p := range c.plots {
			if err := c.draw(p, &bytes.Buffer{}); err != nil {
				t.Error(err)
			}
			if len(c.bars(p)) == 0 {
				t.Errorf("%s has no bars", p.name)
			}
		}
	}
	var text bytes.Buffer
	if err := r.write(&text); err != nil {
		t.Fatal(err)
	}
	for _, c := range comparisons {
		if !strings.Contains(text.String(), "## "+c.title+"\n") {
			t.Errorf("the report lacks %q", c.title)
		}
	}
	for _, path := range []string{"/home/", "/root/", "/tmp/", os.TempDir()} {
		if strings.Contains(text.String(), path) {
			t.Errorf("the report has a path of this machine: %s", path)
		}
	}
	for _, h := range r.Highlights {
		if strings.Contains(h.Figure, missing+" (") || h.Figure == missing {
			t.Errorf("there is no figure for %q", h.Measure)
		}
	}
}
