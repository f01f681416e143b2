//go:build unix

package riverratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/postgrestest"
	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/jobs"
	riverratelimit "github.com/weir-go/ratelimit/river"
)

// ship is a job of these tests.
type ship struct {
	Account string `json:"account"`
}

func (ship) Kind() string { return "ship" }

// shipper works the jobs.
type shipper struct {
	river.WorkerDefaults[ship]

	work func(context.Context, *river.Job[ship]) error
}

func (s shipper) Work(ctx context.Context, job *river.Job[ship]) error { return s.work(ctx, job) }

func (shipper) NextRetry(*river.Job[ship]) time.Time { return time.Now() }

// database is a schema of River's own.
type database struct{ pool *pgxpool.Pool }

var schemas atomic.Int64

func (d database) client(t *testing.T, config *river.Config) *river.Client[pgx.Tx] {
	t.Helper()
	client, err := river.NewClient(riverpgxv5.New(d.pool), config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestRiver has a PostgreSQL for all of its tests, which takes seconds to start, and a Redis.
func TestRiver(t *testing.T) {
	directory := postgrestest.Start(t)
	redis := redistest.Start(t)
	for name, test := range map[string]func(*testing.T, database, string){
		"a job over the limit costs no attempt":          costsNoAttempt,
		"three clients keep one limit, and use it up":    threeClients,
		"places are held while jobs are worked":          holdsPlaces,
		"keys are the queue, the kind and the arguments": keys,
		"a call that cannot be made in time snoozes":     outboundSnoozes,
		"a stop while a job waits costs no attempt":      stopCostsNoAttempt,
	} {
		t.Run(name, func(t *testing.T) {
			schema := "test" + strconv.FormatInt(schemas.Add(1), 10)
			test(t, open(t, directory, schema), redis.URL())
		})
	}
}

// open returns a schema with River's tables.
func open(t *testing.T, directory, schema string) database {
	t.Helper()
	var pool *pgxpool.Pool
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var err error
		if pool, err = pgxpool.New(t.Context(), postgrestest.URL(directory, schema)); err == nil {
			if _, err = pool.Exec(t.Context(), "CREATE SCHEMA "+schema); err == nil {
				break
			}
			pool.Close()
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	t.Cleanup(pool.Close)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	return database{pool}
}

var quiet = slog.New(slog.DiscardHandler)

func limiter(t *testing.T, url string) *core.Limiter {
	t.Helper()
	l, err := core.Open(url, core.WithBudget(time.Minute), core.WithPrefix(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// start starts a client that works jobs under policies.
func (d database) start(
	t *testing.T, l *core.Limiter, options riverratelimit.Options, work func(context.Context, *river.Job[ship]) error, policies ...riverratelimit.Policy,
) *river.Client[pgx.Tx] {
	t.Helper()
	workers := river.NewWorkers()
	river.AddWorker(workers, shipper{work: work})
	client := d.client(t, &river.Config{
		Logger: quiet, Workers: workers, FetchCooldown: 10 * time.Millisecond, FetchPollInterval: 50 * time.Millisecond,
		Queues:     map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 20}, "other": {MaxWorkers: 20}},
		Middleware: []rivertype.Middleware{riverratelimit.New(l, options, policies...)},
	})
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.StopAndCancel(context.WithoutCancel(t.Context())) })
	return client
}

// insert inserts a job that may be tried once.
func insert(t *testing.T, client *river.Client[pgx.Tx], account, queue string) {
	t.Helper()
	if _, err := client.Insert(t.Context(), ship{account}, &river.InsertOpts{MaxAttempts: 1, Queue: queue}); err != nil {
		t.Fatal(err)
	}
}

// await waits until as many jobs are in a state, and returns them.
func (d database) await(t *testing.T, client *river.Client[pgx.Tx], n int, state rivertype.JobState) []*rivertype.JobRow {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		list, err := client.JobList(t.Context(), river.NewJobListParams().States(state).First(1000))
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Jobs) >= n {
			return list.Jobs
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d jobs are %s, want %d", len(list.Jobs), state, n)
		}
	}
}

var never = riverratelimit.Options{LongestWait: -1}

func costsNoAttempt(t *testing.T, d database, redis string) {
	const n = 12
	client := d.start(t, limiter(t, redis), never, func(context.Context, *river.Job[ship]) error { return nil }, riverratelimit.Policy{Limit: core.Leaky(1, core.PerSecond(10))})
	for range n {
		insert(t, client, "a", "")
	}
	snoozed := 0
	for _, job := range d.await(t, client, n, rivertype.JobStateCompleted) {
		if job.Attempt != 1 || len(job.Errors) != 0 {
			t.Errorf("job %d took %d attempts of %d, with %d errors", job.ID, job.Attempt, job.MaxAttempts, len(job.Errors))
		}
		if strings.Contains(string(job.Metadata), "snoozes") {
			snoozed++
		}
	}
	if snoozed == 0 {
		t.Error("no job was snoozed")
	}
}

func threeClients(t *testing.T, d database, redis string) {
	const n, rate = 60, 10
	var done atomic.Int64
	work := func(context.Context, *river.Job[ship]) error { done.Add(1); return nil }
	began := time.Now()
	var client *river.Client[pgx.Tx]
	for range 3 {
		client = d.start(t, limiter(t, redis), riverratelimit.Options{}, work, riverratelimit.Policy{Limit: core.Leaky(1, core.PerSecond(rate))})
	}
	for range n {
		insert(t, client, "a", "")
	}
	for done.Load() < n {
		passed := done.Load()
		if most := 1 + rate*time.Since(began).Seconds(); float64(passed) > most {
			t.Fatalf("%d jobs were worked, and the limit admits %.1f", passed, most)
		}
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("%d jobs were worked", done.Load())
		}
		time.Sleep(5 * time.Millisecond)
	}
	d.await(t, client, n, rivertype.JobStateCompleted)
	t.Logf("%d jobs in %v: %.0f %% of the limit", n, time.Since(began), 100*n/(1+rate*time.Since(began).Seconds()))
}

func holdsPlaces(t *testing.T, d database, redis string) {
	const n, places = 24, 3
	limit := core.Concurrent(places, time.Minute)
	var running, most atomic.Int64
	work := func(_ context.Context, job *river.Job[ship]) error {
		now := running.Add(1)
		defer running.Add(-1)
		for before := most.Load(); now > before; before = most.Load() {
			most.CompareAndSwap(before, now)
		}
		time.Sleep(5 * time.Millisecond)
		if job.Args.Account == "panics" {
			panic("the worker fails")
		}
		return nil
	}
	var client *river.Client[pgx.Tx]
	var l *core.Limiter
	for range 3 {
		l = limiter(t, redis)
		client = d.start(t, l, riverratelimit.Options{LongestWait: 50 * time.Millisecond}, work, riverratelimit.Policy{Limit: limit, By: riverratelimit.Kind})
	}
	for i := range n {
		insert(t, client, map[bool]string{true: "panics", false: "a"}[i%4 == 0], "")
	}
	d.await(t, client, n*3/4, rivertype.JobStateCompleted)
	d.await(t, client, n/4, rivertype.JobStateDiscarded)
	if most.Load() > places {
		t.Errorf("%d jobs were worked at once, and there are %d places", most.Load(), places)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // places are given back in the background
		free, err := l.Peek(t.Context(), "kind ship", limit)
		if err == nil && free.Remaining == places {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d places are free, %v", free.Remaining, err)
		}
	}
}

func keys(t *testing.T, d database, redis string) {
	var mutex sync.Mutex
	worked := make(map[string]int)
	work := func(_ context.Context, job *river.Job[ship]) error {
		mutex.Lock()
		defer mutex.Unlock()
		worked[job.Queue+" "+job.Args.Account]++
		return nil
	}
	l := limiter(t, redis)
	client := d.start(t, l, never, work,
		riverratelimit.Policy{Limit: core.FixedWindow(2, time.Hour), By: riverratelimit.Args(func(s ship) string { return s.Account })},
		riverratelimit.Policy{Limit: core.FixedWindow(3, time.Hour), By: riverratelimit.Queue},
	)
	settled := func(completed, scheduled int) {
		t.Helper()
		d.await(t, client, completed, rivertype.JobStateCompleted)
		d.await(t, client, scheduled, rivertype.JobStateScheduled)
	}
	for range 3 {
		insert(t, client, "a", "")
	}
	settled(2, 1)
	insert(t, client, "a", "other") // the account's jobs are used up in each queue
	for range 3 {
		insert(t, client, "", "other") // no account is an account, too
	}
	settled(4, 3)
	for range 2 {
		insert(t, client, "b", "other") // the queue has one left
	}
	settled(5, 4)
	insert(t, client, "b", "") // and the default queue, too
	settled(6, 4)
	mutex.Lock()
	defer mutex.Unlock()
	want := map[string]int{"default a": 2, "other ": 2, "other b": 1, "default b": 1}
	if !maps.Equal(worked, want) {
		t.Errorf("worked %v, want %v", worked, want)
	}
	for _, test := range []struct{ kind, args, want string }{
		{"ship", `{"account": "a"}`, "kind ship a"}, {"ship", `{"Account": "b", "ACCOUNT": "a"}`, "kind ship a"}, {"ship", `{"account": 1}`, "kind ship"}, {"other", `{}`, ""},
	} {
		if got := riverratelimit.Args(func(s ship) string { return s.Account })(t.Context(), &rivertype.JobRow{Kind: test.kind, EncodedArgs: []byte(test.args)}); got != test.want {
			t.Errorf("%s %s has the key %q, want %q", test.kind, test.args, got, test.want)
		}
	}
}

func outboundSnoozes(t *testing.T, d database, redis string) {
	l := limiter(t, redis)
	partner := core.Leaky(1, core.PerSecond(20))
	work := func(ctx context.Context, _ *river.Job[ship]) error {
		if err := l.Wait(ctx, "partner", partner, core.WithLongestWait(0)); err != nil {
			return fmt.Errorf("the partner: %w", err)
		}
		return nil
	}
	client := d.start(t, l, never, work, riverratelimit.Policy{Limit: core.Unlimited})
	for range 8 {
		insert(t, client, "a", "")
	}
	for _, job := range d.await(t, client, 8, rivertype.JobStateCompleted) {
		if job.Attempt != 1 || len(job.Errors) != 0 {
			t.Errorf("job %d took %d attempts, with %d errors", job.ID, job.Attempt, len(job.Errors))
		}
	}
}

func stopCostsNoAttempt(t *testing.T, d database, redis string) {
	l := limiter(t, redis)
	limit := core.Leaky(1, core.PerHour(1))
	if _, err := l.Allow(t.Context(), "jobs", limit); err != nil {
		t.Fatal(err)
	}
	work := func(context.Context, *river.Job[ship]) error { t.Error("the job is worked"); return nil }
	client := d.start(t, l, riverratelimit.Options{LongestWait: 2 * time.Hour}, work, riverratelimit.Policy{Limit: limit})
	insert(t, client, "a", "")
	d.await(t, client, 1, rivertype.JobStateRunning)
	if err := client.StopAndCancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	job := d.await(t, client, 1, rivertype.JobStateAvailable)[0]
	if job.Attempt != 0 || len(job.Errors) != 0 {
		t.Errorf("the job took %d attempts of %d, with %d errors", job.Attempt, job.MaxAttempts, len(job.Errors))
	}
}

// A snooze of the worker's own, and its errors, are left as they are.
func TestErrorsOfWorkersAreTheirOwn(t *testing.T) {
	l := core.New(core.NewMemory())
	defer l.Close()
	middleware := riverratelimit.New(l, never, riverratelimit.Policy{Limit: core.FixedWindow(2, time.Hour)})
	failed := errors.New("the worker fails")
	for _, own := range []error{failed, river.JobSnooze(time.Hour)} {
		if err := middleware.Work(t.Context(), new(rivertype.JobRow), func(context.Context) error { return own }); !errors.Is(err, own) {
			t.Errorf("%v, want %v", err, own)
		}
	}
	err := middleware.Work(t.Context(), new(rivertype.JobRow), func(context.Context) error { return nil })
	if snooze, is := errors.AsType[*river.JobSnoozeError](err); !is || snooze.Duration < 59*time.Minute {
		t.Errorf("over the limit: %v", err)
	}
	if later, is := errors.AsType[*jobs.LaterError](err); is {
		t.Errorf("River is given %v", later)
	}
}
