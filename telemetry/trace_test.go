package telemetry_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/internal/redistest"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
	"github.com/weir-go/ratelimit/telemetry"
)

// What a store and a limiter do behind the middleware is reported, too, also when the
// server goes away.
func TestTheStoreIsReported(t *testing.T) {
	server := redistest.Start(t)
	reporter, meter := newReporter(t, telemetry.Options{})
	limiter, err := core.Open(server.URL(), core.WithBreaker(1, time.Hour), core.WithBudget(30*time.Second), core.WithTrace(reporter.Trace()))
	if err != nil {
		t.Fatal(err)
	}
	defer limiter.Close()
	limit := ratelimit.New(limiter, guard.Options{Observe: reporter.Observe},
		guard.Policy{Limit: core.FixedWindow(100, time.Hour).Named("hundred")})(http.NotFoundHandler())
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	limit.ServeHTTP(httptest.NewRecorder(), request)
	if err := limiter.Wait(t.Context(), "key", core.FixedWindow(1, time.Second).Named("waited")); err != nil {
		t.Fatal(err)
	}
	poll(t, func() error { // a call is reported after its answers have been given
		if got := meter.points(t, "ratelimit.store.batch.checks"); len(got) != 1 || !strings.HasPrefix(got[0], ": count 2 sum 2 ") {
			return fmt.Errorf("reported batches %q, want 2 without attributes", got)
		}
		return nil
	})
	if got := meter.points(t, "ratelimit.wait.duration"); len(got) != 1 || !strings.Contains(got[0], "=waited: count 1") {
		t.Errorf("reported waits %q, want 1", got)
	}
	server.Stop(t)
	limit.ServeHTTP(httptest.NewRecorder(), request)
	limit.ServeHTTP(httptest.NewRecorder(), request)
	unasked := strings.Join(meter.points(t, "ratelimit.decisions"), "\n")
	if !strings.Contains(unasked, "error.type=suspended,ratelimit.algorithm=fixed-window,ratelimit.error_mode=fail-open,ratelimit.outcome=error,ratelimit.policy=hundred: 1") {
		t.Errorf("reported %s, want that it fails open", unasked)
	}
	want := []string{"ratelimit.breaker.state=closed: 0", "ratelimit.breaker.state=half-open: 0", "ratelimit.breaker.state=open: 1"}
	poll(t, func() error {
		if got := meter.points(t, "ratelimit.store.servers"); !slices.Equal(got, want) {
			return fmt.Errorf("reported servers %q, want %q", got, want)
		}
		return nil
	})
}

// poll tries until it works.
func poll(t *testing.T, try func() error) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
