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
		time.Sleep(1)
		l.observe(failed)
		l.observe(failed)
		expectLines(2)
	})
}
