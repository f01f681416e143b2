package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Tenants that ask without end are equal, also if some of them lie about their costs, and modest ones lose nothing.
func TestCrowds(t *testing.T) {
	for _, c := range crowds[:5] {
		rate, jain, lost, err := c.simulate(true)
		if err != nil {
			t.Fatal(err)
		}
		if rate < 0.99 || jain < 0.98 || c.liars == 0 && jain < 0.99 || lost > 0.001 {
			t.Errorf("%s: %.3f of the rate, Jain's index %.3f, and %.4f lost", c.name, rate, jain, lost)
		}
	}
}

// The plots of the documentation are those that the program draws.
func TestPlotsAreDrawn(t *testing.T) {
	for name, shared := range map[string]bool{"with-shares.svg": true, "first-come.svg": false} {
		want, err := plot(shared)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("../../docs/fair-shares", name))
		if err != nil || strings.ReplaceAll(string(got), "\r\n", "\n") != want {
			t.Errorf("%s is another one: run go run ./examples/fairshare -svg docs/fair-shares (%v)", name, err)
		}
	}
}
