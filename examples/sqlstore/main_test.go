package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/storetest"
)

const fewChecks = "2"

// TestMain runs few random examples: each transaction is one of a real database. -rapid.checks=100 runs
// more.
func TestMain(m *testing.M) {
	_ = flag.Set("rapid.checks", fewChecks)
	os.Exit(m.Run())
}

// The table is a store like any other.
func TestSQLiteKeepsTheLaws(t *testing.T) {
	storetest.Run(t, func(t *testing.T, now func() time.Time) core.Store {
		db, err := openSQLite(t.Context(), filepath.Join(t.TempDir(), "limits.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return core.NewTableStore(sqlite{db, now})
	})
}

func TestRun(t *testing.T) {
	if err := run(t.Context(), "", filepath.Join(t.TempDir(), "limits.db")); err != nil {
		t.Fatal(err)
	}
}
