package core_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// A trace gets each call that the cache answers, and no other.
func TestRepeatedDenialsAreTraced(t *testing.T) {
	repeated := 0
	trace := core.WithTrace(core.Trace{Repeated: func() { repeated++ }})
	limiter := core.New(denialcache.New(core.NewMemory(), 10, trace), trace) // which has nothing to tell of that
	for range 4 {
		if _, err := limiter.Allow(t.Context(), "key", core.FixedWindow(1, time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if repeated != 2 {
		t.Errorf("%d were traced, want the third and the fourth call", repeated)
	}
}

func TestWaitsAreTraced(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		var waits []core.Wait
		limiter, err := core.Open("memory:", core.WithTrace(core.Trace{Wait: func(w core.Wait) { waits = append(waits, w) }}))
		if err != nil {
			t.Fatal(err)
		}
		limit := core.TokenBucket(2, core.PerSecond(1))
		_ = limiter.WaitN(t.Context(), "key", limit, 2)
		_ = limiter.Wait(t.Context(), "key", limit)
		soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_ = limiter.Wait(soon, "key", limit)
		if len(waits) != 3 {
			t.Fatalf("%d waits were traced, want 3: %+v", len(waits), waits)
		}
		if w := waits[0]; w.Limit != limit || w.Units != 2 || w.Elapsed != 0 || w.Err != nil {
			t.Errorf("the first was traced as %+v, want 2 units at once", w)
		}
		if w := waits[1]; w.Units != 1 || w.Elapsed != time.Second || w.Err != nil {
			t.Errorf("the second was traced as %+v, want a second", w)
		}
		if _, limited := errors.AsType[*core.LimitedError](waits[2].Err); !limited {
			t.Errorf("the third was traced with %v, want a LimitedError", waits[2].Err)
		}
	})
}

// Several traces all get everything.
func TestEveryTraceIsTold(t *testing.T) {
	server := redistest.Start(t)
	var told record
	trace := func(name string) core.Option {
		return core.WithTrace(core.Trace{
			Batch:   func(core.Batch) { told.add(name + " call") },
			Breaker: func(string, string) { told.add(name + " breaker") },
			Wait:    func(core.Wait) { told.add(name + " wait") },
		})
	}
	limiter, err := core.Open(server.URL(), core.WithBreaker(1, time.Hour), core.WithBudget(patient), core.WithLogger(discard),
		trace("first"), core.WithTrace(core.Trace{}), trace("second"))
	if err != nil {
		t.Fatal(err)
	}
	defer limiter.Close()
	if err := limiter.Wait(t.Context(), "key", core.Leaky(1, core.PerSecond(1))); err != nil {
		t.Fatal(err)
	}
	server.Stop(t)
	_, _ = limiter.Allow(t.Context(), "key", core.Leaky(1, core.PerSecond(1)))
	told.await(t, 8)
	for what, times := range map[string]int{"call": 2, "breaker": 1, "wait": 1} {
		for _, name := range []string{"first ", "second "} {
			if got := told.count(name + what); got != times {
				t.Errorf("the %strace was told %d times of a %s, want %d", name, got, what, times)
			}
		}
	}

	var repeated int
	once := func() core.Option { return core.WithTrace(core.Trace{Repeated: func() { repeated++ }}) }
	denied := core.New(denialcache.New(core.NewMemory(), 10, once(), core.WithTrace(core.Trace{}), once()))
	for range 3 {
		_, _ = denied.Allow(t.Context(), "key", core.FixedWindow(1, time.Hour))
	}
	if repeated != 2 {
		t.Errorf("two traces were told %d times of one repetition", repeated)
	}
}

// An outage of a server is logged once, however often the server is tried meanwhile.
func TestABreakerIsLoggedWhenItOpensAndCloses(t *testing.T) {
	server := redistest.Start(t)
	var logged record
	tried := make(chan struct{}, 100)
	limiter, err := core.Open(server.URL(), core.WithBudget(patient), core.WithBreaker(1, time.Millisecond),
		core.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))), core.WithTrace(core.Trace{Breaker: func(_ string, state string) {
			if state == "half-open" {
				tried <- struct{}{}
			}
		}}))
	if err != nil {
		t.Fatal(err)
	}
	defer limiter.Close()
	ask := func() error {
		_, err := limiter.Allow(t.Context(), "key", core.Leaky(1, core.PerSecond(1)))
		return err
	}
	server.Stop(t)
	for len(tried) < 3 {
		if ask() == nil {
			t.Fatal("a server that has stopped has answered")
		}
	}
	server.Restart(t)
	for ask() != nil {
		if t.Context().Err() != nil {
			t.Fatal("the server was not asked again")
		}
	}
	lines := logged.await(t, 2)
	if len(lines) != 2 || !strings.Contains(lines[0], "level=INFO") || !strings.Contains(lines[0], "is not asked for a while") ||
		!strings.Contains(lines[1], "level=INFO") || !strings.Contains(lines[1], "answers again") {
		t.Errorf("logged %q, want that it opened and closed", lines)
	}
	for _, line := range lines {
		if !strings.Contains(line, "server="+server.Addr()) {
			t.Errorf("logged %q, want the server", line)
		}
	}
}

// record is a list that many may add to, and a log's lines.
type record struct {
	mu   sync.Mutex
	list []string
}

func (r *record) add(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, what)
}

func (r *record) Write(line []byte) (int, error) {
	r.add(string(line))
	return len(line), nil
}

func (r *record) count(what string) (n int) {
	for _, other := range r.await(nil, 0) {
		if other == what {
			n++
		}
	}
	return n
}

// await returns the list when it has a number of entries.
func (r *record) await(t *testing.T, n int) []string {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		list := slices.Clone(r.list)
		r.mu.Unlock()
		if len(list) >= n {
			return list
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d entries, want %d: %q", len(list), n, list)
		}
	}
}
