package guardtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
)

var hookCases = []testCase{
	{"Denied answers in place of the problem", testHook},
	{"Denied that writes nothing answers with the bare status", testHookSilent},
	{"Denied is told what every denial is about", testHookFacts},
	{"Denied is told that no wait can help", testHookNever},
	{"Denied can give the usual answer", testHookUsual},
	{"Denied answers calls of gRPC, too", testHookGRPC},
	{"Denied is not called for a client that went away", testHookGone},
	{"Denied may take the connection over", testHookHijack},
}

// hook is Options.Denied.
type hook = func(http.ResponseWriter, *http.Request, *guard.Denial)

func silent(http.ResponseWriter, *http.Request, *guard.Denial) {}

// hooked are the options of a fixture with a hook, that fail closed.
func (f *fixture) hooked(h hook) guard.Options {
	options := f.options()
	options.Denied, options.OnError = h, guard.FailClosed
	return options
}

func testHook(t *testing.T, s *suite) {
	f := s.fixture(t)
	options := f.hooked(func(w http.ResponseWriter, r *http.Request, denial *guard.Denial) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Retry-After", "99")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintf(w, "<p>%s %q</p>", guard.OutcomesFrom(r.Context())[0].Policy, denial.ViolatedPolicies)
	})
	h := f.around(f.new(f.limiter, options, guard.Policy{Limit: one()}))
	expectStatus(t, "the first", h, ask(http.MethodGet, "/"), http.StatusOK)
	for _, accept := range []string{"*/*", "text/plain"} {
		expect(t, "the second", get(h, "Accept: "+accept), `
503
Cache-Control: no-store
Content-Type: text/html
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60
Retry-After: 99

<p>one ["one"]</p>`)
	}
	f.expectRan(1)
}

func testHookSilent(t *testing.T, s *suite) {
	for name, h := range map[string]hook{
		"nothing": silent,
		"a header": func(w http.ResponseWriter, _ *http.Request, _ *guard.Denial) {
			w.Header().Set("X-Reason", "greed")
		},
	} {
		f := s.fixture(t)
		h := f.around(f.new(f.limiter, f.hooked(h), guard.Policy{Limit: one()}))
		get(h)
		reason := ""
		if name == "a header" {
			reason = "X-Reason: greed\n"
		}
		want := `
429
Cache-Control: no-store
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60
Retry-After: 60
` + reason + "\n"
		expect(t, name, get(h), want)
		expect(t, name+", not found", send(h, ask(http.MethodGet, "/nowhere")), want)
		expect(t, name+", HEAD", send(h, ask(http.MethodHead, "/items/7")), want)
		f.expectRan(1)
	}
}

// errUnreadable is an error of a key function.
var errUnreadable = errors.New("unreadable")

// denials has a site deny a request in each way, and calls check with the hook's denial
// and the client's answer.
func (s *suite) denials(t *testing.T, h hook, check func(want int, told *guard.Denial, answered *http.Response)) {
	t.Helper()
	for want, policy := range map[int]guard.Policy{
		http.StatusTooManyRequests:    {Limit: one()},
		http.StatusServiceUnavailable: {Limit: one()},
		http.StatusInternalServerError: {Limit: one(), By: func(r *http.Request) (string, error) {
			if r.Header.Get("X-Unreadable") != "" {
				return "", errUnreadable
			}
			return "key", nil
		}},
	} {
		f := s.fixture(t)
		var told *guard.Denial
		site := f.around(f.new(f.limiter, f.hooked(func(w http.ResponseWriter, r *http.Request, denial *guard.Denial) {
			told = denial
			h(w, r, denial)
		}), policy))
		expectStatus(t, "the first", site, ask(http.MethodGet, "/"), http.StatusOK)
		if told != nil {
			t.Fatalf("told of a denial of an admitted request: %+v", told)
		}
		if want == http.StatusServiceUnavailable {
			f.store.failure = errDown
		}
		r := ask(http.MethodGet, "/")
		if want == http.StatusInternalServerError {
			r.Header.Set("X-Unreadable", "yes")
		}
		answered := answer(site, r)
		if told == nil {
			t.Errorf("%d: the hook was not called", want)
			continue
		}
		check(want, told, answered)
		f.expectRan(1)
	}
}

func testHookFacts(t *testing.T, s *suite) {
	s.denials(t, silent, func(want int, told *guard.Denial, answered *http.Response) {
		if told.Status != want || answered.StatusCode != want || told.Problem().Status != want {
			t.Errorf("told %+v with problem %+v, answered %d, want %d", told, told.Problem(), answered.StatusCode, want)
		}
		if body, err := io.ReadAll(answered.Body); len(body) != 0 || err != nil {
			t.Errorf("%d: body %q, %v, want none", want, body, err)
		}
		var violated []string
		least, most := time.Duration(0), time.Duration(0)
		switch want {
		case http.StatusTooManyRequests:
			violated, least, most = []string{"one"}, time.Minute, time.Minute
		case http.StatusServiceUnavailable:
			least, most = time.Second, 3*time.Second
		}
		if !slices.Equal(told.ViolatedPolicies, violated) || !slices.Equal(told.Problem().ViolatedPolicies, violated) {
			t.Errorf("%d: told %+v with problem %+v, want the violated policies %q", want, told, told.Problem(), violated)
		}
		field := ""
		if most > 0 {
			field = fmt.Sprint(told.RetryAfter.Seconds())
		}
		if told.RetryAfter < least || told.RetryAfter > most || answered.Header.Get("Retry-After") != field {
			t.Errorf("%d: told %v and the client %q, want the same from %v to %v", want, told.RetryAfter, answered.Header.Get("Retry-After"), least, most)
		}
	})
}

// Of several violated policies the longest wait is told, as exactly as it is known; and
// if no wait helps with one, that.
func testHookNever(t *testing.T, s *suite) {
	slow := guard.Policy{Limit: core.Leaky(1, core.Per(1, 1500*time.Millisecond)).Named("slow")}
	fast := guard.Policy{Limit: core.Leaky(1, core.PerSecond(1)).Named("fast")}
	much := guard.Policy{Limit: one(), Cost: func(*http.Request) int { return 2 }}
	for _, c := range []struct {
		policies []guard.Policy
		want     time.Duration
		violated []string
	}{
		{[]guard.Policy{slow, fast}, 1500 * time.Millisecond, []string{"slow", "fast"}},
		{[]guard.Policy{slow, much}, core.Never, []string{"one"}},
	} {
		f := s.fixture(t)
		var told *guard.Denial
		h := f.around(f.new(f.limiter, f.hooked(func(_ http.ResponseWriter, _ *http.Request, denial *guard.Denial) { told = denial }), c.policies...))
		get(h)
		if get(h); told == nil || told.RetryAfter != c.want || !slices.Equal(told.ViolatedPolicies, c.violated) {
			t.Errorf("told %+v, want %v because of %q", told, c.want, c.violated)
		}
	}
}

func testHookUsual(t *testing.T, s *suite) {
	for _, lines := range [][]string{nil, {"Accept: text/plain"}} {
		f, plain := s.fixture(t), s.fixture(t)
		hooked := f.around(f.new(f.limiter, f.hooked(func(w http.ResponseWriter, r *http.Request, denial *guard.Denial) {
			if native := len(lines) == 0; denial.Native(r) != native {
				t.Errorf("%q: Native is %t, want %t", lines, !native, native)
			}
			w.Header().Set("X-Reason", "greed")
			denial.ServeHTTP(w, r)
		}), guard.Policy{Limit: one()}))
		usual := plain.around(plain.limited(guard.Policy{Limit: one()}))
		get(hooked)
		get(usual)
		if s.alwaysDocument && len(lines) > 0 {
			expect(t, "the answer in words", strings.Split(get(hooked, lines...), "\n")[2], "Content-Type: text/plain; charset=utf-8")
			continue
		}
		want := strings.Replace(get(usual, lines...), "Retry-After: 60\n", "Retry-After: 60\nX-Reason: greed\n", 1)
		expect(t, "the usual answer", get(hooked, lines...), want)
	}
}

func testHookGRPC(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.around(f.new(f.limiter, f.hooked(func(w http.ResponseWriter, r *http.Request, denial *guard.Denial) {
		if denial.Native(r) {
			t.Error("Native is true, want it to be false")
		}
		w.WriteHeader(http.StatusTeapot)
	}), guard.Policy{Limit: one()}))
	get(h)
	expectStatus(t, "denied", h, call("application/grpc"), http.StatusTeapot)
}

func testHookGone(t *testing.T, s *suite) {
	f := s.fixture(t)
	f.store.failure = context.Canceled
	options := f.hooked(func(http.ResponseWriter, *http.Request, *guard.Denial) { t.Error("the hook was called") })
	h := f.around(f.new(f.limiter, options, guard.Policy{Limit: one()}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := answer(h, ask(http.MethodGet, "/").WithContext(ctx)).StatusCode; got != 499 {
		t.Errorf("answered %d, want 499", got)
	}
}

// A handler that takes the connection over has answered. net/http would complain of a status
// that is written after that.
func testHookHijack(t *testing.T, s *suite) {
	s.need(t, Hijacking)
	for name, hijack := range map[string]func(http.ResponseWriter) (net.Conn, error){
		"by itself": func(w http.ResponseWriter) (net.Conn, error) {
			connection, _, err := w.(http.Hijacker).Hijack()
			return connection, err
		},
		"by http.ResponseController": func(w http.ResponseWriter) (net.Conn, error) {
			connection, _, err := http.NewResponseController(w).Hijack()
			return connection, err
		},
		"by http.ResponseController of a writer around it": func(w http.ResponseWriter) (net.Conn, error) {
			connection, _, err := http.NewResponseController(unwrapper{w}).Hijack()
			return connection, err
		},
	} {
		f := s.fixture(t)
		var complaints strings.Builder
		var serving sync.WaitGroup // for a server does not wait for who has taken a connection
		site := f.around(f.new(f.limiter, f.hooked(func(w http.ResponseWriter, _ *http.Request, _ *guard.Denial) {
			connection, err := hijack(w)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			defer connection.Close()
			_, _ = io.WriteString(connection, "HTTP/1.1 420 Enhance Your Calm\r\nConnection: close\r\n\r\n")
		}), guard.Policy{Limit: one()}))
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			serving.Add(1)
			defer serving.Done()
			site.ServeHTTP(w, r)
		}))
		server.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(&complaints, nil), slog.LevelError)
		server.Start()
		read(t, server)
		response, err := server.Client().Get(server.URL + "/items/7")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		response.Body.Close()
		serving.Wait()
		server.Close()
		if response.StatusCode != 420 || complaints.Len() != 0 {
			t.Errorf("%s: answered %d, and the server says %q", name, response.StatusCode, complaints.String())
		}
	}
}

// unwrapper leaves everything but itself to http.ResponseController.
type unwrapper struct{ http.ResponseWriter }

func (w unwrapper) Unwrap() http.ResponseWriter { return w.ResponseWriter }
