//go:build unix

package main

import (
	"database/sql"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/postgrestest"
)

// The tests share a server, which takes seconds to start.
func TestPostgres(t *testing.T) {
	s := startPostgres(t)
	t.Run("processes that charge one key at the same time pass as often as the limit allows", s.chargesOnce)
	t.Run("a transaction that is refused for the sake of others is made again, and only so often", s.asksAgain)
	t.Run("a row that means nothing any more is deleted, and no other", s.sweeps)
	t.Run("the program runs", func(t *testing.T) {
		if err := run(t.Context(), s.url("public"), ""); err != nil {
			t.Fatal(err)
		}
	})
}

func (s server) chargesOnce(t *testing.T) {
	const n, processes, calls = 20, 3, 20
	limits := s.table(t)
	var passed atomic.Int64
	var group sync.WaitGroup
	for range processes {
		limiter := core.New(core.NewTableStore(limits))
		for range calls {
			group.Go(func() {
				decisions, err := limiter.AllowAll(t.Context(), core.Check{Key: "user:42", Limit: core.FixedWindow(n, time.Hour)},
					core.Check{Key: "everybody", Limit: core.FixedWindow(1_000, time.Hour)})
				if err != nil {
					t.Error(err)
				} else if _, denied := core.Denied(decisions); !denied {
					passed.Add(1)
				}
			})
		}
	}
	group.Wait()
	if passed.Load() != n {
		t.Errorf("%d calls have passed, want %d", passed.Load(), n)
	}
}

func (s server) asksAgain(t *testing.T) {
	limits := s.table(t)
	for _, statement := range []string{
		`CREATE SEQUENCE refused`,
		`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('refused') <= 3 THEN RAISE EXCEPTION 'another was first' USING ERRCODE = '40001'; END IF;
			RETURN NEW;
		END $$`,
		`CREATE TRIGGER refuses BEFORE INSERT OR UPDATE ON limits FOR EACH ROW EXECUTE FUNCTION refuse()`,
	} {
		if _, err := limits.db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	limiter := core.New(core.NewTableStore(limits))
	limit := core.FixedWindow(5, time.Hour)
	if d, err := limiter.Allow(t.Context(), "user:42", limit); err != nil || !d.Allowed || d.Remaining != 4 {
		t.Errorf("after three refusals: %+v, %v", d, err)
	}
	if _, err := limits.db.ExecContext(t.Context(), `ALTER SEQUENCE refused MINVALUE -1000 RESTART -1000`); err != nil {
		t.Fatal(err)
	}
	if _, err := limiter.Allow(t.Context(), "user:42", limit); !errors.Is(err, core.ErrNotDone) {
		t.Errorf("after ever so many refusals: %v", err)
	}
	if d, err := limiter.Peek(t.Context(), "user:42", limit); err != nil || d.Remaining != 4 {
		t.Errorf("a refused call has charged: %+v, %v", d, err)
	}
}

func (s server) sweeps(t *testing.T) {
	limits := s.table(t)
	limiter := core.New(core.NewTableStore(limits))
	for key, limit := range map[string]core.Quota{"user:42": core.FixedWindow(1, time.Hour), "user:7": core.FixedWindow(1, time.Millisecond)} {
		if _, err := limiter.Allow(t.Context(), key, limit); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(time.Minute); ; {
		if err := limits.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		left := 0
		if err := limits.db.QueryRowContext(t.Context(), `SELECT count(*) FROM limits`).Scan(&left); err != nil || left == 1 {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if left == 0 || time.Now().After(deadline) {
			t.Fatalf("%d rows are left, want that of the hour", left)
		}
	}
	if d, err := limiter.Peek(t.Context(), "user:42", core.FixedWindow(1, time.Hour)); err != nil || d.Allowed {
		t.Errorf("a row that counts was deleted: %+v, %v", d, err)
	}
}

// server is a PostgreSQL server of the tests' own, without durability.
type server struct {
	directory string // of its socket
	admin     *sql.DB
	schemas   *atomic.Int64
}

// url returns the URL of a schema.
func (s server) url(schema string) string { return postgrestest.URL(s.directory, schema) }

// table returns an empty table in a schema of its own.
func (s server) table(t *testing.T) postgres {
	t.Helper()
	schema := "test" + strconv.FormatInt(s.schemas.Add(1), 10)
	if _, err := s.admin.ExecContext(t.Context(), "CREATE SCHEMA "+schema); err != nil {
		t.Fatal(err)
	}
	db, err := openPostgres(t.Context(), s.url(schema))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return postgres{db, nil}
}

// startPostgres starts a server, and stops it when the test has ended.
func startPostgres(t *testing.T) server {
	t.Helper()
	s := server{directory: postgrestest.Start(t), schemas: new(atomic.Int64)}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var err error
		if s.admin, err = openPostgres(t.Context(), s.url("public")); err == nil {
			t.Cleanup(func() { _ = s.admin.Close() })
			return s
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
