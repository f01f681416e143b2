// Command sqlstore limits by a table of a SQL database, for services that have one and no Redis.
//
//	go run . # in a SQLite file, with a C compiler, since SQLite is written in C
//	DATABASE_URL=postgres://localhost/shop go run .
//
// The table is the whole store: core.NewTableStore decides, and the database sees to it that no other
// transaction reads or writes the same rows meanwhile. Take sqlite.go or postgres.go along.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// table is a table of limits in a database.
type table interface {
	core.Table

	sweep(ctx context.Context) error
}

// open opens the table of a PostgreSQL database or, without a URL, of a SQLite file.
func open(ctx context.Context, url, file string) (limits table, closes func() error, err error) {
	if url != "" {
		db, err := openPostgres(ctx, url)
		if err != nil {
			return nil, nil, err
		}
		return postgres{db, nil}, db.Close, nil
	}
	db, err := openSQLite(ctx, file)
	if err != nil {
		return nil, nil, err
	}
	return sqlite{db, time.Now}, db.Close, nil
}

func run(ctx context.Context, url, file string) error {
	limits, closes, err := open(ctx, url, file)
	if err != nil {
		return err
	}
	defer func() { _ = closes() }()
	limiter := core.New(core.NewTableStore(limits))
	defer limiter.Close()

	limit := core.Leaky(3, core.PerMinute(6))
	for range 4 {
		d, err := limiter.Allow(ctx, "user:42", limit)
		if err != nil {
			return err
		}
		fmt.Printf("allowed: %-5t  remaining: %d  retry after: %v\n", d.Allowed, d.Remaining, d.RetryAfter.Round(time.Second))
	}
	return limits.sweep(ctx)
}

func main() {
	if err := run(context.Background(), os.Getenv("DATABASE_URL"), filepath.Join(os.TempDir(), "limits.db")); err != nil {
		log.Fatal(err)
	}
}
