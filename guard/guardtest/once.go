package guardtest

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var onceCases = []testCase{
	{"a request that is let through is settled once, whoever answers it", testSettledOnce},
	{"a request that is answered further out is settled by that, before the client reads it", testSettledByTheAnswer},
}

// Outside says how a middleware around the limiters answers for a handler that has not.
type Outside int

// The ways of a middleware around the limiters.
const (
	Nothing    Outside = iota
	Swallows           // goes on as if there were no error
	Answers            // answers an error with 418, as the framework has it
	AnswersRaw         // answers an error with 418 by http.Error, on the framework's innermost writer
	Recovers           // answers a panic with 500, as the framework has it
)

// Scene is GET of / with a handler behind some limiters, and middleware around those.
type Scene[M any] struct {
	// Limiters are in front of the handler, the outermost first.
	Limiters []M
	// Outside is the way of the outermost middleware. It leaves a response alone that has
	// begun.
	Outside Outside
	// Restores has another middleware, inside of that, which puts a writer of its own in
	// place and takes it away again afterwards, also when the handler panics.
	Restores bool
	// Handler is given the framework's own response writer, or its innermost one if Raw is
	// set.
	Handler http.HandlerFunc
	Raw     bool
	// Error is the status of the error that the handler leaves behind if it returns, or 0
	// for none. A framework with handlers that leave no errors does not look at it.
	Error int
}

// Wrapper is a writer of a middleware's own: see Scene.Restores.
type Wrapper struct{ http.ResponseWriter }

// Unwrap is for [http.ResponseController].
func (w Wrapper) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// scene is a Scene.
type scene struct {
	limiters []middleware
	outside  Outside
	restores bool
	handler  http.HandlerFunc
	raw      bool
	error    int
}

// act is the behaviour of a handler.
type act struct {
	name    string
	do      http.HandlerFunc
	raw     bool
	answers bool // the response begins, or the connection is taken over
	panics  bool // or ends its goroutine
	sets    bool // a status, and nothing else
	// recoverable says that a middleware which answers panics answers this one.
	recoverable bool
}

var acts = []act{
	{name: "does nothing", do: func(http.ResponseWriter, *http.Request) {}},
	{name: "writes", do: write, answers: true},
	{name: "sets a status", do: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }, answers: true, sets: true},
	{name: "writes with a status", do: notFound, answers: true},
	{name: "writes with a status on the innermost writer", do: notFound, raw: true, answers: true},
	{name: "flushes", do: flush, answers: true},
	{name: "takes the connection over", do: takeOver, answers: true},
	{name: "leaves a goroutine behind", do: outlive},
	{name: "panics", do: func(http.ResponseWriter, *http.Request) { panic("on purpose") }, panics: true, recoverable: true},
	{name: "panics after a write", do: func(w http.ResponseWriter, r *http.Request) { write(w, r); panic("on purpose") }, answers: true, panics: true},
	{name: "panics after a flush", do: func(w http.ResponseWriter, r *http.Request) { flush(w, r); panic("on purpose") }, answers: true, panics: true},
	{name: "aborts", do: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, panics: true},
	{name: "ends its goroutine", do: func(http.ResponseWriter, *http.Request) { runtime.Goexit() }, panics: true},
	{name: "ends its goroutine after a flush", do: func(w http.ResponseWriter, r *http.Request) { flush(w, r); runtime.Goexit() }, answers: true, panics: true},
}

func write(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "written\n") }

func notFound(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "not found", http.StatusNotFound)
}

func flush(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() }

func takeOver(w http.ResponseWriter, _ *http.Request) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer connection.Close()
	_, _ = io.WriteString(connection, "HTTP/1.1 299 Hijacked\r\nConnection: close\r\n\r\n")
}

func outlive(_ http.ResponseWriter, r *http.Request) {
	go func() { <-r.Context().Done() }()
}

// settlements are the settlements of a limiter's policy, as it was asked and as observed.
type settlements struct {
	mu     sync.Mutex
	served []guard.Served
	events int
}

// limiter is a limiter that is settled into it.
func (s *settlements) limiter(of *suite) middleware {
	options := guard.Options{Observe: func(e guard.Event) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if e.Settled {
			s.events++
		}
	}}
	return of.new(core.New(core.NewMemory()), options, guard.Policy{Limit: hundred(), By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: func(_ *http.Request, served guard.Served) int {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.served = append(s.served, served)
		return 0
	}}})
}

// told returns the cost that the policy was given, and how often that was observed.
func (s *settlements) told() ([]guard.Served, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.served), s.events
}

// fataler is a test, or one case of a random one.
type fataler interface {
	Fatalf(format string, args ...any)
}

// await returns the settlement as soon as it is done.
func (s *settlements) await(t fataler) guard.Served {
	for deadline := time.Now().Add(30 * time.Second); ; runtime.Gosched() {
		if served, events := s.told(); len(served) > 0 && events > 0 {
			return served[0]
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing was settled")
		}
	}
}

// visitScene sends a request to a scene, on a real connection, and returns the status that
// the client saw, or 0 if it saw none.
func (s *suite) visitScene(of scene) (status int, err error) {
	server := httptest.NewUnstartedServer(s.play(of))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // which sends nothing again
	response, err := client.Get(server.URL + "/")
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	return response.StatusCode, nil
}

func testSettledOnce(t *testing.T, s *suite) {
	s.needScenes(t)
	var all []*settlements
	rapid.Check(t, func(t *rapid.T) {
		act := rapid.SampledFrom(acts).Draw(t, "act")
		of := scene{
			outside:  rapid.SampledFrom([]Outside{Nothing, Swallows, Answers, AnswersRaw, Recovers}).Draw(t, "outside"),
			restores: rapid.Bool().Draw(t, "restores"),
			handler:  act.do,
			raw:      act.raw,
			error:    rapid.SampledFrom([]int{0, http.StatusUnauthorized, http.StatusBadGateway}).Draw(t, "error"),
		}
		limiters := make([]*settlements, rapid.IntRange(1, 2).Draw(t, "limiters"))
		for i := range limiters {
			limiters[i] = new(settlements)
			of.limiters = append(of.limiters, limiters[i].limiter(s))
		}
		t.Logf("the handler %s", act.name)
		status, err := s.visitScene(of)
		answers := act.answers
		if act.sets && s.answered.SendsLater && of.error != 0 {
			answers = false
		}
		left := !answers && (act.panics || of.error != 0 && s.answered.LeavesErrors)
		seen := left && s.answered.Sees(of.outside, of.restores, act.panics) && (!act.panics || act.recoverable)
		for i, limiter := range limiters {
			served := limiter.await(t)
			if served.Panicked != act.panics || served.Unanswered != (left && !seen) {
				t.Errorf("limiter %d was told %+v, want panicked %t, unanswered %t", i, served, act.panics, left && !seen)
			}
			if err == nil && !served.Unanswered && !served.Hijacked && served.Status != status {
				t.Errorf("limiter %d was told %+v, and the client saw %d", i, served, status)
			}
			if served.Unanswered && served.Status < http.StatusUnauthorized && !act.sets {
				t.Errorf("limiter %d was told %+v of what nobody has answered, want the status of an error", i, served)
			}
		}
		all = append(all, limiters...)
	})
	for _, limiter := range all { // a second one would have had all this time
		if served, events := limiter.told(); len(served) != 1 || events != 1 {
			t.Errorf("settled by %+v, observed %d times, want once", served, events)
		}
	}
}

// An attacker who waits for each answer meets a limit that knows of all answers before.
func testSettledByTheAnswer(t *testing.T, s *suite) {
	s.needScenes(t)
	if !s.answered.LeavesErrors {
		t.Skip("handlers of this framework leave no errors")
	}
	for _, outside := range []Outside{Answers, AnswersRaw} {
		var limiter settlements
		told := make(chan int, 1)
		status, err := s.visitScene(scene{
			limiters: []middleware{limiter.limiter(s)},
			outside:  outside,
			handler: func(_ http.ResponseWriter, r *http.Request) {
				go func() { // when the request ends
					<-r.Context().Done()
					served, _ := limiter.told()
					told <- len(served)
				}()
			},
			error: http.StatusUnauthorized,
		})
		if err != nil || status != http.StatusTeapot {
			t.Fatalf("answered with %d, %v", status, err)
		}
		if <-told != 1 || limiter.await(t).Status != http.StatusTeapot {
			t.Errorf("settled by %+v, want 418, before the request has ended", &limiter)
		}
	}
}
