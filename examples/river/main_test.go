//go:build unix

package main

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/postgrestest"
)

// All orders of an account are shipped, in one attempt each, and the partner gets no more than its limit.
func TestOrdersAreShipped(t *testing.T) {
	const n, rate = 10, 5
	directory := postgrestest.Start(t)
	pool, err := pgxpool.New(t.Context(), postgrestest.URL(directory, "public"))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	deadline := time.Now().Add(2 * time.Minute)
	for pool.Ping(t.Context()) != nil && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	partner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	defer partner.Close()
	limiter := core.New(core.NewMemory())
	defer limiter.Close()
	client, err := newClient(pool, limiter, partner.URL)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer client.Stop(t.Context())
	for range n {
		if _, err := client.Insert(t.Context(), Ship{Account: "a"}, &river.InsertOpts{MaxAttempts: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for {
		list, err := client.JobList(t.Context(), river.NewJobListParams().States(rivertype.JobStateCompleted))
		if err != nil {
			t.Fatal(err)
		}
		if passed, most := calls.Load(), 1+rate*time.Since(began).Seconds(); float64(passed) > most {
			t.Fatalf("the partner was called %d times, want %.1f at most", passed, most)
		}
		if len(list.Jobs) == n {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d orders are shipped, want %d", len(list.Jobs), n)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
