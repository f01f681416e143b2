package guard_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// onlyUnwraps is a writer that leaves everything but itself to
// http.ResponseController.
type onlyUnwraps struct{ http.ResponseWriter }

func (w onlyUnwraps) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// settling is a limiter with a policy that settles.
func settling(settle func(*http.Request, guard.Served) int) ratelimit.Middleware {
	return ratelimit.New(core.New(core.NewMemory()), guard.Options{}, guard.Policy{
		Limit:  core.FixedWindow(5, time.Hour),
		Settle: guard.SettlePolicy{Cost: settle},
	})
}

// watched returns the writer that a handler is given where a policy settles.
func watched(below http.ResponseWriter) (given http.ResponseWriter) {
	limit := settling(func(*http.Request, guard.Served) int { return 1 })
	limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { given = w })).
		ServeHTTP(below, httptest.NewRequest(http.MethodGet, "/", nil))
	return given
}

// A connection that is taken over is noticed, wherever in the chain of writers the one
// is that hands it over.
func TestHijackIsNoticedThroughWriters(t *testing.T) {
	for name, wrap := range map[string]func(http.ResponseWriter) http.ResponseWriter{
		"none":                func(w http.ResponseWriter) http.ResponseWriter { return w },
		"one that unwraps":    func(w http.ResponseWriter) http.ResponseWriter { return onlyUnwraps{w} },
		"another one of ours": func(w http.ResponseWriter) http.ResponseWriter { return watched(onlyUnwraps{w}) },
	} {
		t.Run(name, func(t *testing.T) {
			settled := make(chan guard.Served, 1)
			limit := ratelimit.New(core.New(core.NewMemory()), guard.Options{}, guard.Policy{
				Limit:  core.FixedWindow(5, time.Hour),
				Settle: guard.SettlePolicy{Cost: func(_ *http.Request, served guard.Served) int { settled <- served; return 1 }},
			})
			handler := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				connection, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer connection.Close()
				_, _ = io.WriteString(connection, "HTTP/1.1 299 Hijacked\r\nConnection: close\r\n\r\n")
			}))
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(wrap(w), r) }))
			defer server.Close()
			response, err := server.Client().Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if served := <-settled; !served.Hijacked || served.Status != http.StatusSwitchingProtocols {
				t.Errorf("settled by %+v", served)
			}
		})
	}
}

// A writer that cannot hand its connection over does not pretend to.
func TestWatchedWriterHijacksOnlyIfItCan(t *testing.T) {
	if _, ok := watched(onlyUnwraps{httptest.NewRecorder()}).(http.Hijacker); ok {
		t.Error("says that it can Hijack")
	}
}

// Frameworks ask for this one without asking whether it is there.
func TestWatchedWriterNotifiesWhenTheClientGoesAway(t *testing.T) {
	told := make(chan bool, 1)
	limit := ratelimit.New(core.New(core.NewMemory()), guard.Options{}, guard.Policy{
		Limit:  core.FixedWindow(5, time.Hour),
		Settle: guard.SettlePolicy{Cost: func(*http.Request, guard.Served) int { return 1 }},
	})
	ctx, leave := context.WithCancel(t.Context())
	handler := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		gone := w.(http.CloseNotifier).CloseNotify() //nolint:staticcheck // as they do
		leave()
		select {
		case away := <-gone:
			told <- away
		case <-time.After(10 * time.Second):
			told <- false
		}
	}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(onlyUnwraps{w}, r)
	}))
	defer server.Close()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := server.Client().Do(request); err == nil {
		response.Body.Close()
	}
	if !<-told {
		t.Error("is not told")
	}
}

func TestWatchedWriterNotifiesNobodyWhereNoneCan(t *testing.T) {
	notifier := watched(httptest.NewRecorder()).(http.CloseNotifier) //nolint:staticcheck // as they do
	select {
	case <-notifier.CloseNotify():
		t.Error("is told")
	default:
	}
}

// broken is a body that cannot be read.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// A reverse proxy that cannot read a single byte answers 502 instead.
func TestCopyingNothingDoesNotBeginTheResponse(t *testing.T) {
	errRead := errors.New("upstream is gone")
	settled := make(chan guard.Served, 1)
	limit := settling(func(_ *http.Request, served guard.Served) int { settled <- served; return 1 })
	server := httptest.NewServer(limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n, err := w.(io.ReaderFrom).ReadFrom(broken{errRead})
		if n != 0 || !errors.Is(err, errRead) {
			t.Errorf("copied %d bytes: %v", n, err)
		}
		w.WriteHeader(http.StatusBadGateway)
	})))
	defer server.Close()
	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if served := <-settled; served.Status != http.StatusBadGateway || response.StatusCode != http.StatusBadGateway {
		t.Errorf("the client got %d, and settled is %+v, want 502 twice", response.StatusCode, served)
	}
}

// net/http begins the response with a write, even of nothing.
func TestWritingNothingBeginsTheResponse(t *testing.T) {
	settled := make(chan guard.Served, 1)
	limit := settling(func(_ *http.Request, served guard.Served) int { settled <- served; return 1 })
	server := httptest.NewUnstartedServer(limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(nil)
		w.WriteHeader(http.StatusBadGateway) // which is too late
	})))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	defer server.Close()
	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if served := <-settled; served.Status != response.StatusCode || response.StatusCode != http.StatusOK {
		t.Errorf("the client got %d, and settled is %+v, want 200 twice", response.StatusCode, served)
	}
}
