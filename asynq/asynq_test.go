package asynqratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	asynqratelimit "github.com/weir-go/ratelimit/asynq"
	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/jobs"
)

// silent is a logger that says nothing.
type silent struct{}

func (silent) Debug(...any) {}
func (silent) Info(...any)  {}
func (silent) Warn(...any)  {}
func (silent) Error(...any) {}
func (silent) Fatal(...any) {}

// fleet is a queue on a Redis of its own, with servers that process it.
type fleet struct {
	url       string
	redis     asynq.RedisConnOpt
	client    *asynq.Client
	inspector *asynq.Inspector
	failures  atomic.Int64 // that the servers' error handler has been told of
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{url: redistest.Start(t).URL()}
	var err error
	if f.redis, err = asynq.ParseRedisURI(f.url); err != nil {
		t.Fatal(err)
	}
	f.client, f.inspector = asynq.NewClient(f.redis), asynq.NewInspector(f.redis)
	t.Cleanup(func() { _, _ = f.client.Close(), f.inspector.Close() })
	return f
}

func limiter(t *testing.T, url string) *core.Limiter {
	t.Helper()
	l, err := core.Open(url, core.WithBudget(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// start starts a server that processes the tasks whose types begin with "ship".
func (f *fleet) start(
	t *testing.T, l *core.Limiter, options asynqratelimit.Options, process asynq.HandlerFunc, policies ...asynqratelimit.Policy,
) *asynq.Server {
	t.Helper()
	server := asynq.NewServer(f.redis, asynqratelimit.Config(asynq.Config{
		Concurrency: 20, Logger: silent{}, Queues: map[string]int{"default": 1, "other": 1}, TaskCheckInterval: 20 * time.Millisecond,
		DelayedTaskCheckInterval: 20 * time.Millisecond, ShutdownTimeout: time.Second,
		ErrorHandler: asynq.ErrorHandlerFunc(func(context.Context, *asynq.Task, error) { f.failures.Add(1) }),
	}))
	mux := asynq.NewServeMux()
	mux.Use(asynqratelimit.New(l, options, policies...))
	mux.Handle("ship", process)
	if err := server.Start(mux); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	return server
}

func (f *fleet) enqueue(t *testing.T, kind, payload string, options ...asynq.Option) {
	t.Helper()
	if _, err := f.client.Enqueue(asynq.NewTask(kind, []byte(payload)), append(options, asynq.Retention(time.Hour))...); err != nil {
		t.Fatal(err)
	}
}

// await waits until as many tasks are listed, and returns them.
func await(t *testing.T, n int, list func(queue string, options ...asynq.ListOption) ([]*asynq.TaskInfo, error)) []*asynq.TaskInfo {
	t.Helper()
	var all []*asynq.TaskInfo
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		all = nil
		for _, queue := range []string{"default", "other"} {
			some, err := list(queue, asynq.PageSize(1000))
			if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
				t.Fatal(err)
			}
			all = append(all, some...)
		}
		if len(all) >= n {
			return all
		}
	}
	t.Fatalf("%d tasks are listed, want %d", len(all), n)
	return nil
}

var (
	never = asynqratelimit.Options{LongestWait: -1}
	done  = asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })
)

// A task over the limit goes back without a retry, or waits if asynq would archive it, and no error handler hears of it.
func TestATaskOverTheLimitCostsNoRetry(t *testing.T) {
	const n = 8
	f := newFleet(t)
	f.start(t, limiter(t, f.url), never, done, asynqratelimit.Policy{Limit: core.Leaky(1, core.PerSecond(5))})
	for i := range n {
		f.enqueue(t, "ship", "", asynq.MaxRetry(i%2)) // the last retry of every other one is over before it begins
	}
	back := 0
	for _, task := range await(t, n, f.inspector.ListCompletedTasks) {
		if task.Retried != 0 {
			t.Errorf("task %s was retried %d times of %d", task.ID, task.Retried, task.MaxRetry)
		}
		if task.LastErr != "" {
			back++
		}
	}
	if back == 0 || f.failures.Load() != 0 {
		t.Errorf("%d tasks have gone back, and the error handler was told of %d", back, f.failures.Load())
	}
}

// Tasks that wait in their workers when a server shuts down are in the queue again, at no retry, and never in the archive.
func TestTasksThatWaitOutliveAShutdown(t *testing.T) {
	const n = 6
	f := newFleet(t)
	l := limiter(t, f.url)
	slow := core.Leaky(1, core.Per(1, 2*time.Minute))
	if _, err := l.Allow(t.Context(), "jobs", slow); err != nil {
		t.Fatal(err)
	}
	server := f.start(t, l, asynqratelimit.Options{LongestWait: 24 * time.Hour}, done, asynqratelimit.Policy{Limit: slow})
	for i := range n {
		f.enqueue(t, "ship", "", asynq.MaxRetry(i%2)) // the last retry of every other one is over before it begins
	}
	await(t, n, f.inspector.ListActiveTasks)
	server.Shutdown()
	for _, task := range await(t, n, f.inspector.ListPendingTasks) {
		if task.Retried != 0 || task.LastErr != "" {
			t.Errorf("task %s was retried %d times of %d: %s", task.ID, task.Retried, task.MaxRetry, task.LastErr)
		}
	}
	if f.failures.Load() != 0 {
		t.Errorf("the error handler was told of %d", f.failures.Load())
	}
}

// However many servers there are, they keep one limit.
func TestThreeServersKeepOneLimit(t *testing.T) {
	const n, rate = 60, 10
	f := newFleet(t)
	var finished atomic.Int64
	process := func(context.Context, *asynq.Task) error { finished.Add(1); return nil }
	began := time.Now()
	for range 3 {
		f.start(t, limiter(t, f.url), asynqratelimit.Options{}, process, asynqratelimit.Policy{Limit: core.Leaky(1, core.PerSecond(rate))})
	}
	for range n {
		f.enqueue(t, "ship", "", asynq.MaxRetry(1))
	}
	for finished.Load() < n {
		passed := finished.Load()
		if most := 1 + rate*time.Since(began).Seconds(); float64(passed) > most {
			t.Fatalf("%d tasks were processed, and the limit admits %.1f", passed, most)
		}
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("%d tasks were processed", finished.Load())
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("%d tasks in %v: %.0f %% of the limit", n, time.Since(began), 100*n/(1+rate*time.Since(began).Seconds()))
}

// A place is held while a task is processed, and given back once, also after a panic.
func TestPlacesAreHeldWhileTasksAreProcessed(t *testing.T) {
	const n, places = 24, 3
	f := newFleet(t)
	limit := core.Concurrent(places, time.Minute)
	var running, most, tries atomic.Int64
	process := func(_ context.Context, task *asynq.Task) error {
		now := running.Add(1)
		defer running.Add(-1)
		for before := most.Load(); now > before; before = most.Load() {
			most.CompareAndSwap(before, now)
		}
		time.Sleep(5 * time.Millisecond)
		tries.Add(1)
		if string(task.Payload()) == "panics" {
			panic("the handler fails")
		}
		return nil
	}
	var l *core.Limiter
	for range 3 {
		l = limiter(t, f.url)
		f.start(t, l, asynqratelimit.Options{LongestWait: 50 * time.Millisecond}, process, asynqratelimit.Policy{Limit: limit, By: asynqratelimit.Type})
	}
	for i := range n {
		f.enqueue(t, "ship", map[bool]string{true: "panics", false: ""}[i%4 == 0], asynq.MaxRetry(0))
	}
	await(t, n*3/4, f.inspector.ListCompletedTasks)
	await(t, n/4, f.inspector.ListArchivedTasks)
	if most.Load() > places || tries.Load() != n || f.failures.Load() != n/4 {
		t.Errorf("%d tasks at once for %d places, %d tries of %d tasks, %d failures", most.Load(), places, tries.Load(), n, f.failures.Load())
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // places are given back in the background
		free, err := l.Peek(t.Context(), "type ship", limit)
		if err == nil && free.Remaining == places {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d places are free, %v", free.Remaining, err)
		}
	}
}

// shipment is the payload of a task.
type shipment struct{ Account string }

// Keys are the queue, the type and the payload, and no other spelling of the type goes around a policy.
func TestKeys(t *testing.T) {
	f := newFleet(t)
	var mutex sync.Mutex
	processed := make(map[string]int)
	process := func(_ context.Context, task *asynq.Task) error {
		mutex.Lock()
		defer mutex.Unlock()
		processed[string(task.Payload())]++
		return nil
	}
	byAccount := asynqratelimit.Payload("ship", func(s shipment) string { return s.Account })
	f.start(t, limiter(t, f.url), never, process, asynqratelimit.Policy{Limit: core.FixedWindow(2, time.Hour), By: byAccount},
		asynqratelimit.Policy{Limit: core.FixedWindow(100, time.Hour).Named("queue"), By: asynqratelimit.Queue})
	for i := range 6 {
		f.enqueue(t, "ship"+strconv.Itoa(i), `{"Account": "a"}`, asynq.Queue([]string{"default", "other"}[i%2]), asynq.MaxRetry(1)) // the pattern of the handler
		f.enqueue(t, "ship", `{}`, asynq.MaxRetry(1))
	}
	await(t, 4, f.inspector.ListCompletedTasks)
	await(t, 8, f.inspector.ListRetryTasks)
	mutex.Lock()
	defer mutex.Unlock()
	if processed[`{"Account": "a"}`] != 2 || processed["{}"] != 2 {
		t.Errorf("processed %v", processed)
	}
	for _, test := range []struct{ kind, payload, want string }{
		{"ship", `{"account": "a"}`, "type ship a"}, {"shipping", `{"Account": "b", "ACCOUNT": "a"}`, "type ship a"}, {"ship", "x", "type ship"}, {"Ship", "{}", ""},
	} {
		if got := byAccount(t.Context(), asynq.NewTask(test.kind, []byte(test.payload))); got != test.want {
			t.Errorf("%s %s has the key %q, want %q", test.kind, test.payload, got, test.want)
		}
	}
}

// A call that cannot be made in time puts its task back.
func TestACallThatCannotBeMadeInTime(t *testing.T) {
	f := newFleet(t)
	l := limiter(t, f.url)
	process := func(ctx context.Context, _ *asynq.Task) error {
		if err := l.Wait(ctx, "partner", core.Leaky(1, core.PerSecond(5)), core.WithLongestWait(0)); err != nil {
			return fmt.Errorf("the partner: %w", err)
		}
		return nil
	}
	f.start(t, l, never, process, asynqratelimit.Policy{Limit: core.Unlimited})
	for i := range 4 {
		f.enqueue(t, "ship", "", asynq.MaxRetry(i%2)) // those that must not go back try again in their workers
	}
	for _, task := range await(t, 4, f.inspector.ListCompletedTasks) {
		if task.Retried != 0 {
			t.Errorf("task %s was retried %d times", task.ID, task.Retried)
		}
	}
}

// A task that must not go back waits no longer than the store is away.
func TestATaskWaitsForTheStore(t *testing.T) {
	f := newFleet(t)
	store := redistest.Start(t)
	l, err := core.Open(store.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	store.Stop(t)
	failed := make(chan struct{}, 1000)
	options := asynqratelimit.Options{LongestWait: time.Second, FailClosed: true, Observe: func(error) { failed <- struct{}{} }}
	f.start(t, l, options, done, asynqratelimit.Policy{Limit: core.Leaky(1, core.PerSecond(5))})
	f.enqueue(t, "ship", "", asynq.MaxRetry(0))
	<-failed
	store.Restart(t)
	if task := await(t, 1, f.inspector.ListCompletedTasks)[0]; task.LastErr != "" {
		t.Errorf("the task has failed: %s", task.LastErr)
	}
}

// The functions of a configuration still decide about all other errors.
func TestConfigLeavesOtherErrorsAlone(t *testing.T) {
	failed, later := errors.New("the task fails"), fmt.Errorf("wrapped: %w", &jobs.LaterError{After: time.Hour, Err: context.DeadlineExceeded})
	told := 0
	c := asynqratelimit.Config(asynq.Config{
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Minute }, DelayedTaskCheckInterval: time.Minute,
		IsFailure:    func(error) bool { return false },
		ErrorHandler: asynq.ErrorHandlerFunc(func(context.Context, *asynq.Task, error) { told++ }),
	})
	c.ErrorHandler.HandleError(t.Context(), nil, failed)
	c.ErrorHandler.HandleError(t.Context(), nil, later)
	if c.RetryDelayFunc(1, failed, nil) != time.Minute || c.IsFailure(failed) || told != 1 || c.DelayedTaskCheckInterval != time.Minute {
		t.Errorf("the configuration is not heeded: %+v", c)
	}
	own := asynqratelimit.Config(asynq.Config{})
	if own.RetryDelayFunc(1, later, nil) != time.Hour || own.IsFailure(later) || !own.IsFailure(failed) || own.RetryDelayFunc(0, failed, nil) < 15*time.Second ||
		own.ErrorHandler != nil || own.DelayedTaskCheckInterval != time.Second {
		t.Errorf("the default is %+v", own)
	}
}
