// Command sqlstore limits by a table of a SQL database, for services that have one and no Redis.
//
//	go run . # with a C compiler, since SQLite is written in C
//
// The table is the whole store: core.NewTableStore decides, and the database sees to it that nobody else
// reads or writes the same rows meanwhile. Here it is SQLite. In PostgreSQL, say "SELECT … FOR UPDATE"
// after an insert that does nothing if the row is there, $1 instead of ?, and clock_timestamp() as the
// time.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	_ "github.com/mattn/go-sqlite3"

	"github.com/weir-go/ratelimit/core"
)

const schema = `CREATE TABLE IF NOT EXISTS limits (key TEXT PRIMARY KEY, value BLOB NOT NULL, expires INTEGER NOT NULL)`

// table is the table "limits". It implements core.Table.
type table struct {
	db  *sql.DB
	now func() time.Time
}

// Update implements core.Table.
func (t table) Update(ctx context.Context, keys []string, change func(time.Time, []core.Row)) error {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("sqlstore: %w: %w", core.ErrNotDone, err)
	}
	defer func() { _ = tx.Rollback() }() // which does nothing after Commit
	rows := make([]core.Row, len(keys))
	for i, key := range keys {
		var expires int64
		err := tx.QueryRowContext(ctx, `SELECT value, expires FROM limits WHERE key = ?`, key).Scan(&rows[i].Value, &expires)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("sqlstore: %w: %w", core.ErrNotDone, err)
		}
		rows[i].Expires = time.UnixMicro(expires)
	}
	change(t.now(), rows)
	for i, row := range rows {
		if !row.Changed {
			continue
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO limits (key, value, expires) VALUES (?, ?, ?)
			ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires = excluded.expires`, keys[i], row.Value, row.Expires.UnixMicro())
		if err != nil {
			return fmt.Errorf("sqlstore: %w: %w", core.ErrNotDone, err)
		}
	}
	return tx.Commit()
}

// sweep deletes the rows that mean nothing any more. Call it once in a while.
func (t table) sweep(ctx context.Context) error {
	_, err := t.db.ExecContext(ctx, `DELETE FROM limits WHERE expires < ?`, t.now().UnixMicro())
	return err
}

// open opens a database file with the table.
func open(ctx context.Context, file string) (*sql.DB, error) {
	// Each transaction takes the lock for writing at once, and waits for it.
	db, err := sql.Open("sqlite3", "file:"+file+"?_txlock=immediate&_busy_timeout=5000&_journal_mode=WAL&_synchronous=NORMAL")
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func run(ctx context.Context, file string) error {
	db, err := open(ctx, file)
	if err != nil {
		return err
	}
	defer db.Close()
	limits := table{db, time.Now}
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
	if err := run(context.Background(), filepath.Join(os.TempDir(), "limits.db")); err != nil {
		log.Fatal(err)
	}
}
