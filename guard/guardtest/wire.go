package guardtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/guard"
)

var wireCases = []testCase{
	{"HTTP/2: served and denied as over HTTP/1", testHTTP2},
	{"server-sent events reach the client one by one", testEvents},
	{"a WebSocket is upgraded, and one too many is denied before", testUpgrade},
	{"http.ResponseController does what it does without a limiter", testController},
	{"an informational response is not the answer", testInformational},
	{"a handler that sets one of the fields itself wins", testHandlerWins},
}

// open starts a server of a site with a limit, over HTTP/2 if so asked.
func (f *fixture) open(http2 bool, handler http.HandlerFunc) *httptest.Server {
	server := httptest.NewUnstartedServer(f.serve(site{
		around:  []middleware{f.limited(guard.Policy{Limit: ten()})},
		inside:  []middleware{f.limited(guard.Policy{Limit: one()})},
		handler: handler,
	}))
	server.EnableHTTP2 = http2
	if http2 {
		server.StartTLS()
	} else {
		server.Start()
	}
	f.t.Cleanup(server.Close)
	return server
}

func testHTTP2(t *testing.T, s *suite) {
	f := s.fixture(t)
	server := f.open(true, f.handle)
	for i, want := range []string{`
200
Content-Length: 7
Content-Type: text/plain; charset=utf-8
Ratelimit: "leaky:10:1/s";r=9;t=9, "one";r=0;t=60
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10, "one";q=1;w=60

served
`, fmt.Sprintf(`
429
Cache-Control: no-store
Content-Length: %d
Content-Type: application/problem+json
Ratelimit: "leaky:10:1/s";r=8;t=8, "one";r=0;t=60
Ratelimit-Policy: "leaky:10:1/s";q=1;w=1;weir-burst=10, "one";q=1;w=60
Retry-After: 60

%s`, len(quotaExceeded)+9, quotaExceeded+`["one"]}
`)} {
		response, err := server.Client().Get(server.URL + "/items/7")
		if err != nil {
			t.Fatal(err)
		}
		if response.ProtoMajor != 2 {
			t.Errorf("HTTP/%d, want 2", response.ProtoMajor)
		}
		response.Header.Del("Date")
		expect(t, fmt.Sprintf("request %d", i+1), text(response), want)
		response.Body.Close()
	}
}

func testEvents(t *testing.T, s *suite) {
	s.need(t, Streaming)
	for _, http2 := range []bool{false, true} {
		f := s.fixture(t)
		read := make(chan struct{})
		server := f.open(http2, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
				select {
				case <-read: // so nothing is sent before the client has the events before
				case <-r.Context().Done():
					return
				}
			}
		})
		response, err := server.Client().Get(server.URL + "/items/7")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if got := response.Header.Get("Ratelimit"); !strings.Contains(got, `"one";r=0`) {
			t.Errorf("RateLimit is %q, want both limits", got)
		}
		lines := bufio.NewReader(response.Body)
		for i := range 3 {
			line, err := lines.ReadString('\n')
			if want := fmt.Sprintf("data: %d\n", i); line != want || err != nil {
				t.Fatalf("read %q, %v, want %q", line, err, want)
			}
			_, _ = lines.ReadString('\n')
			read <- struct{}{}
		}
	}
}

// upgrade asks a server to speak another protocol and returns the connection, its
// reader and the answer.
func upgrade(t *testing.T, server *httptest.Server) (net.Conn, *bufio.Reader, *http.Response) {
	t.Helper()
	connection, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	if err := connection.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(connection, "GET /items/7 HTTP/1.1\r\nHost: example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	reader := bufio.NewReader(connection)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	return connection, reader, response
}

// shout upgrades a connection and echoes its input in capitals.
func shout(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		header := w.Header().Clone()
		connection, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer connection.Close()
		_, _ = io.WriteString(connection, "HTTP/1.1 101 Switching Protocols\r\n")
		_ = header.Write(connection)
		_, _ = io.WriteString(connection, "\r\n")
		line, _ := buffered.ReadString('\n')
		_, _ = io.WriteString(connection, strings.ToUpper(line))
	}
}

func testUpgrade(t *testing.T, s *suite) {
	s.need(t, Hijacking)
	f := s.fixture(t)
	server := f.open(false, shout(t))
	connection, reader, response := upgrade(t, server)
	if response.StatusCode != http.StatusSwitchingProtocols || !strings.Contains(response.Header.Get("Ratelimit"), `"one";r=0`) {
		t.Fatalf("answered %d with %v, want 101 with limit headers", response.StatusCode, response.Header)
	}
	_, _ = io.WriteString(connection, "hello\n")
	if line, err := reader.ReadString('\n'); line != "HELLO\n" || err != nil {
		t.Errorf("read %q, %v, want HELLO", line, err)
	}
	if _, _, response = upgrade(t, server); response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") != "60" {
		t.Errorf("answered %d with %v, want 429", response.StatusCode, response.Header)
	}
}

func testController(t *testing.T, s *suite) {
	s.need(t, Streaming)
	try := func(limiters ...middleware) map[string]string {
		said := make(map[string]string)
		server := httptest.NewServer(s.serve(site{around: limiters, inside: limiters, handler: func(w http.ResponseWriter, _ *http.Request) {
			c := http.NewResponseController(w)
			for name, err := range map[string]error{
				"SetReadDeadline":  c.SetReadDeadline(time.Now().Add(time.Minute)),
				"SetWriteDeadline": c.SetWriteDeadline(time.Now().Add(time.Minute)),
				"EnableFullDuplex": c.EnableFullDuplex(),
				"Flush":            c.Flush(),
			} {
				said[name] = fmt.Sprint(err)
			}
		}}))
		defer server.Close()
		response, err := server.Client().Get(server.URL + "/items/7")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return said
	}
	f := s.fixture(t)
	want, got := try(), try(f.limited(guard.Policy{Limit: ten()}))
	f.expectAsked(1)
	for name, err := range want {
		if got[name] != err {
			t.Errorf("%s says %s, without a limiter %s", name, got[name], err)
		}
	}
	if len(want) != 4 || want["Flush"] != "<nil>" {
		t.Errorf("without a limiter: %v, want four answers and that Flush works", want)
	}
}

// innermost returns the writer that net/http made: the frameworks' own do not tell
// an informational status from the final one.
func innermost(w http.ResponseWriter) http.ResponseWriter {
	for {
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = inner.Unwrap()
	}
}

func testInformational(t *testing.T, s *suite) {
	s.need(t, Streaming)
	for _, http2 := range []bool{false, true} {
		f := s.fixture(t)
		server := f.open(http2, func(w http.ResponseWriter, r *http.Request) {
			hints := innermost(w)
			hints.Header().Set("Link", "</site.css>; rel=preload")
			hints.WriteHeader(http.StatusEarlyHints)
			hints.Header().Del("Link")
			f.handle(w, r)
		})
		for _, want := range []struct{ status, hints int }{{http.StatusOK, 1}, {http.StatusTooManyRequests, 0}} {
			hints := 0
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
				if code == http.StatusEarlyHints && header.Get("Link") != "" {
					hints++
				}
				return nil
			}})
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/items/7", nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != want.status || hints != want.hints || !strings.Contains(response.Header.Get("Ratelimit"), `"one";r=0`) {
				t.Errorf("answered %d after %d hints with %v, want %d after %d with limit headers", response.StatusCode, hints, response.Header, want.status, want.hints)
			}
		}
	}
}

func testHandlerWins(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.serve(site{
		around: []middleware{f.limited(guard.Policy{Limit: ten()})},
		handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("RateLimit", `"own";r=1`)
			w.Header().Del("RateLimit-Policy")
			f.handle(w, r)
		},
	})
	expect(t, "the handler's own", get(h), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "own";r=1

served
`)
}
