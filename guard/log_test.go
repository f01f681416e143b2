package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/keyfuncs"
)

// failing is a store that does not answer.
type failing struct{ core.Store }

func (failing) Decide(context.Context, []core.Call) (int, error) { return 0, errDown }

// unsettled is a store that answers, and settles nothing.
type unsettled struct{ core.Store }

func (unsettled) Settle(context.Context, []core.Settlement) error { return errDown }

var errDown = errors.New("the store is down")

// lines reads what a JSON handler has written.
func lines(t *testing.T, log *bytes.Buffer) (read []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		delete(fields, "time")
		read = append(read, fields)
	}
	log.Reset()
	return read
}

func expectLines(t *testing.T, log *bytes.Buffer, want ...map[string]any) {
	t.Helper()
	got := lines(t, log)
	if len(got) != len(want) {
		t.Fatalf("logged %v, want %d lines", got, len(want))
	}
	for i := range want {
		if !maps.EqualFunc(got[i], want[i], func(a, b any) bool {
			x, _ := json.Marshal(a)
			y, _ := json.Marshal(b)
			return bytes.Equal(x, y)
		}) {
			t.Errorf("line %d is\n%v, want\n%v", i, got[i], want[i])
		}
	}
}

// logger writes JSON from a level on.
func logger(level slog.Level) (*slog.Logger, *bytes.Buffer) {
	var log bytes.Buffer
	return slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: level})), &log
}

func TestAnOutageIsLoggedAtFirstAndThenOnceInAWhile(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l, log := logger(slog.LevelInfo)
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		observed := 0 // whoever observes has the log all the same
		g := Must(New(core.New(failing{}), Options{Logger: l, Observe: func(Event) { observed++ }},
			Policy{Limit: core.FixedWindow(1, time.Minute)}))
		ask := func() {
			if denial := g.Decide(request, nil).Denial; denial != nil {
				t.Errorf("denied with %d, want to fail open", denial.Status)
			}
		}
		outage := map[string]any{
			"level": "WARN", "msg": "ratelimit: a call could not be answered",
			"failure": "other", "error": "the store is down", "unlogged": 0, "status": 0, "let_through": true,
		}
		for range 3 {
			ask()
		}
		expectLines(t, log, outage)
		time.Sleep(quiet - 1) // in a bubble, where time is what it is said to be
		ask()
		expectLines(t, log)
		time.Sleep(time.Nanosecond)
		ask()
		ask()
		outage["unlogged"] = 3
		expectLines(t, log, outage)
		if observed != 6 {
			t.Errorf("%d events were observed, want 6", observed)
		}
	})
}

func TestAnOutageIsLoggedByTheDefaultLogger(t *testing.T) {
	l, log := logger(slog.LevelInfo)
	before := slog.Default()
	g := Must(New(core.New(failing{}), Options{}, Policy{Limit: core.FixedWindow(1, time.Minute)}))
	slog.SetDefault(l)
	defer slog.SetDefault(before)
	g.Decide(httptest.NewRequest(http.MethodGet, "/", nil), nil)
	if got := lines(t, log); len(got) != 1 {
		t.Errorf("logged %v, want one line", got)
	}
}

func TestAFailedSettlementIsLogged(t *testing.T) {
	l, log := logger(slog.LevelInfo)
	g := Must(New(core.New(unsettled{core.NewMemory()}), Options{Logger: l}, Policy{
		Limit:  core.FixedWindow(9, time.Minute),
		Settle: SettlePolicy{Cost: func(*http.Request, Served) int { return 0 }, First: true},
	}))
	w := httptest.NewRecorder()
	g.Decide(httptest.NewRequest(http.MethodGet, "/", nil), nil).Serve(w, func(http.ResponseWriter, *http.Request) int { return 0 })
	expectLines(t, log, map[string]any{
		"level": "WARN", "msg": "ratelimit: the cost of a request could not be settled",
		"failure": "other", "error": "the store is down", "unlogged": 0,
	})
}

func TestDenialsAreLoggedForWhoDebugs(t *testing.T) {
	request := httptest.NewRequest(http.MethodGet, "/secret?token=s3cret", nil)
	request.RemoteAddr = "203.0.113.9:1234"
	for level, want := range map[slog.Level]int{slog.LevelDebug: 1, slog.LevelInfo: 0} {
		l, log := logger(level)
		g := Must(New(core.New(core.NewMemory()), Options{Logger: l},
			Policy{Limit: core.FixedWindow(1, time.Hour).Named("hourly")},
			Policy{Limit: core.FixedWindow(9, time.Minute), By: keyfuncs.Header("Authorization")}))
		for range 2 {
			g.Decide(request, nil)
		}
		for _, told := range []string{"203.0.113.9", "s3cret", "secret"} {
			if strings.Contains(log.String(), told) {
				t.Errorf("the log tells of %q: %s", told, log)
			}
		}
		got := lines(t, log)
		if len(got) != want {
			t.Fatalf("at level %v %d lines, want %d: %v", level, len(got), want, got)
		}
		for _, line := range got {
			wait, _ := line["retry_after"].(float64)
			if line["level"] != "DEBUG" || line["msg"] != "ratelimit: a request is denied" || line["degraded"] != false ||
				len(line["policies"].([]any)) != 1 || line["policies"].([]any)[0] != "hourly" || wait <= 0 || wait > float64(time.Hour) {
				t.Errorf("logged %v", line)
			}
		}
	}
}

// What is no failure of the store is not taken for one.
func TestWhatTheLogIsNotTold(t *testing.T) {
	l, log := logger(slog.LevelInfo)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	shaping := core.Shaping(5, core.Per(1, time.Hour))
	g := Must(New(core.New(core.NewMemory()), Options{Logger: l}, Policy{Limit: shaping}))
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	var statuses []int
	for _, ctx := range []context.Context{t.Context(), gone, late} {
		denial := g.Decide(request.WithContext(ctx), nil).Denial
		if denial != nil {
			statuses = append(statuses, denial.Status)
		}
	}
	if len(statuses) != 2 || statuses[0] != statusClientClosedRequest || statuses[1] != http.StatusServiceUnavailable {
		t.Errorf("denied with %v, want a client that is gone and a deadline that comes first", statuses)
	}
	if log.Len() != 0 {
		t.Errorf("logged %s", log)
	}
}

// Where nobody debugs, a denial costs no allocation for the log's sake.
func TestALogThatIsOffAllocatesNothing(t *testing.T) {
	l, _ := logger(slog.LevelInfo)
	log := &eventLog{logger: l}
	event := Event{
		Request: httptest.NewRequest(http.MethodGet, "/", nil), Status: http.StatusTooManyRequests,
		Outcomes: []Outcome{{Policy: "p", Decision: core.Decision{RetryAfter: time.Second}}},
	}
	if n := testing.AllocsPerRun(100, func() { log.event(&event) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
