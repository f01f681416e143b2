package guardtest

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var errGone = errors.New("the client went away")

var shapingCases = []testCase{
	{"shaped requests reach the handler at an even pace, and the rest is denied", testShaping},
	{"a client that goes away in the queue does not reach the handler", testGoneInQueue},
	{"a request whose deadline comes before its turn is answered 503 at once", testTooLateInQueue},
	{"a client that goes away frees its place for the next", testPlaceIsFreed},
	{"the first of a burst pass without delay", testUndelayed},
	{"a server that shuts down does not wait for its queue", testDraining},
	{"a shadow policy holds nobody", testShadowHoldsNobody},
	{"Elapsed is the time that the call took", testElapsed},
}

func testShaping(t *testing.T, s *suite) {
	bubbletest.Run(t, func(t *testing.T) {
		start := time.Now()
		served := make(chan time.Duration, 5)
		h := s.serve(site{
			around:  []middleware{s.meters["shaping"](core.New(core.NewMemory()), 3, core.PerSecond(2))},
			handler: func(http.ResponseWriter, *http.Request) { served <- time.Since(start) },
		})
		statuses := make(chan int, 5)
		for range cap(statuses) {
			go func() { statuses <- answer(h, ask(http.MethodGet, "/")).StatusCode }()
			synctest.Wait()
		}
		counts := make(map[int]int)
		for range cap(statuses) {
			counts[<-statuses]++
		}
		if counts[http.StatusOK] != 3 || counts[http.StatusTooManyRequests] != 2 {
			t.Errorf("statuses %v, want 3 of 200 and 2 of 429", counts)
		}
		for _, want := range []time.Duration{0, 500 * time.Millisecond, time.Second} {
			if got := <-served; got != want {
				t.Errorf("served after %v, want %v", got, want)
			}
		}
	})
}

// queued sends a second request to a site where it has to wait for a minute, and
// returns how long it was held and its answer.
func (f *fixture) queued(ctx context.Context) (held time.Duration, response *http.Response) {
	f.limiter = core.New(core.NewMemory()) // on the bubble's clock
	h := f.around(f.limited(guard.Policy{Limit: core.Shaping(3, core.PerMinute(1)).Named("queue")}))
	get(h)
	f.event()
	start := time.Now()
	response = answer(h, ask(http.MethodGet, "/").WithContext(ctx))
	return time.Since(start), response
}

func testGoneInQueue(t *testing.T, s *suite) {
	bubbletest.Run(t, func(t *testing.T) {
		f := s.fixture(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errGone) })
		held, response := f.queued(ctx)
		if held != time.Second {
			t.Errorf("held for %v, want until the client went away after 1s", held)
		}
		f.expectRan(1)
		e := f.event()
		if e.Status != 499 || !errors.Is(e.Err, errGone) || len(e.Outcomes) != 1 || !e.Outcomes[0].Decision.Allowed {
			t.Errorf("observed %+v, want 499 of an admitted request", e)
		}
		if response.StatusCode != 499 || response.Header.Get("Retry-After") != "" || response.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("answered %d with %v, want 499 that is not stored", response.StatusCode, response.Header)
		}
	})
}

func testTooLateInQueue(t *testing.T, s *suite) {
	bubbletest.Run(t, func(t *testing.T) {
		f := s.fixture(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		held, response := f.queued(ctx)
		if held != 0 {
			t.Errorf("held for %v, want not at all", held)
		}
		f.expectRan(1)
		if e := f.event(); e.Status != http.StatusServiceUnavailable || !errors.Is(e.Err, context.DeadlineExceeded) {
			t.Errorf("observed %+v, want 503 and DeadlineExceeded", e)
		}
		response.Header.Set("Retry-After", "?")
		expect(t, "the answer", text(response), unavailable)
	})
}

func testPlaceIsFreed(t *testing.T, s *suite) {
	bubbletest.Run(t, func(t *testing.T) {
		start := time.Now()
		served := make(chan time.Duration, 5)
		limiter := core.New(core.NewMemory())
		h := s.serve(site{
			around: []middleware{s.new(limiter, guard.Options{},
				guard.Policy{Limit: core.Shaping(3, core.PerSecond(1))},
				guard.Policy{Limit: core.FixedWindow(100, time.Hour).Named("also"), By: keyfuncs.Global})},
			handler: func(http.ResponseWriter, *http.Request) { served <- time.Since(start) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		for _, ctx := range []context.Context{t.Context(), ctx, t.Context()} {
			go answer(h, ask(http.MethodGet, "/").WithContext(ctx))
			synctest.Wait()
		}
		time.Sleep(100 * time.Millisecond)
		if status := answer(h, ask(http.MethodGet, "/")).StatusCode; status != http.StatusTooManyRequests {
			t.Errorf("a fourth is answered with %d, want 429", status)
		}
		cancel()
		synctest.Wait()
		if status := answer(h, ask(http.MethodGet, "/")).StatusCode; status != http.StatusOK {
			t.Errorf("who comes when a place is free is answered with %d", status)
		}
		for _, want := range []time.Duration{0, time.Second, 2 * time.Second} {
			if got := <-served; got != want {
				t.Errorf("served after %v, want %v", got, want)
			}
		}
		key, _ := keyfuncs.Global(ask(http.MethodGet, "/"))
		if d, err := limiter.Peek(t.Context(), key, core.FixedWindow(100, time.Hour).Named("also")); err != nil || d.Remaining != 97 {
			t.Errorf("%d of the other policy's 100 remain and %v, want those of the served charged", d.Remaining, err)
		}
	})
}

func testUndelayed(t *testing.T, s *suite) {
	bubbletest.Run(t, func(t *testing.T) {
		f := s.fixture(t)
		f.limiter = core.New(core.NewMemory())
		h := f.around(f.limited(guard.Policy{Limit: core.Shaping(5, core.PerSecond(1)), Queue: guard.QueuePolicy{Undelayed: 2}}))
		start := time.Now()
		for _, want := range []time.Duration{0, 0, 0, time.Second, 2 * time.Second} {
			get(h)
			if got := time.Since(start); got != want {
				t.Errorf("served after %v, want %v", got, want)
			}
		}

		plan := guard.Policy{LimitFor: func(*http.Request) core.Limit { return core.Leaky(1, core.PerSecond(1)) }, Queue: guard.QueuePolicy{Undelayed: 2}}
		h = f.around(f.limited(plan))
		for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
			if got := answer(h, ask(http.MethodGet, "/")).StatusCode; got != want {
				t.Errorf("under a plan that delays nobody: status %d, want %d", got, want)
			}
		}
	})
}

func testDraining(t *testing.T, s *suite) {
	bubbletest.Run(t, func(t *testing.T) {
		f := s.fixture(t)
		f.limiter = core.New(core.NewMemory())
		draining, shutDown := context.WithCancel(t.Context())
		options := guard.Options{Draining: draining}
		limit := core.Shaping(10, core.PerMinute(1))
		h := f.around(f.new(f.limiter, options, guard.Policy{Limit: limit, By: keyfuncs.Global}))
		start := time.Now()
		statuses := make(chan int, 6)
		for range cap(statuses) - 1 {
			go func() { statuses <- answer(h, ask(http.MethodGet, "/")).StatusCode }()
			synctest.Wait()
		}
		shutDown()
		synctest.Wait()
		statuses <- answer(h, ask(http.MethodGet, "/")).StatusCode
		counts := make(map[int]int)
		for range cap(statuses) {
			counts[<-statuses]++
		}
		if counts[http.StatusOK] != 1 || counts[http.StatusServiceUnavailable] != 5 || time.Since(start) != 0 {
			t.Errorf("statuses %v after %v, want 1 of 200 and 5 of 503 at once", counts, time.Since(start))
		}
		synctest.Wait() // the charged units are given back beside clients who leave
		f.expectUsed(limit, 1)
	})
}

func testShadowHoldsNobody(t *testing.T, s *suite) {
	bubbletest.Run(t, func(t *testing.T) {
		f := s.fixture(t)
		h := f.around(f.limited(guard.Policy{Limit: core.Shaping(3, core.PerMinute(1)), Shadow: true}))
		start := time.Now()
		get(h)
		get(h)
		if held := time.Since(start); held != 0 {
			t.Errorf("held for %v, want not at all", held)
		}
		if d := f.events[1].Outcomes[0].Decision; d.Delay != time.Minute {
			t.Errorf("observed a delay of %v, want 1m", d.Delay)
		}
	})
}

// slow takes a while to answer.
type slow struct{ core.Store }

func (s slow) Decide(ctx context.Context, calls []core.Call) (answered int, err error) {
	time.Sleep(7 * time.Millisecond) // in a bubble, where the test sets the time
	return s.Store.Decide(ctx, calls)
}

func testElapsed(t *testing.T, s *suite) {
	bubbletest.Run(t, func(t *testing.T) {
		f := s.fixture(t)
		f.limiter = core.New(slow{f.store})
		h := f.around(f.limited(guard.Policy{Limit: one()}))
		get(h)
		get(h)
		f.store.failure = errDown
		get(h)
		for i, e := range f.events {
			if e.Elapsed != 7*time.Millisecond {
				t.Errorf("event %d: elapsed %v, want 7ms", i, e.Elapsed)
			}
		}
		if len(f.events) != 3 || f.events[1].Status != http.StatusTooManyRequests || f.events[2].Err == nil {
			t.Errorf("observed %+v, want one served, one denied and one failed", f.events)
		}
	})
}
