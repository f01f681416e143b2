package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/jobs"
)

// job is a job of these tests: its key.
type job string

func byKey(_ context.Context, j job) string { return string(j) }

var never = jobs.Options{LongestWait: -1}

func limiter(t *testing.T) *core.Limiter {
	t.Helper()
	l := core.New(core.NewMemory())
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func done(context.Context) error { return nil }

// later returns when a job has to be tried again: 0 if it was run.
func later(t *testing.T, err error) time.Duration {
	t.Helper()
	if err == nil {
		return 0
	}
	e, is := errors.AsType[*jobs.LaterError](err)
	if !is {
		t.Fatalf("the job has failed: %v", err)
	}
	return e.After
}

// Jobs that a limit puts back come back one after another, at its pace, whichever process has had them, and those of another key are not in their way.
func TestJobsComeBackAtThePaceOfTheLimit(t *testing.T) {
	for _, limit := range []core.Quota{
		core.Leaky(1, core.PerSecond(2)), core.TokenBucket(3, core.PerSecond(2)), core.GCRA(2, core.PerSecond(2)),
		core.FixedWindow(10, 5*time.Second), core.SlidingWindow(10, 5*time.Second), core.SlidingLog(10, 5*time.Second),
	} {
		bubbletest.Run(t, func(t *testing.T) {
			l := limiter(t)
			processes := []*jobs.Limits[job]{jobs.New(l, never, jobs.Policy[job]{Limit: limit, By: byKey}), jobs.New(l, never, jobs.Policy[job]{Limit: limit, By: byKey})}
			var back []time.Duration
			for i := range 30 {
				if after := later(t, processes[i%2].Run(t.Context(), "a", done)); after > 0 {
					back = append(back, after)
				}
			}
			if len(back) < 15 {
				t.Fatalf("%v: only %d of 30 jobs were put back", limit, len(back))
			}
			for i := 1; i < len(back); i++ {
				if apart := back[i] - back[i-1]; apart != time.Second/2 {
					t.Errorf("%v: two jobs come back %v apart, want 500ms: %v", limit, apart, back)
				}
			}
			if later(t, processes[0].Run(t.Context(), "b", done)) != 0 {
				t.Errorf("%v: a job of another key was put back", limit)
			}
		})
	}
}

// fleet is a queue, and processes that take jobs out of it. A job that has come back is noticed at the next poll.
type fleet struct {
	mutex    sync.Mutex
	ready    []time.Time // when a job may be taken
	done     int
	attempts int
}

// take takes a job out of the queue.
func (f *fleet) take() bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	i := slices.IndexFunc(f.ready, func(at time.Time) bool { return !at.After(time.Now()) })
	if i >= 0 {
		f.ready = slices.Delete(f.ready, i, i+1)
	}
	return i >= 0
}

// work has the workers of a process take jobs, at polls, until the context ends.
func (f *fleet) work(ctx context.Context, limits *jobs.Limits[job], workers int, poll time.Duration) {
	busy := make(chan struct{}, workers)
	for ctx.Err() == nil {
		for len(busy) < workers && f.take() {
			busy <- struct{}{}
			go func() {
				defer func() { <-busy }()
				f.attempt(limits.Run(ctx, "a", done))
			}()
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
		}
	}
}

func (f *fleet) attempt(err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.attempts++
	if e, is := errors.AsType[*jobs.LaterError](err); is {
		f.ready = append(f.ready, time.Now().Add(e.After))
	} else if err == nil {
		f.done++
	}
}

// Three processes use the limit up to 95 % at least, never exceed it, and try each job that they have done a few times at most, though a backlog waits.
func TestTheLimitIsUsedUp(t *testing.T) {
	const minutes, workers = 3, 40
	for _, limit := range []core.Quota{
		core.Leaky(1, core.PerSecond(5)), core.Leaky(10, core.PerSecond(10)), core.TokenBucket(20, core.PerMinute(300)), core.GCRA(1, core.PerSecond(3)),
		core.FixedWindow(100, 10*time.Second), core.FixedWindow(600, time.Minute), core.SlidingWindow(600, time.Minute), core.SlidingLog(50, 10*time.Second),
		core.Leaky(1, core.PerMinute(20)),
	} {
		bubbletest.Run(t, func(t *testing.T) {
			rate := float64(limit.Rate().Events) / limit.Rate().Period.Seconds()
			want := rate * minutes * 60
			f := &fleet{ready: make([]time.Time, int(want*1.5))}
			ctx, cancel := context.WithTimeout(t.Context(), minutes*time.Minute)
			defer cancel()
			l := limiter(t)
			var processes sync.WaitGroup
			for i := range 3 {
				limits := jobs.New(l, jobs.Options{}, jobs.Policy[job]{Limit: limit, By: byKey})
				processes.Go(func() { f.work(ctx, limits, workers, time.Second+time.Duration(i)*30*time.Millisecond) })
			}
			processes.Wait()
			synctest.Wait()
			most := want + float64(2*limit.Capacity()) + 1
			t.Logf("%v: %d done of %.0f, %d attempts", limit, f.done, want, f.attempts)
			if float64(f.done) < 0.95*want || float64(f.done) > most {
				t.Errorf("%v: %d jobs were done, want %.0f to %.0f", limit, f.done, 0.95*want, most)
			}
			if f.attempts > 3*f.done+3*workers {
				t.Errorf("%v: %d jobs were done in %d attempts", limit, f.done, f.attempts)
			}
		})
	}
}

// A place is held while the work runs, and is given back once, also after a panic.
func TestPlacesAreHeldWhileJobsRun(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := limiter(t)
		places := core.Concurrent(2, time.Minute)
		limits := jobs.New(l, never, jobs.Policy[job]{Limit: places, By: byKey})
		free := func(want int) {
			t.Helper()
			synctest.Wait()
			if d, err := l.Peek(t.Context(), "a", places); err != nil || d.Remaining != want {
				t.Errorf("%d places are free, %v, want %d", d.Remaining, err, want)
			}
		}
		failed := errors.New("the job fails")
		for _, work := range []func(context.Context) error{
			done, func(context.Context) error { return failed }, func(context.Context) error { panic(failed) },
			func(ctx context.Context) error {
				return limits.Run(ctx, "a", func(ctx context.Context) error {
					if after := later(t, limits.Run(ctx, "a", done)); after <= 0 {
						t.Error("a third job has run")
					}
					free(0)
					return nil
				})
			},
		} {
			func() {
				defer func() { _ = recover() }()
				_ = limits.Run(t.Context(), "a", func(ctx context.Context) error {
					free(1)
					return work(ctx)
				})
			}()
			free(2)
		}
	})
}

// A job that has found no place comes back long before a lease runs out, however many have gone back before it.
func TestJobsComeBackForPlacesThatAreGivenBack(t *testing.T) {
	limits := jobs.New(limiter(t), never, jobs.Policy[job]{Limit: core.Concurrent(1, 10*time.Minute), By: byKey})
	err := limits.Run(t.Context(), "a", func(ctx context.Context) error {
		for range 100 {
			if after := later(t, limits.Run(ctx, "a", done)); after <= 0 || after > time.Second {
				t.Errorf("it comes back in %v", after)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A job has to pass all policies, and a denied one costs nothing. No key and no cost are no limit.
func TestPolicies(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := limiter(t)
		size := func(_ context.Context, j job) int { return len(j) - 1 }
		wide, narrow := core.FixedWindow(100, time.Hour), core.FixedWindow(3, time.Hour)
		limits := jobs.New(l, never, jobs.Policy[job]{Limit: wide}, jobs.Policy[job]{Limit: core.Unlimited}, jobs.Policy[job]{Limit: narrow, Cost: size, By: func(_ context.Context, j job) string {
			return strings.Trim(string(j)[:1], "-")
		}})
		for _, test := range []struct {
			job job
			ran bool
		}{{"a2c", true}, {"a", true}, {"a2", true}, {"a2", false}, {"b", true}, {"b234", true}, {"-234567", true}} {
			if ran := later(t, limits.Run(t.Context(), test.job, done)) == 0; ran != test.ran {
				t.Errorf("%s has run: %t", test.job, ran)
			}
		}
		if d, err := l.Peek(t.Context(), "jobs", wide); err != nil || d.Remaining != 94 {
			t.Errorf("%d are left for all jobs, %v", d.Remaining, err)
		}
		if err := limits.Run(t.Context(), "c2345", done); isLater(err) || err == nil {
			t.Errorf("a job that costs more than the limit ever has: %v", err)
		}
		negative := jobs.New(l, never, jobs.Policy[job]{Limit: wide, Cost: func(context.Context, job) int { return -1 }})
		if err := negative.Run(t.Context(), "a", done); err == nil || isLater(err) {
			t.Errorf("a negative cost: %v", err)
		}
	})
}

func isLater(err error) bool {
	_, is := errors.AsType[*jobs.LaterError](err)
	return is
}

// A call to another service that cannot be made in time puts the job back, and other errors are the job's own.
func TestErrorsOfTheWork(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := limiter(t)
		limits := jobs.New(l, never, jobs.Policy[job]{Limit: core.FixedWindow(100, time.Hour)})
		partner := core.Leaky(1, core.PerMinute(1))
		call := func(ctx context.Context) error {
			if err := l.Wait(ctx, "partner", partner, core.WithLongestWait(time.Second)); err != nil {
				return fmt.Errorf("the partner: %w", err)
			}
			return nil
		}
		if err := limits.Run(t.Context(), "a", call); err != nil {
			t.Error(err)
		}
		if after := later(t, limits.Run(t.Context(), "a", call)); after < time.Minute || after > time.Minute+time.Second {
			t.Errorf("comes back in %v, want a minute", after)
		}
		failed := errors.New("the job fails")
		if err := limits.Run(t.Context(), "a", func(context.Context) error { return failed }); !errors.Is(err, failed) || isLater(err) {
			t.Error(err)
		}
	})
}

// Where the store does not answer, jobs run, or are put back.
func TestStoresThatDoNotAnswer(t *testing.T) {
	down, err := core.Open("redis://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer down.Close()
	for _, closed := range []bool{false, true} {
		var observed atomic.Int64
		limits := jobs.New(down, jobs.Options{FailClosed: closed, Observe: func(error) { observed.Add(1) }}, jobs.Policy[job]{Limit: core.Leaky(1, core.PerSecond(1))})
		ran := false
		err := limits.Run(t.Context(), "a", func(context.Context) error { ran = true; return nil })
		if after := later(t, err); ran == closed || (after > 0) != closed || observed.Load() != 1 {
			t.Errorf("fails closed %t: has run %t, comes back in %v, %d errors", closed, ran, after, observed.Load())
		}
	}
}

// A job whose context ends while it waits has not run, and costs nothing.
func TestAWaitEndsWithItsContext(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l := limiter(t)
		limit := core.Leaky(1, core.PerSecond(1))
		limits := jobs.New(l, jobs.Options{}, jobs.Policy[job]{Limit: limit, By: byKey})
		_ = limits.Run(t.Context(), "a", done)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		if err := limits.Run(ctx, "a", func(context.Context) error { t.Error("it runs"); return nil }); !errors.Is(err, context.Canceled) || isLater(err) {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if d, err := l.Peek(t.Context(), "a", limit); err != nil || d.Remaining != 1 {
			t.Errorf("%d are left, %v", d.Remaining, err)
		}
	})
}

func TestMisusePanicsAtTheStart(t *testing.T) {
	good := jobs.Policy[job]{Limit: core.Leaky(1, core.PerSecond(1))}
	for i, misuse := range []func(){
		func() { jobs.New(nil, never, good) },
		func() { jobs.New[job](limiter(t), never) },
		func() { jobs.New(limiter(t), never, jobs.Policy[job]{}) },
		func() { jobs.New(limiter(t), never, good, jobs.Policy[job]{Limit: core.Leaky(0, core.PerSecond(1))}) },
		func() { jobs.New(limiter(t), never, jobs.Policy[job]{Limit: core.Shaping(10, core.PerSecond(1))}) },
		func() {
			jobs.New(limiter(t), never, jobs.Policy[job]{Limit: core.Ban{Strikes: core.SlidingLog(5, time.Minute)}.Limit()})
		},
	} {
		func() {
			defer func() {
				if reason := recover(); reason == nil || !strings.HasPrefix(fmt.Sprint(reason), "jobs: ") {
					t.Errorf("%s: %v", strconv.Itoa(i), reason)
				}
			}()
			misuse()
		}()
	}
}
