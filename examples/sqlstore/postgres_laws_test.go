//go:build unix && !race

// The laws are checked by one goroutine after the other: make test runs them without the race detector, which takes three times as long.

package main

import (
	"context"
	"flag"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/storetest"
)

// The table is a store like any other.
func TestPostgresKeepsTheLaws(t *testing.T) {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == fewChecks {
		defer func() { _ = checks.Value.Set(fewChecks) }()
		_ = checks.Value.Set("1") // it is the slower of the two
	}
	all := startPostgres(t).table(t)
	var stores atomic.Int64
	storetest.Run(t, func(_ *testing.T, now func() time.Time) core.Store {
		return core.NewTableStore(part{postgres{all.db, now}, strconv.FormatInt(stores.Add(1), 10) + " "})
	})
}

// part is the rows of a table whose keys begin with a prefix.
type part struct {
	core.Table

	prefix string
}

func (p part) Update(ctx context.Context, keys []string, change func(time.Time, []core.Row)) error {
	own := make([]string, len(keys))
	for i, key := range keys {
		own[i] = p.prefix + key
	}
	return p.Table.Update(ctx, own, change)
}
