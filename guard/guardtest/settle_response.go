package guardtest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
)

var settleResponseCases = []testCase{
	{"a handler that takes the connection over is settled when it returns", testSettledHijack},
	{"a handler that streams is settled by all that it wrote", testSettledStream},
	{"a request whose client has gone away is settled", testSettledGone},
	{"a request whose client has gone before the answer says so", testSettledWithoutClient},
	{"a request that went through unasked settles nothing", testNotSettled},
	{"Flush, ReadFrom and ResponseController work where a policy settles", testWatchedAbilities},
}

func testSettledHijack(t *testing.T, s *suite) {
	s.need(t, Hijacking)
	f := s.fixture(t)
	settled := make(chan guard.Served, 1)
	server := httptest.NewServer(f.settling(hundred(), 10, func(_ *http.Request, served guard.Served) int {
		settled <- served
		return 3
	}, func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer connection.Close()
		_, _ = io.WriteString(connection, "HTTP/1.1 299 Hijacked\r\nConnection: close\r\n\r\n")
	}))
	response, err := server.Client().Get(server.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if served := <-settled; !served.Hijacked || served.Status != http.StatusSwitchingProtocols || response.StatusCode != 299 {
		t.Errorf("settled by %+v, and the client was told %d", served, response.StatusCode)
	}
	server.Close() // waits for the handler
}

func testSettledStream(t *testing.T, s *suite) {
	s.need(t, Streaming)
	f := s.fixture(t)
	seen := make(chan struct{})
	server := httptest.NewServer(f.settling(hundred(), 1, func(_ *http.Request, served guard.Served) int { return int(served.Bytes) },
		func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "first\n")
			w.(http.Flusher).Flush()
			<-seen
			_, _ = io.WriteString(w, "second\n")
		}))
	response, err := server.Client().Get(server.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	reader := bufio.NewReader(response.Body)
	if line, err := reader.ReadString('\n'); err != nil || line != "first\n" {
		t.Errorf("read %q and %v while the handler streams", line, err)
	}
	f.expectUsed(hundred(), 1) // not settled yet
	close(seen)
	_, _ = io.Copy(io.Discard, reader)
	server.Close()
	f.expectUsed(hundred(), len("first\nsecond\n"))
}

func testSettledGone(t *testing.T, s *suite) {
	f := s.fixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	h := f.settling(hundred(), 10, func(r *http.Request, served guard.Served) int {
		if !errors.Is(r.Context().Err(), context.Canceled) {
			t.Errorf("the request's context tells %v", r.Context().Err())
		}
		return int(served.Bytes)
	}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		cancel()
	})
	answer(h, ask(http.MethodGet, "/").WithContext(ctx))
	f.expectUsed(hundred(), 4)
}

func testSettledWithoutClient(t *testing.T, s *suite) {
	s.need(t, Streaming) // else the begin of the answer is not known
	for _, c := range []struct {
		name            string
		hangUp, answers int // when the client hangs up, and the status of the handler's answer, or 0
		deadline        bool
		status          int
		gone            bool
	}{
		{name: "no answer", hangUp: 1, status: 499, gone: true},
		{name: "a proxy's answer", hangUp: 1, answers: http.StatusBadGateway, status: http.StatusBadGateway, gone: true},
		{name: "an answer that has begun", hangUp: 2, answers: http.StatusAccepted, status: http.StatusAccepted},
		{name: "no answer to a client that stays", status: http.StatusOK},
		{name: "a deadline of the server's", deadline: true, answers: http.StatusGatewayTimeout, status: http.StatusGatewayTimeout},
	} {
		f := s.fixture(t)
		ctx, cancel := context.WithCancel(t.Context())
		late := &lateContext{Context: ctx}
		var settled guard.Served
		h := f.settling(hundred(), 10, func(_ *http.Request, served guard.Served) int {
			settled = served
			return served.Cost
		}, func(w http.ResponseWriter, _ *http.Request) {
			if late.late = c.deadline; c.hangUp == 1 {
				cancel()
			}
			if c.answers != 0 {
				w.WriteHeader(c.answers)
				_, _ = io.WriteString(w, "so far")
			}
			if c.hangUp == 2 {
				cancel()
			}
		})
		answer(h, ask(http.MethodGet, "/").WithContext(late))
		cancel()
		if settled.Status != c.status || settled.ClientGone != c.gone {
			t.Errorf("%s: settled by %+v, want status %d, and that the client has gone: %t", c.name, settled, c.status, c.gone)
		}
	}
}

// lateContext is past its deadline when it is late.
type lateContext struct {
	context.Context //nolint:containedctx // it is one

	late bool
}

func (c *lateContext) Err() error {
	if c.late {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}

func testNotSettled(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.settling(core.FixedWindow(1, time.Hour), 1, func(*http.Request, guard.Served) int {
		t.Error("settled a request that was not charged")
		return 0
	}, f.handle)
	f.store.failure = errDown
	get(h)
	f.expectRan(1)

	f = s.fixture(t)
	calls := 0
	h = f.settling(core.FixedWindow(1, time.Hour), 1, func(*http.Request, guard.Served) int {
		calls++
		return 1
	}, f.handle)
	get(h)
	get(h)
	if calls != 1 {
		t.Errorf("settled %d requests, want the one that was let through", calls)
	}
}

func testWatchedAbilities(t *testing.T, s *suite) {
	s.need(t, Streaming)
	f := s.fixture(t)
	server := httptest.NewServer(f.settling(hundred(), 1, func(_ *http.Request, served guard.Served) int { return int(served.Bytes) },
		func(w http.ResponseWriter, _ *http.Request) {
			control := http.NewResponseController(w)
			for name, err := range map[string]error{
				"SetReadDeadline":  control.SetReadDeadline(time.Now().Add(time.Hour)),
				"SetWriteDeadline": control.SetWriteDeadline(time.Now().Add(time.Hour)),
				"EnableFullDuplex": control.EnableFullDuplex(),
				"Flush":            control.Flush(),
			} {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if n, err := io.Copy(w, strings.NewReader("copied")); n != 6 || err != nil {
				t.Errorf("copied %d bytes: %v", n, err)
			}
		}))
	response, err := server.Client().Get(server.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(response.Body)
	response.Body.Close()
	server.Close()
	if string(body) != "copied" {
		t.Errorf("the client read %q", body)
	}
	f.expectUsed(hundred(), 6)
}
