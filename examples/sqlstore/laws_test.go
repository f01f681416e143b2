//go:build !race

// The laws are checked by one goroutine after the other: make test runs them without the race detector, which takes three times as long.

package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/storetest"
)

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
