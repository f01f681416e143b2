package ratelimit

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/core"
)

func TestAnOutageIsLoggedAtFirstAndThenOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		defer slog.SetDefault(before)

		request := httptest.NewRequest(http.MethodGet, "/", nil)
		failed := Event{Request: request, Err: errors.New("the store is down")}
		expectLines := func(want int) {
			t.Helper()
			if got := strings.Count(log.String(), "the store is down"); got != want {
				t.Errorf("%d lines, want %d:\n%s", got, want, log.String())
			}
		}

		limiter := core.New(core.NewMemory())
		if err := limiter.Close(); err != nil { // so that no question is answered
			t.Fatal(err)
		}
		limit := core.FixedWindow(1, time.Minute)
		if _, refusal := NewGuard(limiter, Options{}, Policy{Limit: limit}).Check(make(http.Header), request, nil); refusal != nil {
			t.Errorf("refused with %d, want to fail open", refusal.Status)
		}
		if got := strings.Count(log.String(), "the store is closed"); got != 1 {
			t.Errorf("%d lines by default, want 1:\n%s", got, log.String())
		}

		var l outageLog
		l.observe(Event{Request: request})
		l.observe(Event{Request: request, Status: statusClientClosedRequest, Err: failed.Err})
		expectLines(0)
		for range 3 {
			l.observe(failed)
		}
		expectLines(1)
		time.Sleep(quiet - 1) // in a bubble, where time is what it is said to be
		l.observe(failed)
		expectLines(1)
		time.Sleep(time.Nanosecond)
		l.observe(failed)
		l.observe(failed)
		expectLines(2)
	})
}
