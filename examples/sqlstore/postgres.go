package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/weir-go/ratelimit/core"
)

// The table is not logged: after a crash of the server it is empty, and limits start anew. Leave the word out to keep them, for slower
// calls.
const postgresSchema = `CREATE UNLOGGED TABLE IF NOT EXISTS limits (key TEXT PRIMARY KEY, value BYTEA NOT NULL, expires BIGINT NOT NULL)`

// postgres is the table "limits" of a PostgreSQL database. It implements core.Table.
type postgres struct {
	db  *sql.DB
	now func() time.Time // for tests; nil: the server's clock, which all processes share
}

// Update implements core.Table. A transaction that PostgreSQL has rolled back and asks to repeat is repeated.
func (p postgres) Update(ctx context.Context, keys []string, change func(time.Time, []core.Row)) error {
	const tries = 10
	for try := 1; ; try++ {
		err := p.update(ctx, keys, change)
		if !repeatable(err) || try == tries {
			return err
		}
	}
}

// repeatable reports whether an error says that a transaction was rolled back for the sake of others: a serialization failure or a
// deadlock.
func repeatable(err error) bool {
	failure, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (failure.Code == "40001" || failure.Code == "40P01")
}

func (p postgres) update(ctx context.Context, keys []string, change func(time.Time, []core.Row)) error {
	// Each statement has to see the commits before it: the database's default may be another.
	tx, err := p.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return notDone(err)
	}
	defer func() { _ = tx.Rollback() }() // which does nothing after Commit
	// There may be no row yet to lock, so it is the key that is locked, until the transaction ends.
	const lock = `SELECT pg_advisory_xact_lock(id) FROM (SELECT unnest($1::bigint[]) AS id ORDER BY id) AS ids`
	if _, err := tx.ExecContext(ctx, lock, locksOf(keys)); err != nil {
		return notDone(err)
	}
	now, rows, err := p.read(ctx, tx, keys)
	if err != nil {
		return notDone(err)
	}
	change(now, rows)
	for i, row := range rows {
		if !row.Changed {
			continue
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO limits (key, value, expires) VALUES ($1, $2, $3)
			ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires = excluded.expires`, keys[i], row.Value, row.Expires.UnixMicro())
		if err != nil {
			return notDone(err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("sqlstore: %w", err) // it may have been done
	}
	return nil
}

// read returns the time, and the rows of some keys.
func (p postgres) read(ctx context.Context, tx *sql.Tx, keys []string) (now time.Time, rows []core.Row, err error) {
	found, err := tx.QueryContext(ctx, `SELECT clock_timestamp(), value, expires
		FROM unnest($1::text[]) WITH ORDINALITY AS asked (key, place) LEFT JOIN limits USING (key) ORDER BY place`, keys)
	if err != nil {
		return now, nil, err
	}
	defer found.Close()
	for found.Next() {
		var row core.Row
		var expires sql.NullInt64
		if err := found.Scan(&now, &row.Value, &expires); err != nil {
			return now, nil, err
		}
		row.Expires = time.UnixMicro(expires.Int64)
		rows = append(rows, row)
	}
	if p.now != nil {
		now = p.now()
	}
	return now, rows, found.Err()
}

// locksOf returns the advisory locks of keys. Keys that share one wait for each other without need, and that is all.
func locksOf(keys []string) []int64 {
	locks := make([]int64, len(keys))
	for i, key := range keys {
		sum := fnv.New64a()
		_, _ = sum.Write([]byte("limits " + key))
		locks[i] = int64(sum.Sum64())
	}
	slices.Sort(locks)
	return slices.Compact(locks)
}

// notDone says of an error that nothing was written.
func notDone(err error) error { return fmt.Errorf("sqlstore: %w: %w", core.ErrNotDone, err) }

// sweep deletes the rows that mean nothing any more. Call it once in a while.
func (p postgres) sweep(ctx context.Context) error {
	_, err := p.db.ExecContext(ctx, `DELETE FROM limits WHERE expires < extract(epoch FROM clock_timestamp()) * 1000000`)
	return err
}

// openPostgres opens a database with the table.
func openPostgres(ctx context.Context, url string) (*sql.DB, error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16) // database/sql keeps two by default, and would open connections all the time
	if _, err := db.ExecContext(ctx, postgresSchema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}
