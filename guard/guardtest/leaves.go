package guardtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/lists"
)

var leavesCases = []testCase{
	{"an upload leaves no temporary file behind, whoever has parsed it and whatever becomes of the request", testTemporaryFiles},
	{"the files of a form are there until the handler has returned, also when the client has gone", testFilesStayWhileRead},
	{"a banned client's uploads leave nothing behind", testTemporaryFilesOfBanned},
	{"what is parsed inside is seen outside", testParsedIsSeenOutside},
	{"trailers that nobody has announced reach the handler", testTrailers},
	{"functions of policies read no more of a body than they may", testKeyBodyBound},
	{"what the functions of policies have not parsed, the handler reads", testKeyBodyGoesOn},
	{"Explain leaves the body and the form of a request alone", testExplainLeavesBody},
}

// form is a multipart form with a user and a file of some size.
func form(user string, size int) (contentType string, body []byte) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.WriteField("user", user)
	file, _ := w.CreateFormFile("file", "file.bin")
	_, _ = file.Write(make([]byte, size))
	_ = w.Close()
	return w.FormDataContentType(), b.Bytes()
}

// temporaryFiles gives the test a directory for temporary files of its own, and returns a function that counts them.
func temporaryFiles(t *testing.T) (count func() int) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	return func() int {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
}

// awaitNone returns when there are no temporary files any more.
func awaitNone(t *testing.T, what string, count func() int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); count() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d temporary files are left", what, count())
		}
	}
}

// upload sends a form to a server, and returns the status, or 0 if there was no answer.
func upload(server *httptest.Server, path, contentType string, body []byte) int {
	r, _ := http.NewRequest(http.MethodGet, server.URL+path, bytes.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	// The client does not say that it closes the connection: net/http resets one that does, if it has not read the body.
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(r)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	return response.StatusCode
}

// parse parses a form so that its file is written to disk.
func parse(r *http.Request) string {
	_ = r.ParseMultipartForm(1)
	return r.FormValue("user")
}

func testTemporaryFiles(t *testing.T, s *suite) {
	count := temporaryFiles(t)
	byForm := keyfuncs.User(parse)
	contentType, body := form("alice", 1<<16)
	for name, c := range map[string]struct {
		policies []guard.Policy
		inside   []guard.Policy
		options  guard.Options
		handler  http.HandlerFunc
		outside  func(http.Handler) http.Handler
	}{
		"the handler parses":         {policies: []guard.Policy{{Limit: hundred()}}, handler: func(_ http.ResponseWriter, r *http.Request) { parse(r) }},
		"behind a policy that waits": {policies: []guard.Policy{{Limit: hundred(), Settle: guard.SettlePolicy{Cost: says(1)}}}, handler: func(_ http.ResponseWriter, r *http.Request) { parse(r) }},
		"behind two limiters": {
			policies: []guard.Policy{{Limit: hundred()}}, inside: []guard.Policy{{Limit: ten()}},
			handler: func(_ http.ResponseWriter, r *http.Request) { parse(r) },
		},
		"behind a policy that does not apply": {
			policies: []guard.Policy{{Limit: hundred(), Skip: func(*http.Request) bool { return true }}},
			handler:  func(_ http.ResponseWriter, r *http.Request) { parse(r) },
		},
		"a key function parses": {policies: []guard.Policy{{Limit: hundred(), By: byForm}}, handler: func(http.ResponseWriter, *http.Request) {}},
		"the handler panics": {policies: []guard.Policy{{Limit: hundred()}}, handler: func(_ http.ResponseWriter, r *http.Request) {
			parse(r)
			panic(http.ErrAbortHandler)
		}},
		"the handler ends its goroutine": {policies: []guard.Policy{{Limit: hundred()}}, handler: func(_ http.ResponseWriter, r *http.Request) {
			parse(r)
			runtime.Goexit()
		}},
		"a key function panics": {policies: []guard.Policy{{Limit: hundred(), By: func(r *http.Request) (string, error) {
			parse(r)
			panic(http.ErrAbortHandler)
		}}}},
		"a list denies": {
			policies: []guard.Policy{{Limit: hundred()}},
			options:  guard.Options{Lists: guard.Lists{Deny: lists.Of("key:user:alice"), By: byForm}},
		},
		"the answer to a denial parses": {
			policies: []guard.Policy{{Limit: ten(), Cost: func(*http.Request) int { return 11 }}},
			options:  guard.Options{Denied: func(_ http.ResponseWriter, r *http.Request, _ *guard.Denial) { parse(r) }},
		},
		"a middleware outside has made a copy": {
			policies: []guard.Policy{{Limit: hundred()}}, handler: func(_ http.ResponseWriter, r *http.Request) { parse(r) },
			outside: func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r.WithContext(r.Context())) })
			},
		},
		"the time of the request is up": {
			policies: []guard.Policy{{Limit: hundred()}}, handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done(); parse(r) },
			outside: func(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Millisecond, "") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			of := site{around: []middleware{s.new(core.New(core.NewMemory()), c.options, c.policies...)}, handler: c.handler}
			if c.inside != nil {
				of.inside = []middleware{s.new(core.New(core.NewMemory()), c.options, c.inside...)}
			}
			if of.handler == nil {
				of.handler = func(http.ResponseWriter, *http.Request) { t.Error("the handler runs") }
			}
			h := s.serve(of)
			if c.outside != nil {
				h = c.outside(h)
			}
			server := listen(t, h)
			for range 3 {
				upload(server, "/", contentType, body)
			}
			awaitNone(t, name, count)
		})
	}
}

func testFilesStayWhileRead(t *testing.T, s *suite) {
	count := temporaryFiles(t)
	contentType, body := form("alice", 1<<16)
	byForm := guard.Policy{Limit: ten(), By: keyfuncs.User(parse)}
	nobody := guard.Policy{Limit: ten(), By: keyfuncs.User(parse), Cost: func(*http.Request) int { return 11 }}
	for name, c := range map[string]struct {
		outside, inside []guard.Policy
		asked           bool // Options.Denied is the one who reads
	}{
		"a key function has parsed it":                     {outside: []guard.Policy{byForm}},
		"a key function of an inner limiter has parsed it": {outside: []guard.Policy{{Limit: hundred()}}, inside: []guard.Policy{byForm}},
		"of two limiters, the outer one has parsed it":     {outside: []guard.Policy{byForm}, inside: []guard.Policy{{Limit: hundred()}}},
		"behind a policy that settles":                     {outside: []guard.Policy{byForm, {Limit: hundred(), Settle: guard.SettlePolicy{Cost: says(1)}}}},
		"the handler has parsed it":                        {outside: []guard.Policy{{Limit: hundred()}}},
		"the answer to a denial reads it":                  {outside: []guard.Policy{nobody}, asked: true},
	} {
		ctx, hangUp := context.WithCancel(t.Context())
		reads := 0
		read := func(_ http.ResponseWriter, r *http.Request) {
			reads++
			parse(r)
			hangUp()
			for begin := time.Now(); count() == 1 && time.Since(begin) < 20*time.Millisecond; {
				time.Sleep(time.Millisecond)
			}
			file, _, err := r.FormFile("file")
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			defer file.Close()
			if n, err := io.Copy(io.Discard, file); n != 1<<16 || err != nil {
				t.Errorf("%s: %d bytes of the file are read, %v", name, n, err)
			}
		}
		of := site{around: []middleware{s.new(core.New(core.NewMemory()), guard.Options{
			Denied: func(w http.ResponseWriter, r *http.Request, _ *guard.Denial) { read(w, r) },
		}, c.outside...)}, handler: read}
		if c.inside != nil {
			of.inside = []middleware{s.new(core.New(core.NewMemory()), guard.Options{}, c.inside...)}
		}
		r := httptest.NewRequest(http.MethodGet, "/", bytes.NewReader(body)).WithContext(ctx)
		r.Header.Set("Content-Type", contentType)
		if status := answer(s.serve(of), r).StatusCode; reads != 1 || (status == http.StatusOK) == c.asked {
			t.Errorf("%s: answered with %d, and read %d times", name, status, reads)
		}
		awaitNone(t, name, count)
	}
}

func testTemporaryFilesOfBanned(t *testing.T, s *suite) {
	count := temporaryFiles(t)
	f := s.fixture(t)
	h := f.serve(site{
		around: []middleware{f.limited(guard.Policy{Ban: guard.BanPolicy{Ban: brute(), Strike: unauthorized, Forgive: succeeded}, By: keyfuncs.User(parse)})},
		handler: func(w http.ResponseWriter, _ *http.Request) {
			f.ran++
			w.WriteHeader(http.StatusUnauthorized)
		},
	})
	server := listen(t, h)
	contentType, body := form("alice", 1<<16)
	for i := range 6 {
		want := http.StatusUnauthorized
		if i >= 3 {
			want = http.StatusForbidden
		}
		if got := upload(server, "/", contentType, body); got != want {
			t.Errorf("upload %d is answered with %d, want %d", i+1, got, want)
		}
	}
	contentType, body = form("alice", 2<<20)
	for range 3 {
		if got := upload(server, "/", contentType, body); got != http.StatusRequestEntityTooLarge {
			t.Errorf("an upload that no function may read is answered with %d", got)
		}
	}
	f.expectRan(3)
	awaitNone(t, "banned", count)
}

func testParsedIsSeenOutside(t *testing.T, s *suite) {
	s.needScenes(t)
	f := s.fixture(t)
	h := f.play(scene{
		limiters: []middleware{f.limited(guard.Policy{Limit: hundred(), By: keyfuncs.User(parse)}), f.limited(guard.Policy{Limit: ten()})},
		handler: func(_ http.ResponseWriter, r *http.Request) {
			if got := r.FormValue("user"); got != "alice" {
				t.Errorf("the handler reads %q", got)
			}
		},
	})
	contentType, body := form("alice", 10)
	r := httptest.NewRequest(http.MethodGet, "/", bytes.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	if got := answer(h, r).StatusCode; got != http.StatusOK {
		t.Fatalf("answered with %d", got)
	}
	if r.MultipartForm == nil || r.Form.Get("user") != "alice" || r.PostForm.Get("user") != "alice" {
		t.Errorf("outside, the request has %v, %v and %v", r.MultipartForm, r.Form, r.PostForm)
	}
}

func testTrailers(t *testing.T, s *suite) {
	s.needScenes(t)
	for _, announced := range []bool{false, true} {
		f := s.fixture(t)
		var got http.Header
		server := listen(t, f.play(scene{
			limiters: []middleware{f.limited(guard.Policy{Limit: hundred()})},
			handler: func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				got = r.Trailer
			},
		}))
		connection, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		head := "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"
		if announced {
			head += "Trailer: Checksum\r\n"
		}
		_, _ = io.WriteString(connection, head+"\r\n5\r\nhello\r\n0\r\nChecksum: 7\r\n\r\n")
		_, _ = io.ReadAll(connection)
		if got.Get("Checksum") != "7" {
			t.Errorf("announced %t: the handler reads the trailer %v", announced, got)
		}
	}
}

// counting is an endless body that counts the bytes read of it.
type counting struct {
	io.Reader

	read int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}

func (c *counting) Close() error { return nil }

func testKeyBodyBound(t *testing.T, s *suite) {
	s.need(t, StreamedBodies)
	readAll := func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	for name, policy := range map[string]guard.Policy{
		"By": {Limit: hundred(), By: keyfuncs.User(func(r *http.Request) string { readAll(r); return "alice" })},
		"By that says so": {Limit: hundred(), By: func(r *http.Request) (string, error) {
			_, err := io.ReadAll(r.Body)
			return "user:alice", err
		}},
		"LimitFor": {LimitFor: func(r *http.Request) core.Limit { readAll(r); return hundred() }},
		"Cost":     {Limit: hundred(), Cost: func(r *http.Request) int { readAll(r); return 1 }},
		"Skip":     {Limit: hundred(), Skip: func(r *http.Request) bool { readAll(r); return true }},
		"a Shadow": {Limit: hundred(), Shadow: true, Cost: func(r *http.Request) int { readAll(r); return 1 }},
		"a Ban":    {Ban: guard.BanPolicy{Ban: brute(), Strike: unauthorized, Forgive: succeeded}, By: keyfuncs.User(func(r *http.Request) string { readAll(r); return "alice" })},
	} {
		for _, c := range []struct {
			most int64 // MaxKeyBody
			size int
			want int
		}{
			{0, 1 << 20, http.StatusOK},
			{0, 1<<20 + 1, http.StatusRequestEntityTooLarge},
			{0, 64 << 20, http.StatusRequestEntityTooLarge},
			{100, 100, http.StatusOK},
			{100, 101, http.StatusRequestEntityTooLarge},
			{2 << 20, 2 << 20, http.StatusOK},
		} {
			f := s.fixture(t)
			options := f.options()
			options.MaxKeyBody = c.most
			h := f.serve(site{around: []middleware{f.new(f.limiter, options, policy)}, handler: f.handle})
			body := &counting{Reader: io.LimitReader(zeros{}, int64(c.size))}
			r := httptest.NewRequest(http.MethodGet, "/", body)
			r.ContentLength = 10 // a middleware outside decompresses
			if got := answer(h, r).StatusCode; got != c.want {
				t.Errorf("%s: %d bytes of %d are answered with %d, want %d", name, c.size, c.most, got, c.want)
			}
			if most := max(c.most, 1<<20) + 1; c.most == 0 && int64(body.read) > most || c.most > 0 && int64(body.read) > c.most+1 {
				t.Errorf("%s: %d bytes of %d were read", name, body.read, c.size)
			}
			if c.want == http.StatusOK {
				f.expectRan(1)
				continue
			}
			f.expectRan(0)
			if len(f.store.calls) != 0 {
				t.Errorf("%s: the store was asked %v", name, f.store.calls)
			}
			if e := f.event(); e.Status != c.want || !errors.Is(e.Err, guard.ErrBodyTooLong) || e.Degraded() {
				t.Errorf("%s: observed %+v", name, e)
			}
		}
	}
	if _, err := guard.New(core.New(core.NewMemory()), guard.Options{MaxKeyBody: -1}, guard.Policy{Limit: ten()}); err == nil {
		t.Error("a MaxKeyBody of -1 is no error")
	}
}

// zeros never end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func testKeyBodyGoesOn(t *testing.T, s *suite) {
	text := strings.Repeat("0123456789", 20_000)
	for name, by := range map[string]func(*http.Request){
		"reads nothing":             func(*http.Request) {},
		"looks at the beginning":    func(r *http.Request) { peek(r, 100) },
		"looks at all that it may":  func(r *http.Request) { peek(r, 1000) },
		"puts back what it reads":   func(r *http.Request) { peek(r, 10); peek(r, 500) },
		"looks twice, and less":     func(r *http.Request) { peek(r, 900); peek(r, 90) },
		"asks for nothing at all":   func(r *http.Request) { _, _ = r.Body.Read(nil) },
		"reads nothing, with a ban": nil,
	} {
		f := s.fixture(t)
		options := f.options()
		options.MaxKeyBody = 1000
		policies := []guard.Policy{{Limit: hundred(), By: keyfuncs.User(func(r *http.Request) string {
			if by != nil {
				by(r)
			}
			return "alice"
		})}}
		if by == nil {
			policies = append(policies, guard.Policy{Ban: guard.BanPolicy{Ban: brute(), Strike: unauthorized, Forgive: succeeded}, By: keyfuncs.RemoteIP})
		}
		var got []byte
		h := f.serve(site{around: []middleware{f.new(f.limiter, options, policies...)}, handler: func(_ http.ResponseWriter, r *http.Request) {
			got, _ = io.ReadAll(r.Body)
		}})
		r := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(text))
		if status := answer(h, r).StatusCode; status != http.StatusOK || string(got) != text {
			t.Errorf("%s: answered with %d, and the handler reads %d bytes of %d", name, status, len(got), len(text))
		}
	}
}

// peek reads the beginning of a body, and puts it back.
func peek(r *http.Request, n int) {
	beginning := make([]byte, n)
	n, _ = io.ReadFull(r.Body, beginning)
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(beginning[:n]), r.Body), r.Body}
}

func testExplainLeavesBody(t *testing.T, _ *suite) {
	count := temporaryFiles(t)
	handle, err := guard.New(core.New(core.NewMemory()), guard.Options{},
		guard.Policy{Limit: hundred(), By: keyfuncs.User(parse)},
		guard.Policy{Limit: ten(), Cost: func(r *http.Request) int { peek(r, 3); return 1 }})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{100, 100_000, 2 << 20} {
		contentType, body := form("alice", size)
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		e := handle.Explain(r, nil)
		if size < 1<<20 && (len(e.Outcomes) != 2 || e.Outcomes[0].Key != "user:alice") || size > 1<<20 && e.Status != http.StatusRequestEntityTooLarge {
			t.Errorf("explained: %+v", e)
		}
		if r.MultipartForm != nil || r.Form != nil || r.PostForm != nil {
			t.Errorf("the request has %v, %v and %v", r.MultipartForm, r.Form, r.PostForm)
		}
		if left, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(left, body) {
			t.Errorf("%d bytes of %d are left of the body, %v", len(left), len(body), err)
		}
		awaitNone(t, strconv.Itoa(size), count)
	}
	again := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("user=bob"))
	again.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	handle.Explain(again, nil)
	if handle.Explain(again, nil); again.PostFormValue("user") != "bob" {
		t.Errorf("the form is %v after two explanations", again.Form)
	}
}
