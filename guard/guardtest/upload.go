package guardtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var uploadCases = []testCase{
	{"a denied upload is not waited for", testDeniedUpload},
	{"a denied upload is not waited for either when somebody outside has looked for a form in it", testParsedUpload},
	{"whoever reads no more of an upload than they want has it end, also behind a writer that watches", testLimitedUpload},
}

// begin sends the beginning of a request over a connection of its own, and returns the answer, which has to come before the rest.
func begin(t *testing.T, server *httptest.Server, head string) *http.Response {
	t.Helper()
	connection, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	_ = connection.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(connection, head)
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		t.Fatalf("no answer before the body: %v", err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

func testDeniedUpload(t *testing.T, s *suite) {
	s.need(t, StreamedBodies)
	deny := guard.Policy{Limit: ten(), Cost: func(*http.Request) int { return 11 }}
	for name, options := range map[string]guard.Options{
		"usual": {},
		"hooked": {Denied: func(w http.ResponseWriter, _ *http.Request, _ *guard.Denial) {
			w.WriteHeader(http.StatusTooManyRequests)
		}},
	} {
		f := s.fixture(t)
		server := listen(t, f.around(f.new(f.limiter, options, deny)))
		for _, head := range []string{
			"Content-Length: 200000\r\n\r\nabc", "Content-Length: 10\r\n\r\n", "Content-Length: 10\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
			"Content-Length: 10000000\r\n\r\nabc",
		} {
			response := begin(t, server, "POST /items/7 HTTP/1.1\r\nHost: a\r\n"+head)
			if response.StatusCode != http.StatusTooManyRequests || !response.Close {
				t.Errorf("%s, %q: answered with %d, %v", name, head, response.StatusCode, response.Header)
			}
		}
		response := begin(t, server, "GET /items/7 HTTP/1.1\r\nHost: a\r\n\r\n")
		if response.StatusCode != http.StatusTooManyRequests || response.Close {
			t.Errorf("%s, no body: answered with %d, %v", name, response.StatusCode, response.Header)
		}
		read := f.new(f.limiter, options, guard.Policy{Limit: ten(), By: keyfuncs.User(func(r *http.Request) string { return r.PostFormValue("user") }), Cost: deny.Cost})
		response = begin(t, listen(t, f.around(read)), "POST /items/7 HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 6\r\n\r\nuser=a")
		if response.StatusCode != http.StatusTooManyRequests || response.Close {
			t.Errorf("%s, read by a key function: answered with %d, %v", name, response.StatusCode, response.Header)
		}
	}
}

func testParsedUpload(t *testing.T, s *suite) {
	s.need(t, StreamedBodies)
	deny := guard.Policy{Limit: ten(), Cost: func(*http.Request) int { return 11 }}
	for name, looks := range map[string]func(*http.Request){
		"ParseForm": func(r *http.Request) { _ = r.ParseForm() },
		"FormValue": func(r *http.Request) { r.FormValue("_method") },
	} {
		for _, contentType := range []string{"application/octet-stream", "application/json"} {
			for where, policies := range map[string][]guard.Policy{"outside": {deny}, "in the limiter": {{
				Limit: ten(), Cost: func(r *http.Request) int { looks(r); return 11 },
			}}} {
				f := s.fixture(t)
				h := f.around(f.limited(policies...))
				if where == "outside" {
					inner := h
					h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { looks(r); inner.ServeHTTP(w, r) })
				}
				response := begin(t, listen(t, h), "POST /items/7 HTTP/1.1\r\nHost: a\r\nContent-Type: "+contentType+"\r\nContent-Length: 200000\r\n\r\nabc")
				if response.StatusCode != http.StatusTooManyRequests || !response.Close {
					t.Errorf("%s %s, %s: answered with %d, %v", name, where, contentType, response.StatusCode, response.Header)
				}
			}
		}
	}
}

func testLimitedUpload(t *testing.T, s *suite) {
	s.need(t, StreamedBodies)
	limited := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, 1000)
			if _, err := io.ReadAll(r.Body); err != nil {
				if _, tooLarge := errors.AsType[*http.MaxBytesError](err); !tooLarge {
					t.Error(err)
				}
				w.WriteHeader(status)
			}
		}
	}
	full := func() int { return 5 }
	for name, watching := range map[string]func(*fixture) middleware{
		"Settle":   func(f *fixture) middleware { return f.limited(spentOf(hundred(), 1)) },
		"a place":  func(f *fixture) middleware { return f.limited(deskPolicy(5)) },
		"Adaptive": func(f *fixture) middleware { return f.adaptive(full) },
	} {
		for _, status := range []int{http.StatusRequestEntityTooLarge, http.StatusBadRequest} {
			f := s.fixture(t)
			server := listen(t, f.serve(site{around: []middleware{watching(f), f.limited(spentOf(hundred(), 1))}, handler: limited(status)}))
			for _, head := range []string{"Content-Length: 200000\r\n\r\n" + strings.Repeat("a", 1500), fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n5dc\r\n%s\r\n", strings.Repeat("a", 1500))} {
				response := begin(t, server, "GET / HTTP/1.1\r\nHost: a\r\n"+head)
				if response.StatusCode != status || !response.Close {
					t.Errorf("%s: answered with %d, %v", name, response.StatusCode, response.Header)
				}
			}
			// Of a body that is nearly read, net/http reads the rest.
			for size, closes := range map[int]bool{1500: false, 1001 + 64<<10: false, 1002 + 64<<10: true} {
				response := begin(t, server, fmt.Sprintf("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("a", size)))
				if response.StatusCode != status || response.Close != closes {
					t.Errorf("%s, a body of %d: answered with %d, %v", name, size, response.StatusCode, response.Header)
				}
			}
			response := begin(t, server, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"+strings.Repeat("a", 1000))
			if response.StatusCode != http.StatusOK || response.Close {
				t.Errorf("%s, a body that fits: answered with %d, %v", name, response.StatusCode, response.Header)
			}
		}
	}
}
