package guardtest

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/ratelimit/guard"
)

var writerCases = []testCase{
	{"the handler is given the response writer as it was", testUnwrapped},
	{"Flush and Hijack work on a real connection", testFlushAndHijack},
	{"what a client reads over a real connection is the same", testOverTheWire},
}

func testUnwrapped(t *testing.T, s *suite) {
	s.need(t, NetHTTP)
	f := s.fixture(t)
	var outside, handlers http.ResponseWriter
	h := f.serve(site{
		before:  func(w http.ResponseWriter) { outside = w },
		around:  []middleware{f.limited(guard.Policy{Limit: ten()})},
		inside:  []middleware{f.limited(guard.Policy{Limit: one()})},
		handler: func(w http.ResponseWriter, _ *http.Request) { handlers = w },
	})
	get(h)
	if outside == nil || outside != handlers {
		t.Errorf("the handler was given a %T, want the %T that there was before", handlers, outside)
	}
}

func testFlushAndHijack(t *testing.T, s *suite) {
	s.need(t, Hijacking)
	f := s.fixture(t)
	server := httptest.NewServer(f.serve(site{
		around: []middleware{f.limited(guard.Policy{Limit: ten()})},
		handler: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				_, _ = io.WriteString(w, "first\n")
				w.(http.Flusher).Flush()
				_, _ = io.WriteString(w, "second\n")
				return
			}
			connection, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer connection.Close()
			_, _ = io.WriteString(connection, "HTTP/1.1 299 Hijacked\r\nConnection: close\r\n\r\n")
		},
	}))
	defer server.Close()
	client := server.Client()

	response, err := client.Get(server.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	line, err := bufio.NewReader(response.Body).ReadString('\n')
	if err != nil || line != "first\n" || response.ContentLength != -1 || response.Header.Get("Ratelimit") == "" {
		t.Errorf("read %q of length %d and %v, want the first line, flushed, with limit headers", line, response.ContentLength, err)
	}

	response, err = client.Get(server.URL + "/items/7")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != 299 {
		t.Errorf("status %d, want 299 from who hijacked the connection", response.StatusCode)
	}
}

func testOverTheWire(t *testing.T, s *suite) {
	f := s.fixture(t)
	server := httptest.NewServer(f.around(f.limited(guard.Policy{Limit: one()})))
	defer server.Close()
	body := quotaExceeded + `["one"]}
`
	for i, want := range []string{`
200
Content-Length: 7
Content-Type: text/plain; charset=utf-8
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60

served
`, fmt.Sprintf(`
429
Cache-Control: no-store
Content-Length: %d
Content-Type: application/problem+json
Ratelimit: "one";r=0;t=60
Ratelimit-Policy: "one";q=1;w=60
Retry-After: 60

%s`, len(body), body)} {
		response, err := server.Client().Get(server.URL + "/items/7")
		if err != nil {
			t.Fatal(err)
		}
		response.Header.Del("Date")
		expect(t, fmt.Sprintf("request %d", i+1), text(response), want)
		response.Body.Close()
	}
}
