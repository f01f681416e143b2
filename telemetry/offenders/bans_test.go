package offenders_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
	"github.com/weir-go/ratelimit/telemetry/offenders"
)

// A ban denies with 403, or with 429 where it is told. Both count, and say until when it lasts; the strikes
// that have led to it do not.
func TestWhoeverIsBannedIsAnOffenderUntilThen(t *testing.T) {
	for _, told := range []bool{false, true} {
		bubbletest.Run(t, func(t *testing.T) {
			tracker := offenders.New(offenders.Options{})
			key := func(*http.Request) (string, error) { return "user:ada", nil }
			limiter := core.New(core.NewMemory(core.WithClock(time.Now)))
			defer limiter.Close()
			guessing := core.Ban{Strikes: core.SlidingLog(2, time.Hour), First: time.Minute}.Named("guessing")
			limit := ratelimit.New(limiter, ratelimit.Options{Observe: tracker.Observe},
				ratelimit.Policy{Limit: core.FixedWindow(3, time.Second).Named("api"), By: key},
				ratelimit.Policy{Ban: ratelimit.BanPolicy{
					Ban: guessing, Tell: told, Strike: func(_ *http.Request, s ratelimit.Served) int { return s.Status / 401 },
				}, By: key})
			handler := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
			ask := func() int {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				return w.Code
			}
			for range 2 {
				ask()
			}
			if top := tracker.Top(1); len(top) != 0 {
				t.Fatalf("two strikes make %+v", top)
			}
			status := map[bool]int{false: http.StatusForbidden, true: http.StatusTooManyRequests}[told]
			if got := ask(); got != status {
				t.Fatalf("the third is answered with %d, want %d", got, status)
			}
			left, err := limiter.Banned(t.Context(), "user:ada", guessing)
			if err != nil || left <= 0 {
				t.Fatal(left, err)
			}
			top := tracker.Top(1)
			if len(top) != 1 || top[0].Key != "user:ada" || top[0].Denials != 1 || top[0].Policy != "guessing" || !top[0].BannedUntil.Equal(time.Now().Add(left)) {
				t.Errorf("a request during a ban of %v makes %+v", left, top)
			}
			if text := tracker.String(); !strings.Contains(text, top[0].BannedUntil.UTC().Format(time.RFC3339)) {
				t.Errorf("printed without the end of the ban: %s", text)
			}
			time.Sleep(left)
			for range 2 { // one more strike: the limit denies the last one
				ask()
			}
			tracker.Observe(denial("user:ada"))
			if top := tracker.Top(1); !top[0].BannedUntil.IsZero() || top[0].Policy != "p" {
				t.Errorf("after a limit's denial: %+v", top)
			}
		})
	}
}
