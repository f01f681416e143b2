package guard_test

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/headers"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// upstream answers every request with fields, which are lines of a header.
type upstream []string

func (u upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: u.header(), Body: http.NoBody, Request: r}, nil
}

func (u upstream) header() http.Header {
	h := make(http.Header)
	for _, line := range u {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

// Of two limiters in front of a proxy, each field is sent once, in the dialect of
// whoever has written it last.
func TestNestedLimitersAndUpstreamAreOneSet(t *testing.T) {
	const (
		limits   = `Ratelimit: "outer";r=999;t=999, "inner";r=99;t=99`
		quotas   = `Ratelimit-Policy: "outer";q=1;w=1;weir-burst=1000, "inner";q=1;w=1;weir-burst=100`
		ofDraft6 = `Ratelimit-Policy: 1;w=1;weir-burst=100`
	)
	var (
		draft        = []string{limits, quotas}
		legacy       = upstream{"X-Ratelimit-Limit: 7", "X-Ratelimit-Remaining: 3", "X-Ratelimit-Reset: 2"}
		looserLegacy = upstream{"X-Ratelimit-Limit: 7000", "X-Ratelimit-Remaining: 3000", "X-Ratelimit-Reset: 2"}
		draft6       = upstream{"Ratelimit-Limit: 7", "Ratelimit-Remaining: 3", "Ratelimit-Reset: 2", "Ratelimit-Policy: 7;w=2"}
	)
	for name, c := range map[string]struct {
		outer, inner headers.Writer
		upstream     upstream
		want         []string
	}{
		"two dialects around one of them": {headers.Join(headers.Draft, headers.Legacy), headers.Draft, legacy, append(draft, legacy...)},
		"and upstream is looser": {
			headers.Join(headers.Draft, headers.Legacy), headers.Draft, looserLegacy,
			append(draft, "X-Ratelimit-Limit: 1000", "X-Ratelimit-Remaining: 999", "X-Ratelimit-Reset: 1"),
		},
		"one dialect around two":   {headers.Draft, headers.Join(headers.Draft, headers.Legacy), legacy, append(draft, legacy...)},
		"a dialect around another": {headers.Legacy, headers.Draft, legacy, append(draft, legacy...)},
		"a dialect around one that has a field of it": {
			headers.Draft6, headers.Draft, draft6,
			append(draft, draft6[:3]...),
		},
		"a dialect around one that has another notation of a field": {
			headers.Draft, headers.Draft6,
			upstream{`RateLimit: "day";r=4;t=60`, `RateLimit-Policy: "day";q=5;w=60`},
			[]string{
				`Ratelimit: "outer";r=999;t=999, "day";r=4;t=60`, ofDraft6,
				"Ratelimit-Limit: 100", "Ratelimit-Remaining: 99", "Ratelimit-Reset: 1",
			},
		},
		"a dialect around a smaller one": {
			headers.GitHub, headers.Legacy, append(looserLegacy, "X-Ratelimit-Used: 4", "X-Ratelimit-Resource: core"),
			[]string{"X-Ratelimit-Limit: 100", "X-Ratelimit-Remaining: 99", "X-Ratelimit-Reset: 1"},
		},
		"a dialect around none": {headers.Legacy, headers.None, legacy, legacy},
		"a dialect around a larger one": {
			headers.Legacy, headers.GitHub, append(legacy, "X-Ratelimit-Used: 4", "X-Ratelimit-Resource: core"),
			append(legacy, "X-Ratelimit-Used: 4", "X-Ratelimit-Resource: core"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := guard.MergeUpstream(to(c.upstream))
			for where, arrange := range map[string]func(outer, inner ratelimit.Middleware) http.Handler{
				"nothing between them":        func(outer, inner ratelimit.Middleware) http.Handler { return outer(inner(proxy)) },
				"a header of the proxy's own": func(outer, inner ratelimit.Middleware) http.Handler { return outer(inner(patient(proxy))) },
				"a header of the inner's own": func(outer, inner ratelimit.Middleware) http.Handler { return outer(patient(inner(proxy))) },
				"a header of each one's own":  func(outer, inner ratelimit.Middleware) http.Handler { return outer(patient(inner(patient(proxy)))) },
			} {
				limiter := memory()
				h := arrange(
					ratelimit.New(limiter, guard.Options{Headers: c.outer}, guard.Policy{Limit: core.Leaky(1000, core.PerSecond(1)).Named("outer")}),
					ratelimit.New(limiter, guard.Options{Headers: c.inner}, guard.Policy{Limit: core.Leaky(100, core.PerSecond(1)).Named("inner")}),
				)
				got, want := get(h, "/").Header, upstream(c.want).header()
				maps.DeleteFunc(got, func(_ string, values []string) bool { return len(values) == 0 }) // which are not sent
				if !maps.EqualFunc(got, want, slices.Equal) {
					t.Errorf("%s: fields\n got %q\nwant %q", where, got, want)
				}
			}
		})
	}
}

// to is a reverse proxy.
func to(transport http.RoundTripper) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "upstream"}) },
		Transport: transport,
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
}

// patient gives a handler more time than it takes, and with it a header of its own, which
// is copied over that of the response.
func patient(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Hour, "") }

// transport is an http.RoundTripper.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

const (
	oursAlone  = `"one";r=0;t=60`
	oursAndDay = `"one";r=0;t=60, "day";r=4;t=60`
)

// proxied is a reverse proxy to upstream behind a limit.
func proxied(upstream http.RoundTripper) http.Handler {
	return behindOne(guard.MergeUpstream(to(upstream)))
}

func behindOne(h http.Handler) http.Handler {
	now := time.Now()
	limiter := core.New(core.NewMemory(core.WithClock(func() time.Time { return now })))
	return ratelimit.New(limiter, guard.Options{}, guard.Policy{Limit: core.FixedWindow(1, time.Minute).Named("one")})(h)
}

var day = upstream{`RateLimit: "day";r=4;t=60`}

// The time of a proxy is up, and it goes on with a header of its own: it touches none that
// the client is told. The race detector proves it; most rounds find what there is to find.
func TestAProxyWhoseTimeIsUpDoesNotRace(t *testing.T) {
	var serving sync.WaitGroup
	late := transport(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return day.RoundTrip(r)
	})
	for range 40 {
		proxy := guard.MergeUpstream(to(late))
		serving.Add(1)
		h := behindOne(http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer serving.Done()
			proxy.ServeHTTP(w, r)
		}), time.Millisecond, "too late"))
		server := httptest.NewServer(h)
		response, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		// Rarely the proxy is done before the end of its time is noticed.
		want := map[int]string{http.StatusServiceUnavailable: oursAlone, http.StatusOK: oursAndDay}[response.StatusCode]
		if got := response.Header["Ratelimit"]; !slices.Equal(got, []string{want}) {
			t.Errorf("answered %d with RateLimit %q, want 503 with ours, or 200 with both", response.StatusCode, got)
		}
		server.Close()
	}
	serving.Wait()
}

// Whatever begins the response, the header that goes out is one set.
func TestFieldsAreMergedWhenTheResponseBegins(t *testing.T) {
	for name, begin := range map[string]http.HandlerFunc{
		"a status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) },
		"a write":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "text") },
		"a copy": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, struct{ io.Reader }{strings.NewReader("text")})
		},
		"Flush":                   func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() },
		"http.ResponseController": func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() },
		"the end":                 func(http.ResponseWriter, *http.Request) {},
		"a status after early hints": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusOK)
		},
		"the end after a status": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			w.Header().Set("RateLimit", "late")
		},
		"a connection that was taken": upgradeByHand,
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(behindOne(guard.MergeUpstream(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got := w.Header()["Ratelimit"]; got != nil {
					t.Errorf("the proxy is given RateLimit %q, want none", got)
				}
				w.Header().Add("RateLimit", `"day";r=4;t=60`)
				begin(w, r)
			}))))
			defer server.Close()
			response, err := server.Client().Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if got := response.Header["Ratelimit"]; !slices.Equal(got, []string{oursAndDay}) {
				t.Errorf("RateLimit %q, want %q", got, oursAndDay)
			}
		})
	}
}

// upgradeByHand takes a connection over and sends the header that there is then.
func upgradeByHand(w http.ResponseWriter, _ *http.Request) {
	connection, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	defer connection.Close()
	_, _ = io.WriteString(connection, "HTTP/1.1 200 OK\r\nConnection: close\r\n")
	_ = w.Header().Write(connection)
	_, _ = io.WriteString(connection, "\r\n")
}

// What upstream could not be asked, or has not finished, is told with our limits all the
// same.
func TestAProxyThatFailsTellsOurLimits(t *testing.T) {
	errGone := errors.New("gone")
	recovering := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if recover() != nil {
					w.WriteHeader(http.StatusInternalServerError)
				}
			}()
			h.ServeHTTP(w, r)
		})
	}
	for name, c := range map[string]struct {
		h    http.Handler
		want int
	}{
		"an error": {proxied(transport(func(*http.Request) (*http.Response, error) { return nil, errGone })), http.StatusBadGateway},
		"a panic":  {recovering(proxied(transport(func(*http.Request) (*http.Response, error) { panic(errGone) }))), http.StatusInternalServerError},
		"a status 101": {proxied(transport(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusSwitchingProtocols, Header: day.header(), Body: http.NoBody, Request: r}, nil
		})), http.StatusBadGateway},
	} {
		response := get(c.h, "/")
		if got := response.Header["Ratelimit"]; response.StatusCode != c.want || !slices.Equal(got, []string{oursAlone}) {
			t.Errorf("%s: answered %d with RateLimit %q, want %d with ours", name, response.StatusCode, got, c.want)
		}
	}
}

// What a proxy is given can do what the writer below can, and nothing else.
func TestAProxyCanDoWhatTheWriterCan(t *testing.T) {
	type abilities struct{ hijack, push, flush, readFrom bool }
	for name, c := range map[string]struct {
		below http.ResponseWriter
		want  abilities
	}{
		"a recorder":                  {httptest.NewRecorder(), abilities{flush: true, readFrom: true}},
		"one that hijacks":            {hijacks{httptest.NewRecorder()}, abilities{hijack: true, flush: true, readFrom: true}},
		"one around one that hijacks": {onlyUnwraps{hijacks{httptest.NewRecorder()}}, abilities{hijack: true, flush: true, readFrom: true}},
		"one that pushes":             {pushes{httptest.NewRecorder()}, abilities{push: true, flush: true, readFrom: true}},
	} {
		var got abilities
		behindOne(guard.MergeUpstream(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, got.hijack = w.(http.Hijacker)
			_, got.push = w.(http.Pusher)
			_, got.readFrom = w.(io.ReaderFrom)
			got.flush = http.NewResponseController(w).Flush() == nil
		}))).ServeHTTP(c.below, httptest.NewRequest(http.MethodGet, "/", nil))
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

type hijacks struct{ *httptest.ResponseRecorder }

func (hijacks) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, http.ErrNotSupported }

type pushes struct{ *httptest.ResponseRecorder }

func (pushes) Push(string, *http.PushOptions) error { return nil }

// copies is a writer that copies by itself.
type copies struct {
	*httptest.ResponseRecorder

	copied *bool
}

func (c copies) ReadFrom(from io.Reader) (int64, error) {
	*c.copied = true
	return io.Copy(c.ResponseRecorder, from)
}

func TestAProxyCopiesAsTheWriterDoes(t *testing.T) {
	copied := false
	w := copies{httptest.NewRecorder(), &copied}
	behindOne(guard.MergeUpstream(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.Copy(w, struct{ io.Reader }{strings.NewReader("text")})
	}))).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if got := w.Header()["Ratelimit"]; !copied || w.Body.String() != "text" || !slices.Equal(got, []string{oursAlone}) {
		t.Errorf("copied %t, %q, with RateLimit %q, want the text with ours", copied, w.Body, got)
	}
}

func TestMergeUpstreamWantsAProxy(t *testing.T) {
	defer func() {
		if got := recover(); got != "ratelimit: MergeUpstream: the proxy is nil" {
			t.Errorf("panic %v, want the reason", got)
		}
	}()
	guard.MergeUpstream(nil)
}
