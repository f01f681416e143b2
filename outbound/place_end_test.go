package outbound_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/outbound"
)

// answers is somebody else's API that answers with what a function makes.
type answers func(*http.Request) (*http.Response, error)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

var errReset = errors.New("connection reset")

// breaking is a body that breaks after some bytes.
type breaking struct{ io.Reader }

func (b breaking) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = errReset
	}
	return n, err
}

func (breaking) Close() error { return nil }

// connection is the body of a response that speaks another protocol.
type connection struct {
	io.Reader
	io.Writer
}

func (connection) Close() error { return nil }

// single is a limit of one place, with a long lease.
var single = core.Concurrent(1, 10*time.Minute)

// expectFree wants so many free places of single for a host.
func expectFree(t *testing.T, limiter *core.Limiter, want int) {
	t.Helper()
	synctest.Wait()
	if d, err := limiter.Peek(t.Context(), "host:partner.example", single); err != nil || d.Remaining != want {
		t.Errorf("%d places are free, %v, want %d", d.Remaining, err, want)
	}
}

// start makes a call, and leaves its body as it is.
func start(ctx context.Context, t *testing.T, transport *outbound.Transport) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://partner.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	return transport.RoundTrip(r)
}

// However a body ends, its call gives the place back, also if nobody closes it.
func TestEveryEndOfABodyGivesThePlaceBack(t *testing.T) {
	for name, c := range map[string]struct {
		body io.ReadCloser
		end  func(*http.Response, context.CancelFunc)
		free int
	}{
		"closed":             {io.NopCloser(strings.NewReader("answer")), func(r *http.Response, _ context.CancelFunc) { r.Body.Close() }, 1},
		"read to its end":    {io.NopCloser(strings.NewReader("answer")), readAll, 1},
		"read to an error":   {breaking{strings.NewReader("answer")}, readAll, 1},
		"its context ends":   {io.NopCloser(strings.NewReader("answer")), func(_ *http.Response, cancel context.CancelFunc) { cancel() }, 1},
		"none":               {http.NoBody, func(*http.Response, context.CancelFunc) {}, 1},
		"not even that":      {nil, func(*http.Response, context.CancelFunc) {}, 1},
		"open":               {io.NopCloser(strings.NewReader("answer")), func(*http.Response, context.CancelFunc) {}, 0},
		"another protocol":   {connection{strings.NewReader("answer"), io.Discard}, func(_ *http.Response, cancel context.CancelFunc) { cancel() }, 0},
		"another one's end":  {connection{strings.NewReader("answer"), io.Discard}, readAll, 1},
		"another one's fall": {connection{breaking{strings.NewReader("answer")}, io.Discard}, readAll, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				limiter := core.New(core.NewMemory())
				defer limiter.Close()
				transport := outbound.New(limiter, single, outbound.Options{Base: answers(func(r *http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: c.body, Request: r}, nil
				})})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				response, err := start(ctx, t, transport)
				if err != nil {
					t.Fatal(err)
				}
				if c.body != nil && c.body != http.NoBody {
					expectFree(t, limiter, 0)
				}
				c.end(response, cancel)
				expectFree(t, limiter, c.free)
				if c.free == 0 {
					response.Body.Close()
					expectFree(t, limiter, 1)
				}
			})
		})
	}
}

func readAll(r *http.Response, _ context.CancelFunc) { _, _ = io.Copy(io.Discard, r.Body) }

// A base that returns a response with an error has failed: net/http drops the response.
func TestAResponseWithAnErrorHoldsNoPlace(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		limiter := core.New(core.NewMemory())
		defer limiter.Close()
		transport := outbound.New(limiter, single, outbound.Options{Base: answers(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("answer")), Request: r}, errReset
		})})
		if _, err := start(t.Context(), t, transport); !errors.Is(err, errReset) {
			t.Error(err)
		}
		expectFree(t, limiter, 1)
	})
}

// A real server that breaks off in the middle of its answer, read by a caller who looks at the error alone.
func TestABrokenConnectionGivesThePlaceBack(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	limiter := core.New(core.NewMemory())
	defer limiter.Close()
	client := &http.Client{Transport: outbound.New(limiter, single, outbound.Options{LongestWait: 10 * time.Second})}
	defer client.CloseIdleConnections()
	for range 3 {
		response, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err == nil { // and the body is not closed
			t.Fatal("the body did not break")
		}
	}
}
