package faults_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// Ten thousand requests at once that find a frozen server are all answered as the
// error mode says, within the budget, and leave no goroutine behind.
func TestTenThousandRequestsAtAFrozenServer(t *testing.T) { //nolint:paralleltest // it counts goroutines
	const requests = 10_000
	for _, test := range []struct {
		mode  guard.ErrorMode
		heeds bool
	}{
		{guard.FailOpen, true},
		{guard.FailOpen, false},
		{guard.FailClosed, true},
		{guard.Fallback, false},
	} {
		mode, heeds := test.mode, test.heeds
		t.Run(fmt.Sprintf("%v, client heeds deadlines %t", mode, heeds), func(t *testing.T) {
			leaks := goleak.IgnoreCurrent()
			s := newSite(t)
			client := redis.NewClient(&redis.Options{
				Addr: s.server.Addr(), MaxRetries: -1, ContextTimeoutEnabled: heeds,
				DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience,
			})
			limiter := core.New(core.NewRedis(client, core.WithLogger(discard)))
			const share = 100
			var failed, degraded atomic.Int64
			h := ratelimit.New(limiter, guard.Options{OnError: mode, Observe: func(e guard.Event) {
				if e.Err != nil {
					failed.Add(1)
				}
				for _, o := range e.Outcomes {
					if o.Decision.Degraded {
						degraded.Add(1)
					}
				}
			}}, guard.Policy{Limit: core.FixedWindow(share, time.Hour), By: keyfuncs.Global})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			if err := limiter.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.server.Pause(t)

			var mu sync.Mutex
			statuses := make(map[int]int)
			withHeaders := 0
			var slowest time.Duration
			everybody(requests, func(int) {
				w := httptest.NewRecorder()
				began := time.Now()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				took := time.Since(began)
				mu.Lock()
				defer mu.Unlock()
				statuses[w.Code]++
				slowest = max(slowest, took)
				if w.Header().Get("RateLimit") != "" {
					withHeaders++
				}
			})
			t.Logf("%v, the slowest took %v", statuses, slowest)
			if slowest > patience/3 { // which is no time for so many on a busy machine
				t.Errorf("a request took %v, with a budget of %v", slowest, budget)
			}
			want := map[guard.ErrorMode]map[int]int{
				guard.FailOpen:   {http.StatusOK: requests},
				guard.FailClosed: {http.StatusServiceUnavailable: requests},
				guard.Fallback:   {http.StatusOK: share, http.StatusTooManyRequests: requests - share},
			}[mode]
			if fmt.Sprint(statuses) != fmt.Sprint(want) {
				t.Errorf("answered %v, want %v", statuses, want)
			}
			if n := failed.Load(); n != requests {
				t.Errorf("observed %d failures, want %d", n, requests)
			}
			if n := degraded.Load(); mode == guard.Fallback && n != requests || mode != guard.Fallback && n != 0 {
				t.Errorf("observed %d degraded decisions", n)
			}
			if withHeaders > 0 {
				t.Errorf("%d answers tell of a quota that nobody knows", withHeaders)
			}

			s.server.Resume(t)
			await(t, "all is normal", func() error { return limiter.Ping(t.Context()) })
			_ = limiter.Close()
			_ = client.Close()
			s.server.Stop(t)
			_ = s.admin.Close()
			s.proxy.Close()
			goleak.VerifyNone(t, leaks)
		})
	}
}

// What a handler does to its response is its own affair: a panic, a connection taken
// over, a body never read, and a client that has gone charge once, and harm nobody.
func TestHandlersThatMisbehave(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	limiter := s.heeding(t, patient)
	limit := core.FixedWindow(3, 365*24*time.Hour)
	for name, handler := range map[string]http.HandlerFunc{
		"panics":        func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"panics loudly": func(http.ResponseWriter, *http.Request) { panic("at the disco") },
		"hijacks": func(w http.ResponseWriter, _ *http.Request) {
			connection, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = connection.Close()
		},
		"never reads":    func(http.ResponseWriter, *http.Request) {},
		"reads for ever": func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) },
		"writes what the client does not read": func(w http.ResponseWriter, r *http.Request) {
			for page := make([]byte, 64<<10); r.Context().Err() == nil; {
				if _, err := w.Write(page); err != nil {
					return
				}
			}
		},
		"asks for more after it has answered": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "done\n")
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusTeapot)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ran := make(chan struct{}, 100)
			by := func(*http.Request) (string, error) { return name, nil }
			h := ratelimit.New(limiter, guard.Options{}, guard.Policy{Limit: limit, By: by})(
				http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					ran <- struct{}{}
					handler(w, r)
				}))
			server := httptest.NewUnstartedServer(h)
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.Start()
			defer server.Close()
			for range 3 {
				ask(t, server.Listener.Addr().String(), ran)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			if w.Code != http.StatusTooManyRequests {
				t.Errorf("after three requests with a limit of 3: %d", w.Code)
			}
		})
	}
	d, err := limiter.Peek(t.Context(), "panics", limit)
	if err != nil || d.Remaining != 0 {
		t.Errorf("%+v, %v, want all charged", d, err)
	}
}

// ask sends a request with a body that never ends, and goes away when the handler has
// run.
func ask(t *testing.T, addr string, ran <-chan struct{}) {
	t.Helper()
	connection, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	_, _ = io.WriteString(connection, "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 1000000\r\n\r\nand so on")
	select {
	case <-ran:
	case <-time.After(patience):
		t.Fatal("the handler does not run")
	}
}

// A client that lies in every header is answered all the same, and charged to its peer.
func FuzzLyingClient(f *testing.F) {
	f.Add("X-Forwarded-For", "1.2.3.4, 5.6.7.8", "GET", "/")
	f.Add("Forwarded", `for="[::1%25eth0]";proto=`, "OPTIONS", "/../%2F?x=\x00")
	f.Add("Accept", "text/plain;q=1.0001, */*;q=-1", "HEAD", "*")
	f.Add("RateLimit", `"a";r=999999999999999999`, "CONNECT", "/a b")
	f.Add("Content-Type", "application/grpc+\xff", "P\xc3\xb6ST", "/x")
	f.Add("Cookie", strings.Repeat("a=b; ", 1000), "GET", "/")
	f.Add("Origin", "null", "OPTIONS", "/")
	f.Fuzz(func(t *testing.T, name, value, method, target string) {
		var key string
		limiter := core.New(core.NewMemory())
		observe := guard.Options{Observe: func(e guard.Event) {
			if e.Err != nil {
				t.Errorf("failed: %v", e.Err)
			}
			key = e.Outcomes[0].Key
		}}
		policies := []guard.Policy{
			{Limit: core.Leaky(1, core.PerHour(1)), By: keyfuncs.RemoteIP},
			{Limit: core.GCRA(100, core.PerHour(1)), By: keyfuncs.Join(keyfuncs.Header("X-Api-Key"), keyfuncs.Cookie("a"), keyfuncs.Route, keyfuncs.Method, keyfuncs.Host)},
		}
		h := ratelimit.New(limiter, observe, policies...)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
			r := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(context.Background())
			r.Method, r.URL.Path, r.RequestURI, r.RemoteAddr = method, target, target, "203.0.113.9:4711"
			r.Header[http.CanonicalHeaderKey(name)] = []string{value, value}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			code, _ := w.Code, w.Body
			grpc := strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
			if code != want && !grpc {
				t.Errorf("%s %q with %s: %q was answered with %d, want %d", method, target, name, value, code, want)
			}
			if key != "ip:203.0.113.9" {
				t.Errorf("charged to %q, want its peer", key)
			}
			wire(t, w.Result())
		}
	})
}

// wire wants an answer to be one that a client can read.
func wire(t *testing.T, response *http.Response) {
	t.Helper()
	var text strings.Builder
	if err := response.Write(&text); err != nil {
		t.Fatal(err)
	}
	read, err := http.ReadResponse(bufio.NewReader(strings.NewReader(text.String())), nil)
	if err != nil {
		t.Fatalf("%v in %q", err, text.String())
	}
	_ = read.Body.Close()
}
