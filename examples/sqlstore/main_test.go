package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

const fewChecks = "2"

// TestMain runs few random examples: each transaction is one of a real database. -rapid.checks=100 runs
// more.
func TestMain(m *testing.M) {
	_ = flag.Set("rapid.checks", fewChecks)
	os.Exit(m.Run())
}

func TestRun(t *testing.T) {
	if err := run(t.Context(), "", filepath.Join(t.TempDir(), "limits.db")); err != nil {
		t.Fatal(err)
	}
}
