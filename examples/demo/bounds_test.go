package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
)

func TestStrangersMayDoNothing(t *testing.T) {
	d := inMemoryDemo(t)
	stranger := d.visit(t)
	stranger.Jar = nil
	for _, path := range []string{"/requests", "/limits/gcra", "/reset", "/comparison"} {
		if status, _ := stranger.ask("POST", path, "{}"); status != http.StatusForbidden {
			t.Errorf("POST %s: %d", path, status)
		}
	}
	if response := stranger.get("/api/gin/gcra"); response.StatusCode != http.StatusForbidden {
		t.Errorf("GET /api/gin/gcra: %s", response.Status)
	}
}

func TestOtherSitesMayDoNothing(t *testing.T) {
	c := inMemoryDemo(t).visit(t)
	request, err := http.NewRequest(http.MethodPost, c.url+"/reset", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Sec-Fetch-Site", "cross-site")
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("a reset from another site: %s", response.Status)
	}
	for _, test := range []struct {
		path, site, dest string
		want             int
	}{
		{"/", "cross-site", "document", http.StatusOK}, // a link
		{"/", "none", "document", http.StatusOK},
		{"/svg.js", "same-origin", "script", http.StatusOK},
		{"/", "cross-site", "empty", http.StatusForbidden},
		{"/", "cross-site", "iframe", http.StatusForbidden},
		{"/stream", "cross-site", "empty", http.StatusForbidden},
		{"/stream", "same-site", "image", http.StatusForbidden},
		{"/api/nethttp/gcra", "cross-site", "empty", http.StatusForbidden},
	} {
		request, err := http.NewRequest(http.MethodGet, c.url+test.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Sec-Fetch-Site", test.site)
		request.Header.Set("Sec-Fetch-Dest", test.dest)
		response, err := c.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != test.want {
			t.Errorf("%s as %s from %s: %s", test.path, test.dest, test.site, response.Status)
		}
	}
}

// room is a page's room for visitors: two in all.
func room(most, ofClient int) *visitors {
	return &visitors{most: most, mostOfClient: ofClient, byID: make(map[string]*visitor)}
}

func TestVisitorsAreBounded(t *testing.T) {
	s := room(2, 2)
	admit := func(now time.Duration) *visitor {
		v, err := s.admit(t.Context(), now, "ip:127.0.0.1", true)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first, second := admit(1), admit(2)
	s.find(first.id, 3)
	third := admit(4) // second has been away longest
	if s.find(second.id, 5) != nil || s.find(first.id, 5) == nil || len(s.byID) != 2 {
		t.Error("the wrong visitor was forgotten")
	}
	if second.fresh.Err() == nil {
		t.Error("requests of a forgotten visitor go on")
	}
	first.open()
	third.open()
	if _, err := s.admit(t.Context(), 6, "ip:127.0.0.1", false); !errors.Is(err, errFull) {
		t.Errorf("a third stream while two are looking: %v", err)
	}
	if _, err := s.admit(t.Context(), 6, "ip:127.0.0.2", true); err != nil {
		t.Errorf("a visitor from elsewhere while one address has both: %v", err)
	}
	if s.find(third.id, 7) != nil || third.known.Err() == nil || s.find(first.id, 7) == nil {
		t.Error("the wrong visitor was forgotten")
	}
}

func TestAStreamTakesThePlaceOfNobodyWhoHasJustOpenedThePage(t *testing.T) {
	s := room(1, 1)
	v, err := s.admit(t.Context(), 0, "ip:127.0.0.1", true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.admit(t.Context(), absence-1, "ip:127.0.0.1", false); !errors.Is(err, errFull) {
		t.Errorf("a stream from the same address: %v", err)
	}
	if _, err := s.admit(t.Context(), absence, "ip:127.0.0.1", false); err != nil || v.known.Err() == nil {
		t.Errorf("a stream when he is away: %v", err)
	}
}

// Whoever opens as many streams as there may be, with a cookie or without, from one address or from several, locks nobody out.
func TestOpenStreamsLockNobodyOut(t *testing.T) {
	d := inMemoryDemo(t)
	for range mostVisitors {
		stranger := &http.Client{Transport: new(http.Transport)}
		t.Cleanup(stranger.CloseIdleConnections)
		response, err := stranger.Get(d.url + "/stream")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { response.Body.Close() })
	}
	c := d.visit(t) // opens the page
	c.must("POST", "/requests", `{"algorithm":"gcra","framework":"nethttp","count":1}`)
	c.watch(t)(func(f *frame, answers []answer) bool { return f.card("gcra").State != nil && len(answers) == 1 })

	s := room(mostVisitors, mostOfClient)
	for i := range 4 * mostVisitors { // two addresses fill the page
		if v, err := s.admit(t.Context(), time.Duration(i), []string{"ip:192.0.2.1", "ip:192.0.2.2"}[i%2], i%3 == 0); err == nil {
			v.open()
		}
	}
	if len(s.byID) != mostVisitors {
		t.Fatalf("%d visitors, want %d", len(s.byID), mostVisitors)
	}
	for i := range mostOfClient - 2 {
		if v, err := s.admit(t.Context(), time.Hour, "ip:203.0.113."+strconv.Itoa(i), true); err != nil {
			t.Errorf("address %d is locked out: %v", i, err)
		} else {
			v.open()
		}
	}
}

func TestTheDemoIsNotServedUnderOtherNames(t *testing.T) {
	d := inMemoryDemo(t)
	d.hosts = d.hosts.with("192.168.7.7:8080", []string{"My-Laptop", "[2001:db8::1]:80"})
	for host, want := range map[string]int{
		"localhost":          http.StatusOK,
		"LOCALHOST:8080":     http.StatusOK,
		"localhost.:8080":    http.StatusOK,
		"127.0.0.1:8080":     http.StatusOK,
		"[::1]:8080":         http.StatusOK,
		"192.168.7.7:8080":   http.StatusOK,
		"my-laptop:8080":     http.StatusOK,
		"[2001:db8::1]:8080": http.StatusOK,
		"evil.example":       http.StatusMisdirectedRequest,
		"evil.example:8080":  http.StatusMisdirectedRequest,
		"localhost.evil":     http.StatusMisdirectedRequest,
		"127.0.0.1.evil":     http.StatusMisdirectedRequest,
		"192.168.7.8":        http.StatusMisdirectedRequest,
		"":                   http.StatusMisdirectedRequest,
	} {
		for _, path := range []string{"/", "/svg.js", "/api/nethttp/gcra", "/stream"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Host = host
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // a stream ends at once
			w := httptest.NewRecorder()
			d.handler().ServeHTTP(w, r.WithContext(ctx))
			if served := w.Code != http.StatusMisdirectedRequest; served != (want == http.StatusOK) {
				t.Errorf("%q for %q is answered %d", path, host, w.Code)
			}
		}
	}
	for _, addr := range []string{":8080", "0.0.0.0:8080", "[::]:8080"} {
		if h := localhost.with(addr, nil); len(h) != len(localhost) {
			t.Errorf("listening on %s, it is known as %q", addr, h)
		}
	}
	for addr, want := range map[string]string{"0.0.0.0:80": "localhost:80", "[::]:80": "localhost:80", "127.0.0.1:80": "127.0.0.1:80"} {
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := opened(tcp); got != want {
			t.Errorf("listening on %s, open %s, want %s", addr, got, want)
		}
	}
}

func TestStreamsAreBounded(t *testing.T) {
	c := inMemoryDemo(t).visit(t)
	for range mostStreams {
		c.watch(t)(func(*frame, []answer) bool { return true })
	}
	if response := c.get("/stream"); response.StatusCode != http.StatusNoContent {
		t.Errorf("one stream too many: %s", response.Status)
	}
}

func TestRequestsUnderWayAreBounded(t *testing.T) {
	d := inMemoryDemo(t)
	c := d.visit(t)
	c.must("POST", "/limits/shaping", `{"capacity":"50","pace":"1/s"}`)
	for range 5 {
		c.must("POST", "/requests", `{"algorithm":"shaping","framework":"nethttp","count":10}`)
	}
	d.visitors.Lock()
	for _, v := range d.visitors.byID {
		if _, _, err := v.begin(v.cards, mostInFlight/len(v.cards), func(*attempt) {}); !errors.Is(err, errInFlight) {
			t.Errorf("one visitor's requests: %v", err)
		}
	}
	d.visitors.Unlock()
	d.requests.Add(mostUnderWay)
	if status, _ := c.ask("POST", "/requests", `{"algorithm":"gcra","framework":"nethttp","count":1}`); status != http.StatusServiceUnavailable {
		t.Errorf("all visitors' requests: %d", status)
	}
	d.requests.Add(-mostUnderWay)
}

func TestAnswersAndPressesAreBounded(t *testing.T) {
	v := newVisitor(t.Context(), 0, "ip:127.0.0.1")
	for i := range 3 * mostPresses {
		v.remember(time.Duration(i), 1)
		attempts, _, err := v.begin(v.cards[:1], 1, func(a *attempt) { a.counts = true })
		if err != nil {
			t.Fatal(err)
		}
		v.finish(attempts[0], answer{Status: http.StatusOK})
	}
	if len(v.presses) != mostPresses || len(v.cards[0].answers) != mostAnswers || len(v.attempts) != 0 || v.cards[0].waiting != 0 {
		t.Errorf("%d presses, %d answers, %d attempts are kept", len(v.presses), len(v.cards[0].answers), len(v.attempts))
	}
}

func TestAnswersAreToldInTheOrderOfTheirDecisions(t *testing.T) {
	v := newVisitor(t.Context(), 0, "ip:127.0.0.1")
	limit := v.cards[0].limit
	attempts, _, err := v.begin(v.cards[:1], 4, func(a *attempt) { a.counts = true })
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range attempts { // the last two together with the one before
		a.instant = time.Duration(min(i, 1)) * time.Second
		a.decided = &core.Decision{Limit: limit, Allowed: i < 3, Remaining: max(0, 2-i)}
	}
	for _, i := range []int{3, 1, 0, 2} {
		v.finish(attempts[i], answer{Took: int64(i)})
	}
	var f frame
	(&toldSoFar{versions: make([]int64, len(v.cards)), quotas: make(map[string]int64)}).fill(&f, v)
	var got []int64
	for _, a := range f.Answers {
		got = append(got, a.Took)
	}
	if want := []int64{0, 1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("told in the order %v, want %v", got, want)
	}
}

func TestThePageAllowsNothingButItself(t *testing.T) {
	c := inMemoryDemo(t).visit(t)
	policy := c.get("/").Header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("the policy has no %s: %s", part, policy)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("the policy is not strict: %s", policy)
	}
	if response := c.get("/api/nethttp/gcra"); response.Header.Get("Content-Security-Policy") != "" {
		t.Error("the page's policy is among the headers of the requests that it shows")
	}
	entries, err := web.ReadDir("web")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		text, err := web.ReadFile("web/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, foreign := range []string{"http://", "https://", "innerHTML", "eval("} {
			for line := range strings.Lines(string(text)) {
				if strings.Contains(line, foreign) && !strings.Contains(line, "http://www.w3.org/2000/svg") {
					t.Errorf("%s: %s", entry.Name(), strings.TrimSpace(line))
				}
			}
		}
		if entry.Name() != "index.html" {
			if response := c.get("/" + entry.Name()); response.StatusCode != http.StatusOK {
				t.Errorf("%s is not served: %s", entry.Name(), response.Status)
			}
		}
	}
	if err := fstest.TestFS(web, "web/index.html"); err != nil {
		t.Error(err)
	}
}

func TestAnInterruptEndsStreamsAndWaitingRequests(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	out := &lines{make(chan string, 1)}
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, "localhost:0", nil, inMemory, out) }()
	d := &demo{url: out.wait(t, "open ")}
	c := d.visit(t)
	c.must("POST", "/limits/shaping", `{"capacity":"5","pace":"5/m"}`)
	watch := c.watch(t)
	c.must("POST", "/requests", `{"algorithm":"shaping","framework":"gin","count":5}`)
	c.must("POST", "/comparison", `{"framework":"gin","pattern":"steady","capacity":"5","window":"5"}`)
	watch(func(f *frame, _ []answer) bool { return f.card("shaping").Waiting == 4 && f.Run != nil })
	interrupt()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * patience):
		t.Fatal("it goes on")
	}
}

// pipes are connections within this process, so that a test can have a clock of its own.
type pipes chan net.Conn

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p <- server
	return client, nil
}

func (p pipes) Accept() (net.Conn, error) {
	if connection, ok := <-p; ok {
		return connection, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error {
	close(p)
	return nil
}

func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func TestAClientThatStopsSendingIsGivenUp(t *testing.T) {
	for name, sent := range map[string]string{
		"in a header":      "GET / HTTP/1.1\r\nHost: ",
		"in a body":        "POST /reset HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{",
		"between requests": "GET /svg.js HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				listener := make(pipes)
				startOn(t, listener, core.NewMemory())
				connection, err := listener.dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				defer connection.Close()
				if _, err := io.WriteString(connection, sent); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadAll(connection); err != nil { // which waits for the server to close it
					t.Fatal(err)
				}
			})
		})
	}
}

func TestStreamsAndQueuesMayTakeLongerThanReadingARequest(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		listener := make(pipes)
		d := startOn(t, listener, core.NewMemory())
		c := d.visitBy(t, &http.Transport{DialContext: listener.dial})
		c.must("POST", "/limits/shaping", `{"capacity":"3","pace":"3/m"}`)
		var waiting sync.WaitGroup
		for range 3 { // the last of them for forty seconds
			waiting.Go(func() {
				response, err := c.Get(c.url + "/api/nethttp/shaping")
				if err != nil {
					t.Error(err)
					return
				}
				defer response.Body.Close()
				if response.StatusCode != http.StatusOK {
					t.Error(response.Status)
				}
			})
		}
		c.watch(t)(func(f *frame, _ []answer) bool { return f.Clock > 3*patience.Microseconds() })
		waiting.Wait()
	})
}

func TestWhatIsWrongAtTheStartIsSaid(t *testing.T) {
	for _, test := range [][2]string{{"localhost:0", "nonsense:"}, {"localhost:0", "redis://127.0.0.1:1"}, {"nonsense", inMemory}} {
		if err := run(t.Context(), test[0], nil, test[1], new(lines)); err == nil {
			t.Errorf("%v: no error", test)
		}
	}
}

func TestThePasswordOfTheStoreIsNotTold(t *testing.T) {
	for store, told := range map[string]string{
		"memory:":                                "this program's memory",
		"redis://me:secret@db.example:6379/0":    "Redis at db.example:6379",
		"unix://me:secret@/run/redis.sock?db=0":  "Redis at /run/redis.sock",
		"redis://:secret@[::1]:6379?addr=h:6379": "Redis at [::1]:6379",
	} {
		if got := describeStore(store); got != told {
			t.Errorf("%s: %s, want %s", store, got, told)
		}
	}
}

// lines is what a program prints, for another goroutine to read.
type lines struct {
	printed chan string
}

func (l *lines) Write(p []byte) (int, error) {
	if l.printed != nil {
		l.printed <- string(p)
	}
	return len(p), nil
}

// wait returns what follows a prefix on the first line.
func (l *lines) wait(t *testing.T, prefix string) string {
	t.Helper()
	select {
	case text := <-l.printed:
		first, _, _ := strings.Cut(text, "\n")
		return strings.TrimPrefix(first, prefix)
	case <-time.After(patience):
		t.Fatal("nothing was printed")
		return ""
	}
}

func TestAStoreThatDoesNotAnswerIsTold(t *testing.T) {
	store := core.NewMemory()
	c := start(t, store).visit(t)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if status, problem := c.ask("POST", "/reset", ""); status != http.StatusBadGateway || !strings.Contains(problem.Text, "does not answer") {
		t.Errorf("a reset: %d %+v", status, problem)
	}
	c.must("POST", "/requests", `{"algorithm":"leaky","framework":"gin","count":1}`)
	f, answers := c.watch(t)(func(f *frame, answers []answer) bool { return f.Error != "" && len(answers) == 1 })
	if f.card("leaky").State != nil {
		t.Errorf("a state that nobody has told: %+v", f.card("leaky").State)
	}
	if a := answers[0]; a.Status != http.StatusOK || a.Decided || a.At != a.Sent {
		t.Errorf("the middleware fails open, and answers %+v", a)
	}
	c.must("POST", "/comparison", `{"framework":"gin","pattern":"steady","capacity":"2","window":"1"}`)
	f, _ = c.watch(t)(func(f *frame, _ []answer) bool { return f.Run != nil && f.Run.Done })
	if f.Run.Problem != errUnchecked.Error() {
		t.Errorf("the comparison says %q", f.Run.Problem)
	}
	for _, l := range f.Run.Lanes {
		if l.Admitted != 0 || l.Refused != 0 || l.Most != 0 || l.Unchecked == 0 {
			t.Errorf("of requests that nobody has decided: %+v", l)
		}
	}
}
