package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	_ "github.com/mattn/go-sqlite3"

	"github.com/weir-go/ratelimit/core"
)

const sqliteSchema = `CREATE TABLE IF NOT EXISTS limits (key TEXT PRIMARY KEY, value BLOB NOT NULL, expires INTEGER NOT NULL)`

// sqlite is the table "limits" of a SQLite database. It implements core.Table.
type sqlite struct {
	db  *sql.DB
	now func() time.Time
}

// Update implements core.Table.
func (s sqlite) Update(ctx context.Context, keys []string, change func(time.Time, []core.Row)) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return notDone(err)
	}
	defer func() { _ = tx.Rollback() }() // which does nothing after Commit
	rows := make([]core.Row, len(keys))
	for i, key := range keys {
		var expires int64
		err := tx.QueryRowContext(ctx, `SELECT value, expires FROM limits WHERE key = ?`, key).Scan(&rows[i].Value, &expires)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return notDone(err)
		}
		rows[i].Expires = time.UnixMicro(expires)
	}
	change(s.now(), rows)
	for i, row := range rows {
		if !row.Changed {
			continue
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO limits (key, value, expires) VALUES (?, ?, ?)
			ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires = excluded.expires`, keys[i], row.Value, row.Expires.UnixMicro())
		if err != nil {
			return notDone(err)
		}
	}
	return tx.Commit()
}

// sweep deletes the rows that mean nothing any more. Call it once in a while.
func (s sqlite) sweep(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM limits WHERE expires < ?`, s.now().UnixMicro())
	return err
}

// openSQLite opens a database file with the table.
func openSQLite(ctx context.Context, file string) (*sql.DB, error) {
	// Each transaction takes the lock for writing at once, and waits for it.
	db, err := sql.Open("sqlite3", "file:"+file+"?_txlock=immediate&_busy_timeout=5000&_journal_mode=WAL&_synchronous=NORMAL")
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, sqliteSchema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}
