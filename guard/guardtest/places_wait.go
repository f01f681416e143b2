package guardtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var placeWaitCases = []testCase{
	{"requests that wait for a place are served in the order in which they came", testPlacesInOrder},
	{"a wait for a place ends after MaxWait, and charges no rate", testMaxWait},
	{"a request that a rate denies does not wait for a place", testRateIsNotWaitedFor},
	{"a rate is charged when the place is granted", testRateIsChargedWithThePlace},
	{"a client that goes away while it waits for a place leaves nothing behind", testGoneWhileWaiting},
	{"a client that goes away in the queue gives its place back", testGoneInQueueWithPlace},
	{"a request whose deadline comes before a place is answered 503", testTooLateForPlace},
	{"a server that shuts down does not wait for places", testDrainingPlaces},
	{"of several policies with places, the shortest MaxWait counts", testShortestMaxWait},
	{"a policy with places tells how many are left, and no time", testPlaceHeaders},
	{"a request without a place is told an estimate", testPlaceDenied},
	{"a hook answers 503 to a request without a place", testPlaceDeniedByHook},
	{"a MaxWait that makes no sense is an error", testMaxWaitOfNonsense},
}

// desked is a site with places, in a bubble. Its handler takes a second.
type desked struct {
	*fixture

	handler http.Handler
	start   time.Time
	mu      sync.Mutex
	served  []string // the names, and the instants
	seen    map[string]guard.Event
	group   sync.WaitGroup
}

func (s *suite) desked(t *testing.T, options guard.Options, policies ...guard.Policy) *desked {
	d := &desked{fixture: s.fixture(t), start: time.Now(), seen: make(map[string]guard.Event)}
	d.limiter = core.New(core.NewMemory()) // on the bubble's clock
	options.Observe = func(e guard.Event) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.seen[e.Request.Header.Get("Name")] = e
	}
	d.handler = s.serve(site{
		around: []middleware{s.new(d.limiter, options, policies...)},
		handler: func(_ http.ResponseWriter, r *http.Request) {
			d.mu.Lock()
			d.served = append(d.served, fmt.Sprintf("%s %v", r.Header.Get("Name"), time.Since(d.start)))
			d.mu.Unlock()
			time.Sleep(time.Second)
		},
	})
	return d
}

// ask sends a request and returns the answer and how long that took.
func (d *desked) ask(ctx context.Context, name string) (*http.Response, time.Duration) {
	began := time.Now()
	response := answer(d.handler, ask(http.MethodGet, "/", "Name: "+name).WithContext(ctx))
	return response, time.Since(began)
}

// eventOf returns the event of the latest request of a name.
func (d *desked) eventOf(name string) guard.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen[name]
}

// begin sends a request, and returns when it waits for something.
func (d *desked) begin(name string) {
	d.group.Go(func() { d.ask(d.t.Context(), name) })
	synctest.Wait()
}

// end waits for all requests, and wants them to have left nothing but the charge of a rate.
func (d *desked) end(charged int, served ...string) {
	d.t.Helper()
	d.group.Wait()
	synctest.Wait()
	if !slices.Equal(d.served, served) {
		d.t.Errorf("served %q, want %q", d.served, served)
	}
	if places, units := taken(d.t, d.limiter, desk(1)), taken(d.t, d.limiter, hundred()); places != 0 || units != charged {
		d.t.Errorf("%d places and %d units are taken, want none and %d", places, units, charged)
	}
	d.limiter.Close()
}

func waitingFor(d time.Duration) guard.Policy {
	policy := deskPolicy(1)
	policy.Queue.MaxWait = d
	return policy
}

func ofHundred() guard.Policy { return guard.Policy{Limit: hundred(), By: keyfuncs.Global} }

func testPlacesInOrder(t *testing.T, s *suite) {
	bubbletest.Run(t, func(t *testing.T) {
		d := s.desked(t, guard.Options{}, waitingFor(time.Minute), ofHundred())
		for _, name := range []string{"a", "b", "c", "d"} {
			d.begin(name)
		}
		d.end(4, "a 0s", "b 1s", "c 2s", "d 3s")
		if e := d.eventOf("d"); e.Held != 3*time.Second || e.Elapsed != 0 || e.Status != 0 {
			t.Errorf("held for %v, in a call of %v", e.Held, e.Elapsed)
		}
	})
}

func testMaxWait(t *testing.T, s *suite) {
	bubbletest.Run(t, func(t *testing.T) {
		d := s.desked(t, guard.Options{}, waitingFor(300*time.Millisecond), ofHundred())
		d.begin("a")
		for _, name := range []string{"first", "behind it"} {
			d.group.Go(func() {
				response, elapsed := d.ask(t.Context(), name)
				if response.StatusCode != http.StatusTooManyRequests || elapsed != 300*time.Millisecond || response.Header.Get("Retry-After") == "" {
					t.Errorf("%s: answered after %v: %v", name, elapsed, response)
				}
				e := d.eventOf(name)
				if e.Held != 300*time.Millisecond || e.Elapsed != 0 || len(e.Outcomes) != 2 || e.Outcomes[0].Decision.Allowed || !e.Outcomes[1].Decision.Allowed {
					t.Errorf("%s: observed %+v", name, e)
				}
			})
			synctest.Wait()
		}
		d.end(1, "a 0s")
	})
}

func testRateIsNotWaitedFor(t *testing.T, s *suite) {
	bubbletest.Run(t, func(t *testing.T) {
		name := func(r *http.Request) (string, error) { return r.Header.Get("Name"), nil }
		d := s.desked(t, guard.Options{}, waitingFor(time.Minute), guard.Policy{Limit: one(), By: name})
		denied := func(when string) {
			t.Helper()
			response, elapsed := d.ask(t.Context(), "a")
			if response.StatusCode != http.StatusTooManyRequests || elapsed != 0 || response.Header.Get("Retry-After") != "60" {
				t.Errorf("%s: answered after %v: %v", when, elapsed, response)
			}
		}
		d.begin("a")
		denied("nobody waits")
		d.begin("b")
		denied("another one waits")
		d.end(0, "a 0s", "b 1s")
	})
}

func testRateIsChargedWithThePlace(t *testing.T, s *suite) {
	bubbletest.Run(t, func(t *testing.T) {
		shadow := guard.Policy{Limit: hundred(), By: keyfuncs.Global, Shadow: true}
		d := s.desked(t, guard.Options{}, waitingFor(time.Minute), ofHundred(), shadow)
		d.begin("a")
		d.begin("b")
		time.Sleep(500 * time.Millisecond)
		if n := taken(t, d.limiter, hundred()); n != 1 {
			t.Errorf("%d units were charged while one request waits", n)
		}
		d.end(2, "a 0s", "b 1s")
		if o := d.eventOf("b").Outcomes[2]; !o.Shadow || o.Decision.Remaining != 98 {
			t.Errorf("the shadow was charged for every try: %+v", o)
		}
	})
}

func testGoneWhileWaiting(t *testing.T, s *suite) {
	bubbletest.Run(t, func(t *testing.T) {
		d := s.desked(t, guard.Options{}, waitingFor(time.Minute), ofHundred())
		d.begin("a")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(300*time.Millisecond, func() { cancel(errGone) })
		response, elapsed := d.ask(ctx, "gone")
		if e := d.eventOf("gone"); response.StatusCode != 499 || elapsed != 300*time.Millisecond || !errors.Is(e.Err, errGone) || len(e.Unanswered) != 0 {
			t.Errorf("answered %d after %v, observed %+v", response.StatusCode, elapsed, e)
		}
		d.begin("b")
		d.end(2, "a 0s", "b 1s")
	})
}

func testGoneInQueueWithPlace(t *testing.T, s *suite) {
	bubbletest.Run(t, func(t *testing.T) {
		queue := guard.Policy{Limit: core.Shaping(10, core.PerMinute(1)), By: keyfuncs.Global}
		policy := deskPolicy(1)
		d := s.desked(t, guard.Options{}, policy, queue)
		d.begin("a")
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errGone) })
		if response, _ := d.ask(ctx, "gone"); response.StatusCode != 499 {
			t.Errorf("answered %d", response.StatusCode)
		}
		d.end(0, "a 0s")
	})
}

func testTooLateForPlace(t *testing.T, s *suite) {
	bubbletest.Run(t, func(t *testing.T) {
		d := s.desked(t, guard.Options{}, waitingFor(time.Minute), ofHundred())
		d.begin("a")
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		response, elapsed := d.ask(ctx, "late")
		e := d.eventOf("late")
		if response.StatusCode != http.StatusServiceUnavailable || elapsed != 300*time.Millisecond || !errors.Is(e.Err, context.DeadlineExceeded) {
			t.Errorf("answered %d after %v, observed %+v", response.StatusCode, elapsed, e)
		}
		d.end(1, "a 0s")
	})
}

func testDrainingPlaces(t *testing.T, s *suite) {
	bubbletest.Run(t, func(t *testing.T) {
		draining, drain := context.WithCancel(t.Context())
		d := s.desked(t, guard.Options{Draining: draining}, waitingFor(time.Minute), ofHundred())
		d.begin("a")
		time.AfterFunc(300*time.Millisecond, drain)
		for _, want := range []time.Duration{300 * time.Millisecond, 0} { // while it waits, and when it would have to
			response, elapsed := d.ask(t.Context(), "late")
			e := d.eventOf("late")
			if response.StatusCode != http.StatusServiceUnavailable || elapsed != want || !errors.Is(e.Err, guard.ErrDraining) || e.Degraded() {
				t.Errorf("answered %d after %v, observed %+v", response.StatusCode, elapsed, e)
			}
		}
		time.Sleep(700 * time.Millisecond)
		synctest.Wait()
		d.begin("b") // which has a place
		d.end(2, "a 0s", "b 1s")
	})
}

func testShortestMaxWait(t *testing.T, s *suite) {
	bubbletest.Run(t, func(t *testing.T) {
		short := guard.Policy{Limit: core.Concurrent(5, time.Minute).Named("other"), By: keyfuncs.Global, Queue: guard.QueuePolicy{MaxWait: 200 * time.Millisecond}}
		d := s.desked(t, guard.Options{}, waitingFor(time.Minute), short)
		d.begin("a")
		if response, elapsed := d.ask(t.Context(), "b"); response.StatusCode != http.StatusTooManyRequests || elapsed != 200*time.Millisecond {
			t.Errorf("answered %d after %v", response.StatusCode, elapsed)
		}
		d.end(0, "a 0s")
	})
}

func testPlaceHeaders(t *testing.T, s *suite) {
	f := s.fixture(t)
	own := guard.Policy{Limit: core.Concurrent(7, time.Minute).Named("own"), Unit: "exports"}
	expect(t, "an admitted request", get(f.around(f.limited(deskPolicy(3), own, guard.Policy{Limit: ten()}))), `
200
Content-Type: text/plain; charset=utf-8
Ratelimit: "desk";r=2, "own";r=6, "leaky:10:1/s";r=9;t=9
Ratelimit-Policy: "desk";q=3;qu="concurrent-requests", "own";q=7;qu="exports", "leaky:10:1/s";q=1;w=1;weir-burst=10

served
`)
}

// full is a site with all places taken, for as long as the test runs.
func (f *fixture) full(options guard.Options) http.Handler {
	f.t.Helper()
	permit, err := f.limiter.Acquire(f.t.Context(), globalKey, desk(1))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(permit.Release)
	return f.around(f.new(f.limiter, options, deskPolicy(1)))
}

func testPlaceDenied(t *testing.T, s *suite) {
	f := s.fixture(t)
	expect(t, "a denied request", get(f.full(f.options())), `
429
Cache-Control: no-store
Content-Type: application/problem+json
Ratelimit: "desk";r=0
Ratelimit-Policy: "desk";q=1;qu="concurrent-requests"
Retry-After: 30

`+quotaExceeded+`["desk"]}
`)
	if e := f.event(); !e.Outcomes[0].Decision.Estimated || e.Outcomes[0].Unit != "concurrent-requests" {
		t.Errorf("observed %+v", e)
	}
}

func testPlaceDeniedByHook(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.full(guard.Options{Denied: func(w http.ResponseWriter, r *http.Request, denial *guard.Denial) {
		if slices.Contains(denial.ViolatedPolicies, "desk") {
			denial.Status = http.StatusServiceUnavailable
		}
		denial.ServeHTTP(w, r)
	}})
	expect(t, "a denied request", get(h), `
503
Cache-Control: no-store
Content-Type: application/problem+json
Ratelimit: "desk";r=0
Ratelimit-Policy: "desk";q=1;qu="concurrent-requests"
Retry-After: 30

{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":503}
`)
}

func testMaxWaitOfNonsense(t *testing.T, s *suite) {
	for want, policy := range map[string]guard.Policy{
		"ratelimit: policy 0: a Queue.MaxWait of -1s is negative":                                                                          waitingFor(-time.Second),
		"ratelimit: policy 0: Queue.MaxWait is 1s, but leaky 10, 1/s has no places to wait for: use core.Concurrent, or leave MaxWait out": {Limit: ten(), Queue: guard.QueuePolicy{MaxWait: time.Second}},
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panicked with %v, want %q", got, want)
				}
			}()
			s.new(core.New(core.NewMemory()), guard.Options{}, policy)
		}()
	}
}
