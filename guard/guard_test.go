package guard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

func memory() *core.Limiter { return core.New(core.NewMemory()) }

func ok(http.ResponseWriter, *http.Request) {}

func get(h http.Handler, url string) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil))
	return w.Result()
}

func TestManyPoliciesKeepTheirOrder(t *testing.T) {
	var policies []guard.Policy
	var want, shadows []string
	for i := range 30 {
		name := fmt.Sprintf("p%d", i)
		policies = append(policies, guard.Policy{Limit: core.FixedWindow(9, time.Hour).Named(name), Shadow: i%3 == 0})
		if i%3 == 0 {
			shadows = append(shadows, name)
		} else {
			want = append(want, name)
		}
	}
	want = append(want, shadows...)
	var got []string
	options := guard.Options{Observe: func(e guard.Event) {
		for _, o := range e.Outcomes {
			got = append(got, o.Policy)
		}
	}}
	get(ratelimit.New(memory(), options, policies...)(http.HandlerFunc(ok)), "/")
	if !slices.Equal(got, want) {
		t.Errorf("observed %q, want %q", got, want)
	}
}

// Programs that read policies from a file want to go on with those that they have.
func TestNewReturnsWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		limiter *core.Limiter
		policy  guard.Policy
		want    string
	}{
		{nil, guard.Policy{Limit: core.Leaky(1, core.PerSecond(1))}, "ratelimit: the limiter is nil"},
		{memory(), guard.Policy{}, "ratelimit: policy 0 has no limit: set Limit or LimitFor"},
	} {
		if g, err := guard.New(c.limiter, guard.Options{}, c.policy); g != nil || err == nil || err.Error() != c.want {
			t.Errorf("New returns %v and %v, want the error %q", g, err, c.want)
		}
	}
}

func TestAVerdictHasAllThatAdaptersNeed(t *testing.T) {
	g := guard.Must(guard.New(memory(), guard.Options{}, guard.Policy{Limit: core.FixedWindow(1, time.Hour).Named("one")}))
	r := httptest.NewRequest(http.MethodGet, "/", nil)

	header := make(http.Header)
	verdict := g.Decide(r, nil)
	verdict.WriteHeader(header)
	if verdict.Denial != nil || header.Get("RateLimit") == "" || len(guard.OutcomesFrom(verdict.Request.Context())) != 1 {
		t.Fatalf("denial %+v, header %v: want an admission with headers and a decision", verdict.Denial, header)
	}

	verdict = g.Decide(r, nil)
	verdict.WriteHeader(header)
	denial := verdict.Denial
	if denial == nil || denial.Status != http.StatusTooManyRequests || header.Get("Retry-After") != "3600" {
		t.Fatalf("denial %+v, header %v: want 429 for an hour", denial, header)
	}
	if p := denial.Problem(); p.Status != 429 || !slices.Equal(p.ViolatedPolicies, []string{"one"}) {
		t.Errorf("problem %+v, want 429 by one", p)
	}
	if !denial.Native(r) {
		t.Error("a framework may not render the problem, want that it may")
	}
	r.Header.Set("Accept", "text/plain")
	if denial.Native(r) {
		t.Error("a framework may render a problem for who prefers text, want that it may not")
	}
}

// The hook may do so behind a writer that leaves all that to http.ResponseController, too.
func TestDeniedMayStreamHijackAndSendEarlyHints(t *testing.T) {
	hooks := map[string]struct {
		answer http.HandlerFunc
		status int
		body   string
	}{
		"Flush": {func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
		}, 200, ""},
		"ResponseController": {func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		}, 200, ""},
		"deadline": {func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusForbidden)
		}, 403, ""},
		"early hints alone": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
		}, 429, ""},
		"body alone": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "no")
		}, 200, "no"},
		"Hijack": {func(w http.ResponseWriter, _ *http.Request) {
			connection, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer connection.Close()
			_, _ = io.WriteString(connection, "HTTP/1.1 420 Enhance Your Calm\r\nConnection: close\r\n\r\n")
		}, 420, ""},
	}
	for name, c := range hooks {
		t.Run(name, func(t *testing.T) {
			options := guard.Options{Denied: func(w http.ResponseWriter, r *http.Request, _ *guard.Denial) { c.answer(w, r) }}
			limiter := ratelimit.New(memory(), options, guard.Policy{Limit: core.Leaky(1, core.PerHour(1)), Cost: func(*http.Request) int { return 2 }})
			var log strings.Builder // the server complains about a second answer
			h := limiter(http.HandlerFunc(ok))
			var serving sync.WaitGroup // for a server does not wait for who has taken a connection
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				serving.Add(1)
				defer serving.Done()
				h.ServeHTTP(onlyUnwraps{w}, r)
			}))
			server.Config.ErrorLog = stdlog.New(&log, "", 0)
			server.Start()
			defer func() {
				serving.Wait()
				server.Close()
				if log.Len() > 0 {
					t.Errorf("the server says %q", log.String())
				}
			}()
			response, err := server.Client().Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != c.status || string(body) != c.body {
				t.Errorf("%d %q %v, want %d %q", response.StatusCode, body, err, c.status, c.body)
			}
		})
	}
}

func TestAContextThatIsPrintedTellsNoKey(t *testing.T) {
	var printed string
	h := ratelimit.Leaky(memory(), 10, core.PerSecond(1))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		printed = fmt.Sprintf("%v %+v %s", r.Context(), ctx, ctx)
	}))
	get(h, "/")
	if printed == "" || strings.Contains(printed, "192.0.2.1") {
		t.Errorf("the context is printed as %q, want something without the address", printed)
	}
}

// A context that is made of the request's ends when the request's does.
func TestTheContextOfALimitedRequestIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	errGone := errors.New("gone")
	h := ratelimit.Leaky(memory(), 10, core.PerSecond(1))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		child, stop := context.WithTimeout(r.Context(), time.Hour)
		defer stop()
		cancel(errGone)
		if <-child.Done(); !errors.Is(context.Cause(child), errGone) {
			t.Errorf("the cause is %v, want the request's", context.Cause(child))
		}
	}))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
}

// What passes is charged, however short the time is that a request has.
func TestNoErrorModeLetsARequestPassWhoseTimeIsUp(t *testing.T) {
	for _, mode := range []guard.ErrorMode{guard.FailOpen, guard.FailClosed, guard.Fallback} {
		limiter, two, ran := memory(), core.FixedWindow(2, time.Hour), 0
		limit := ratelimit.New(limiter, guard.Options{OnError: mode}, guard.Policy{Limit: two, By: keyfuncs.Global})
		h := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran++ }))
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), 1)
			w := httptest.NewRecorder()
			before := ran
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
			cancel()
			if passed := ran > before; !passed && w.Code != http.StatusServiceUnavailable && w.Code != http.StatusTooManyRequests {
				t.Errorf("%v: a request that did not pass is answered %d", mode, w.Code)
			}
		}
		key, err := keyfuncs.Global(nil)
		if err != nil {
			t.Fatal(err)
		}
		left, err := limiter.Peek(t.Context(), key, two)
		if err != nil || ran != 2-left.Remaining {
			t.Errorf("%v: %d of 50 ran, and %d are charged: %v", mode, ran, 2-left.Remaining, err)
		}
	}
}

func TestPoliciesCannotBeChangedFromOutside(t *testing.T) {
	policies := []guard.Policy{{Limit: core.FixedWindow(1, time.Hour)}}
	h := ratelimit.New(memory(), guard.Options{}, policies...)(http.HandlerFunc(ok))
	policies[0].Limit = core.FixedWindow(100, time.Hour)
	get(h, "/")
	if got := get(h, "/").StatusCode; got != http.StatusTooManyRequests {
		t.Errorf("status %d, want 429 by the limit as it was", got)
	}
	if policies[0].By != nil {
		t.Error("the caller's policies were changed")
	}
}

func TestErrorModesHaveNames(t *testing.T) {
	for mode, want := range map[guard.ErrorMode]string{guard.FailOpen: "FailOpen", guard.FailClosed: "FailClosed", guard.Fallback: "Fallback", 0: "unsaid", 7: "ErrorMode(7)"} {
		if got := mode.String(); got != want {
			t.Errorf("mode %d is %q, want %q", int(mode), got, want)
		}
	}
}
