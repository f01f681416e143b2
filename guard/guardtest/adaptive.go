package guardtest

import (
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
)

var adaptiveCases = []testCase{
	{"an adaptive limit serves as many at once as it is told, and answers others with 503", testAdaptive},
	{"an adaptive limit is asked before each request, and less than 1 is 1", testAdaptiveFollows},
	{"an adaptive limit counts a request until its handler has ended, in whichever way", testAdaptiveEnds},
	{"an adaptive limit counts a connection that was taken over until it is closed", testAdaptiveTakenOver},
	{"an adaptive limit lets no more in, whatever the crowd", testAdaptiveCrowd},
	{"an adaptive limit leaves the other limits' headers, decisions and permits alone", testAdaptiveNested},
	{"an adaptive limit can be swapped for policies, and needs a function", testAdaptiveSwap},
}

func always(n int) func() int { return func() int { return n } }

// stay is a handler in which requests stay until they are told to go on.
type stay struct{ entered, proceed chan struct{} }

func newStay() *stay { return &stay{make(chan struct{}), make(chan struct{})} }

func (s *stay) handle(http.ResponseWriter, *http.Request) {
	s.entered <- struct{}{}
	<-s.proceed
}

// enter sends a request, and returns when it is inside.
func (s *stay) enter(h http.Handler, group *sync.WaitGroup) {
	group.Go(func() { get(h) })
	<-s.entered
}

func testAdaptive(t *testing.T, s *suite) {
	room := newStay()
	h := s.serve(site{around: []middleware{s.adaptive(always(2))}, handler: room.handle})
	var group sync.WaitGroup
	room.enter(h, &group)
	room.enter(h, &group)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		got := answer(h, ask(method, "/items/7"))
		if seconds, err := strconv.Atoi(got.Header.Get("Retry-After")); got.StatusCode != http.StatusServiceUnavailable || err != nil || seconds < 1 || seconds > 3 {
			t.Errorf("%s with two inside: answered %d, Retry-After %q", method, got.StatusCode, got.Header.Get("Retry-After"))
		}
		if got.Header.Get("RateLimit")+got.Header.Get("RateLimit-Policy") != "" || got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s with two inside: the header is %v", method, got.Header)
		}
	}
	room.proceed <- struct{}{}
	room.proceed <- struct{}{}
	group.Wait()
	room.enter(h, &group)
	room.proceed <- struct{}{}
	group.Wait()
}

func testAdaptiveFollows(t *testing.T, s *suite) {
	room := newStay()
	n := 3
	h := s.serve(site{around: []middleware{s.adaptive(func() int { return n })}, handler: room.handle})
	var group sync.WaitGroup
	for range 3 {
		room.enter(h, &group)
	}
	denied := func(when string) {
		t.Helper()
		if got := answer(h, ask(http.MethodGet, "/")); got.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: answered %d", when, got.StatusCode)
		}
	}
	n = 2
	denied("more inside than allowed")
	n = 4
	room.enter(h, &group)
	n = 3
	room.proceed <- struct{}{} // four are inside
	denied("as many inside as allowed, or one more that leaves")
	for range 3 {
		room.proceed <- struct{}{}
	}
	group.Wait()
	for _, n = range []int{0, -5} {
		room.enter(h, &group)
		denied("one inside, " + strconv.Itoa(n) + " allowed")
		room.proceed <- struct{}{}
		group.Wait()
	}
}

func testAdaptiveEnds(t *testing.T, s *suite) {
	s.needScenes(t)
	for name, end := range map[string]http.HandlerFunc{
		"a panic":  func(http.ResponseWriter, *http.Request) { panic("on purpose") },
		"an abort": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"Goexit":   func(http.ResponseWriter, *http.Request) { runtime.Goexit() },
		"a stream": func(w http.ResponseWriter, r *http.Request) { flush(w, r); write(w, r); flush(w, r) },
	} {
		t.Run(name, func(t *testing.T) {
			handlers := []http.HandlerFunc{end, write}
			h := s.play(scene{limiters: []middleware{s.adaptive(always(1))}, handler: func(w http.ResponseWriter, r *http.Request) {
				next := handlers[0]
				handlers = handlers[1:]
				next(w, r)
			}})
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				answer(h, ask(http.MethodGet, "/"))
			}()
			<-done
			if got := answer(h, ask(http.MethodGet, "/")); got.StatusCode != http.StatusOK || len(handlers) != 0 {
				t.Errorf("the next one: answered %d, %d have not run", got.StatusCode, len(handlers))
			}
		})
	}
}

func testAdaptiveTakenOver(t *testing.T, s *suite) {
	s.needScenes(t)
	connections := make(chan net.Conn, 1)
	server := listen(t, s.play(scene{
		limiters: []middleware{s.adaptive(always(1))},
		handler: func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade") == "" {
				return
			}
			connection, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			connections <- connection
		},
	}))
	status := func() int {
		response, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	client, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, _ = io.WriteString(client, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
	connection := <-connections
	for range 3 { // the handler returns meanwhile
		if got := status(); got != http.StatusServiceUnavailable {
			t.Errorf("beside a connection that was taken over: answered %d", got)
		}
	}
	connection.Close()
	for deadline := time.Now().Add(30 * time.Second); status() != http.StatusOK; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the connection counts after it was closed")
		}
	}
}

func testAdaptiveCrowd(t *testing.T, s *suite) {
	var inside, most, served, denied atomic.Int64
	h := s.serve(site{around: []middleware{s.adaptive(always(3))}, handler: func(http.ResponseWriter, *http.Request) {
		now := inside.Add(1)
		for before := most.Load(); before < now && !most.CompareAndSwap(before, now); {
			before = most.Load()
		}
		runtime.Gosched()
		inside.Add(-1)
	}})
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			for range 50 {
				if answer(h, ask(http.MethodGet, "/")).StatusCode == http.StatusOK {
					served.Add(1)
				} else {
					denied.Add(1)
				}
			}
		})
	}
	group.Wait()
	if most.Load() > 3 || served.Load() < 3 || served.Load()+denied.Load() != 1000 {
		t.Errorf("%d at once, %d served and %d denied", most.Load(), served.Load(), denied.Load())
	}
	if got := answer(h, ask(http.MethodGet, "/")).StatusCode; got != http.StatusOK {
		t.Errorf("after the crowd: answered %d", got)
	}
}

func testAdaptiveNested(t *testing.T, s *suite) {
	s.needScenes(t)
	limiter := core.New(core.NewMemory())
	defer limiter.Close()
	room := newStay()
	handler := func(w http.ResponseWriter, r *http.Request) {
		if decided := guard.OutcomesFrom(r.Context()); len(decided) != 1 || guard.PermitFrom(r.Context()) == nil {
			t.Errorf("the handler finds %v", decided)
		}
		room.handle(w, r)
	}
	places := s.new(limiter, guard.Options{}, deskPolicy(5))
	for name, limiters := range map[string][]middleware{
		"outside": {s.adaptive(always(1)), places},
		"inside":  {places, s.adaptive(always(1))},
	} {
		t.Run(name, func(t *testing.T) {
			h := s.play(scene{limiters: limiters, handler: handler})
			served := make(chan *http.Response)
			go func() { served <- answer(h, ask(http.MethodGet, "/")) }()
			<-room.entered
			got := answer(h, ask(http.MethodGet, "/"))
			if got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("RateLimit")+got.Header.Get("RateLimit-Policy") != "" {
				t.Errorf("answered %d with %v", got.StatusCode, got.Header)
			}
			room.proceed <- struct{}{}
			if got := <-served; got.StatusCode != http.StatusOK || got.Header.Get("RateLimit") == "" {
				t.Errorf("served with %d and %v", got.StatusCode, got.Header)
			}
			awaitTaken(t, limiter, desk(5), 0)
		})
	}
}

func testAdaptiveSwap(t *testing.T, s *suite) {
	expectPanic(t, func() { s.adaptive(nil) }, "ratelimit: ", "Adaptive: the function is nil")
	handle := guard.Adaptive(always(1))
	var statuses []int
	h := s.serve(site{around: []middleware{s.use(handle)}, handler: write})
	request := func() { statuses = append(statuses, answer(h, ask(http.MethodGet, "/")).StatusCode) }
	request()
	if err := handle.Swap(core.New(core.NewMemory()), guard.Options{}, guard.Policy{Limit: one()}); err != nil {
		t.Fatal(err)
	}
	request()
	request()
	if want := []int{200, 200, 429}; !slices.Equal(statuses, want) {
		t.Errorf("answered %v, want %v", statuses, want)
	}
}
