package call

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"
)

func TestAWarningIsLoggedAtFirstAndThenOnceInAWhile(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		var w Warning
		expect := func(want string) {
			t.Helper()
			if got := log.String(); strings.Count(got, "\n") != strings.Count(want, "unlogged") || !strings.Contains(got, want) {
				t.Errorf("logged %q, want %q", got, want)
			}
			log.Reset()
		}
		for range 3 {
			w.Log(logger, "something is wrong", slog.String("limit", "api"))
		}
		expect(`level=WARN msg="something is wrong" limit=api unlogged=0`)
		time.Sleep(quiet - 1)
		w.Log(logger, "something is wrong")
		expect("")
		time.Sleep(time.Nanosecond)
		w.Log(logger, "something is wrong")
		expect("unlogged=3")
	})
}
