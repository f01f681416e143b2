package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/telemetry"
)

func TestWaitingInAQueueIsReported(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		reporter, meter := newReporter(t, telemetry.Options{})
		g := guard.Must(guard.New(core.New(core.NewMemory()), guard.Options{Observe: reporter.Observe},
			guard.Policy{Limit: core.Shaping(5, core.Per(1, 2*time.Second)).Named("queue")}))
		for range 2 {
			g.Decide(httptest.NewRequest(http.MethodGet, "/", nil), nil)
		}
		want := []string{"ratelimit.algorithm=shaping,ratelimit.outcome=allowed,ratelimit.policy=queue: count 1 sum 2 in [≤2.5]"}
		if got := meter.points(t, "ratelimit.wait.duration"); !slices.Equal(got, want) {
			t.Errorf("reported waits %q, want %q", got, want)
		}
		want = []string{"ratelimit.algorithm=shaping,ratelimit.policy=queue: count 2 sum 2 in [≤0.001 ≤2.5]"}
		if got := meter.points(t, "ratelimit.delay.duration"); !slices.Equal(got, want) {
			t.Errorf("reported delays %q, want %q", got, want)
		}
	})
}

// A wait for a place is told once, by the policy that has the places, whatever stands beside it.
func TestWaitingForAPlaceIsReported(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		reporter, meter := newReporter(t, telemetry.Options{})
		limiter := core.New(core.NewMemory(), core.WithTrace(reporter.Trace()))
		defer limiter.Close()
		g := guard.Must(guard.New(limiter, guard.Options{Observe: reporter.Observe},
			guard.Policy{Limit: core.TokenBucket(10, core.PerMinute(1)).Named("rate")},
			guard.Policy{Limit: core.Shaping(50, core.PerSecond(1)).Named("queue")},
			guard.Policy{Limit: core.Concurrent(1, 30*time.Second).Named("place"), Queue: guard.QueuePolicy{MaxWait: 5 * time.Second}}))
		request := func() guard.Verdict { return g.Decide(httptest.NewRequest(http.MethodGet, "/", nil), nil) }
		first, answered := request(), make(chan guard.Verdict)
		go func() { answered <- request() }()
		time.Sleep(2 * time.Second)
		first.Serve(httptest.NewRecorder(), func(http.ResponseWriter, *http.Request) int { return 0 })
		if second := <-answered; second.Denial != nil {
			t.Fatalf("denied: %+v", second.Denial)
		}
		if third := request(); third.Denial == nil || third.Denial.Status != http.StatusTooManyRequests {
			t.Fatalf("the third request: %+v", third.Denial)
		}
		want := []string{
			"ratelimit.algorithm=concurrent,ratelimit.outcome=allowed,ratelimit.policy=place: count 1 sum 2 in [≤2.5]",
			"ratelimit.algorithm=concurrent,ratelimit.outcome=denied,ratelimit.policy=place: count 1 sum 5 in [≤5]",
		}
		if got := meter.points(t, "ratelimit.wait.duration"); !slices.Equal(got, want) {
			t.Errorf("reported waits %q, want %q", got, want)
		}
	})
}
