// River ships orders from a queue of River through a partner's API, with any number of processes:
//
//   - the partner takes five calls a second for each account, from the whole fleet, and a job that is over that is snoozed: it costs no attempt;
//   - two exports run at once in the fleet, each in its place until it has returned;
//   - the worker's own calls go through package outbound, so that the partner's Retry-After holds back every process.
//
// DATABASE_URL is a PostgreSQL with River's tables (river migrate-up), and REDIS_URL has the limits:
//
//	DATABASE_URL=postgres://localhost/shop REDIS_URL=redis://localhost:6379 PARTNER_URL=http://localhost:9090 go run .
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/outbound"
	riverratelimit "github.com/weir-go/ratelimit/river"
)

// Ship ships an order.
type Ship struct {
	Account string `json:"account"`
	Order   string `json:"order"`
}

// Kind implements [river.JobArgs].
func (Ship) Kind() string { return "ship" }

// Export exports the orders of an account.
type Export struct {
	Account string `json:"account"`
}

// Kind implements [river.JobArgs].
func (Export) Kind() string { return "export" }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := core.Open(cmp.Or(os.Getenv("REDIS_URL"), "memory:"))
	if err != nil {
		log.Fatal(err)
	}
	client, err := newClient(pool, limiter, os.Getenv("PARTNER_URL"))
	if err != nil {
		log.Fatal(err)
	}
	if err := client.Start(ctx); err != nil {
		log.Fatal(err)
	}
	<-ctx.Done()
	if err := client.Stop(context.WithoutCancel(ctx)); err != nil {
		log.Print(err)
	}
	_ = limiter.Close()
}

// newClient returns a client that works the jobs within their limits.
func newClient(pool *pgxpool.Pool, limiter *core.Limiter, partner string) (*river.Client[pgx.Tx], error) {
	limits := riverratelimit.New(limiter, riverratelimit.Options{FailClosed: true},
		riverratelimit.Policy{Limit: core.Leaky(1, core.PerSecond(5)).Named("shipments"), By: riverratelimit.Args(func(s Ship) string { return s.Account })},
		riverratelimit.Policy{Limit: core.Concurrent(2, 30*time.Second).Named("exports"), By: riverratelimit.Args(func(Export) string { return "" })},
	)
	transport := outbound.New(limiter, core.Leaky(5, core.PerSecond(50)).Named("partner"), outbound.Options{LongestWait: 5 * time.Second})
	calls := &http.Client{Timeout: 30 * time.Second, Transport: transport}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[Ship]) error { return ship(ctx, calls, partner, job.Args) }))
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[Export]) error { return nil })) // yours takes its time
	return river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 50}}, Workers: workers, Middleware: []rivertype.Middleware{limits},
	})
}

// ship makes one call. If it cannot be made in time, its error has the job snoozed.
func ship(ctx context.Context, calls *http.Client, partner string, s Ship) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, partner+"/shipments", nil)
	if err != nil {
		return err
	}
	request.Header.Set("Idempotency-Key", s.Order)
	response, err := calls.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the partner says %s", response.Status)
	}
	return nil
}
