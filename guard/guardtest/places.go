package guardtest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var placeCases = []testCase{
	{"no more than n requests are inside, whatever the crowd", testCrowd},
	{"a connection that was taken over keeps its place until it is closed", testTakenOver},
	{"a stream keeps its place until it ends", testStreamKeepsPlace},
	{"http.TimeoutHandler does not free the place of a handler that goes on", testTimeoutHandler},
	{"a denial by a rate takes no place, and a denial by places charges no rate", testPlacesAllOrNothing},
	{"a request that does not go on leaves no place of a shadow behind", testShadowPlaces},
	{"a limiter inside that has the same limit and key takes no second place", testNestedPlaces},
	{"plans mix places, rates and no limit", testPlansOfPlaces},
	{"a request takes as many places as it costs", testCostOfPlaces},
	{"places that are held when the limits change are given back", testSwapPlaces},
	{"a handler knows its place, and may give it back early", testPermitFrom},
	{"the Fallback mode has places of its own", testFallbackPlaces},
	{"what a request has cost and its places are settled in one call", testPlacesSettledTogether},
	{"an observer that panics leaves no place behind", testObserverPanics},
}

// desk is a limit of n at once, with one state for all clients.
func desk(n int) core.Limit { return core.Concurrent(n, 30*time.Second).Named("desk") }

func deskPolicy(n int) guard.Policy { return guard.Policy{Limit: desk(n), By: keyfuncs.Global} }

// taken returns how many places of a limit for all clients are taken.
func taken(t fataler, l *core.Limiter, limit core.Limit) int {
	d, err := l.Peek(context.Background(), globalKey, limit)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return limit.Capacity() - d.Remaining
}

var globalKey, _ = keyfuncs.Global(nil)

// awaitTaken returns when the given number of places is taken.
func awaitTaken(t fataler, l *core.Limiter, limit core.Limit, want int) {
	got := -1
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if got = taken(t, l, limit); got == want {
			return
		}
	}
	t.Fatalf("%d are taken of %s, want %d", got, limit, want)
}

// listen starts a server that logs nothing.
func listen(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

func testCrowd(t *testing.T, s *suite) {
	limiter := core.New(core.NewMemory())
	defer limiter.Close()
	s.crowd(t, 0, limiter)
}

// crowd sends requests to servers that share three places, and wants no more than three of them inside. If they may
// wait, none is denied.
func (s *suite) crowd(t *testing.T, maxWait time.Duration, limiters ...*core.Limiter) {
	var inside, most atomic.Int64
	handler := func(http.ResponseWriter, *http.Request) {
		now := inside.Add(1)
		for {
			if before := most.Load(); before >= now || most.CompareAndSwap(before, now) {
				break
			}
		}
		time.Sleep(time.Millisecond)
		inside.Add(-1)
	}
	limit := core.Concurrent(3, 30*time.Second)
	var servers []*httptest.Server
	for _, limiter := range limiters {
		places := s.places(limiter, 3, 30*time.Second, keyfuncs.Global)
		if maxWait > 0 {
			places = s.new(limiter, guard.Options{}, guard.Policy{Limit: limit, By: keyfuncs.Global, Queue: guard.QueuePolicy{MaxWait: maxWait}})
		}
		servers = append(servers, listen(t, s.serve(site{around: []middleware{places}, handler: handler})))
	}
	var served, denied atomic.Int64
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			for i := range 10 {
				response, err := http.Get(servers[i%len(servers)].URL + "/")
				if err != nil {
					t.Error(err)
					return
				}
				response.Body.Close()
				switch response.StatusCode {
				case http.StatusOK:
					served.Add(1)
				case http.StatusTooManyRequests:
					denied.Add(1)
				default:
					t.Errorf("answered %d", response.StatusCode)
				}
			}
		})
	}
	group.Wait()
	if most.Load() > 3 || served.Load() < 3 || served.Load()+denied.Load() != 200 || maxWait > 0 && denied.Load() > 0 {
		t.Errorf("%d at once, %d served and %d denied", most.Load(), served.Load(), denied.Load())
	}
	awaitTaken(t, limiters[0], limit, 0)
}

func testPlacesAllOrNothing(t *testing.T, s *suite) {
	f := s.fixture(t)
	rate := core.FixedWindow(2, time.Minute).Named("rate")
	h := f.around(f.limited(deskPolicy(2), guard.Policy{Limit: rate, By: keyfuncs.Global}))
	for range 2 {
		get(h)
	}
	awaitTaken(t, f.limiter, desk(2), 0)
	if answered := answer(h, ask(http.MethodGet, "/")); answered.StatusCode != http.StatusTooManyRequests || answered.Header.Get("Retry-After") != "60" {
		t.Errorf("the third: %v", answered)
	}
	if n := taken(t, f.limiter, desk(2)); n != 0 {
		t.Errorf("%d places are taken by a request that a rate has denied", n)
	}
	if err := f.limiter.Reset(t.Context(), globalKey, rate); err != nil {
		t.Fatal(err)
	}
	permit, err := f.limiter.Acquire(t.Context(), globalKey, desk(2))
	if err != nil {
		t.Fatal(err)
	}
	defer permit.Release()
	other, err := f.limiter.Acquire(t.Context(), globalKey, desk(2))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Release()
	if answered := answer(h, ask(http.MethodGet, "/")); answered.StatusCode != http.StatusTooManyRequests {
		t.Errorf("without a place: %v", answered)
	}
	if n := taken(t, f.limiter, rate); n != 0 {
		t.Errorf("the rate was charged %d for a request without a place", n)
	}
	f.expectRan(2)
}

func testShadowPlaces(t *testing.T, s *suite) {
	releases := newReleases()
	limiter := core.New(releases)
	defer limiter.Close()
	shadow := deskPolicy(5)
	shadow.Shadow = true
	h := s.serve(site{
		around: []middleware{s.new(limiter, guard.Options{}, guard.Policy{Limit: one(), By: keyfuncs.Global}, shadow)},
		handler: func(_ http.ResponseWriter, r *http.Request) {
			if guard.PermitFrom(r.Context()) != nil {
				t.Error("a shadow's place is the handler's")
			}
		},
	})
	for range 3 { // two of them are denied
		get(h)
	}
	releases.await(t, 3)
}

func testNestedPlaces(t *testing.T, s *suite) {
	limiter := core.New(core.NewMemory())
	defer limiter.Close()
	dear := deskPolicy(2)
	dear.Cost = func(*http.Request) int { return 2 }
	h := s.serve(site{
		around: []middleware{s.new(limiter, guard.Options{}, deskPolicy(2))},
		inside: []middleware{s.new(limiter, guard.Options{}, dear)},
		handler: func(_ http.ResponseWriter, r *http.Request) {
			if n := taken(t, limiter, desk(2)); n != 1 || guard.PermitFrom(r.Context()) == nil {
				t.Errorf("%d places are taken inside two limiters", n)
			}
		},
	})
	for range 5 {
		if answered := answer(h, ask(http.MethodGet, "/")); answered.StatusCode != http.StatusOK {
			t.Errorf("answered %d", answered.StatusCode)
		}
		awaitTaken(t, limiter, desk(2), 0)
	}
}

func testPlansOfPlaces(t *testing.T, s *suite) {
	f := s.fixture(t)
	plan := guard.Policy{By: keyfuncs.Global, Queue: guard.QueuePolicy{MaxWait: time.Hour}, LimitFor: func(r *http.Request) core.Limit {
		return map[string]core.Limit{"places": desk(1), "rate": one(), "": core.Unlimited}[r.Header.Get("Plan")]
	}}
	h := f.around(f.limited(plan))
	for _, c := range []struct {
		plan string
		want int
	}{{"places", 200}, {"places", 200}, {"rate", 200}, {"rate", 429}, {"", 200}} {
		if got := answer(h, ask(http.MethodGet, "/", "Plan: "+c.plan)).StatusCode; got != c.want {
			t.Errorf("plan %q: answered %d, want %d", c.plan, got, c.want)
		}
		awaitTaken(t, f.limiter, desk(1), 0)
	}
	f.expectRan(4)
}

func testCostOfPlaces(t *testing.T, s *suite) {
	limiter := core.New(core.NewMemory())
	defer limiter.Close()
	policy := deskPolicy(3)
	policy.Cost = func(r *http.Request) int { return len(r.Header["Place"]) }
	want := 0
	h := s.serve(site{
		around: []middleware{s.new(limiter, guard.Options{}, policy)},
		handler: func(_ http.ResponseWriter, r *http.Request) {
			if n := taken(t, limiter, desk(3)); n != want || (guard.PermitFrom(r.Context()) != nil) != (want > 0) {
				t.Errorf("%d places are taken, want %d", n, want)
			}
		},
	})
	var lines []string
	for range 4 {
		if got := answer(h, ask(http.MethodGet, "/", lines...)).StatusCode; got != http.StatusOK {
			t.Errorf("%d places: answered %d", want, got)
		}
		awaitTaken(t, limiter, desk(3), 0)
		lines = append(lines, "Place: 1")
		want++
	}
	answered := answer(h, ask(http.MethodGet, "/", lines...))
	if answered.StatusCode != http.StatusTooManyRequests || answered.Header.Get("Retry-After") != "" {
		t.Errorf("more places than there are: %v", answered)
	}
}

func testSwapPlaces(t *testing.T, s *suite) {
	f := s.fixture(t)
	handle := f.handleOf(deskPolicy(1))
	entered, proceed := make(chan struct{}), make(chan struct{})
	h := f.serve(site{around: []middleware{s.use(handle)}, handler: func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Stay") != "" {
			close(entered)
			<-proceed
		}
	}})
	done := make(chan struct{})
	go func() {
		answer(h, ask(http.MethodGet, "/", "Stay: yes"))
		close(done)
	}()
	<-entered
	if err := handle.Swap(f.limiter, guard.Options{}, deskPolicy(2)); err != nil {
		t.Fatal(err)
	}
	if got := answer(h, ask(http.MethodGet, "/")).StatusCode; got != http.StatusOK {
		t.Errorf("with another place: answered %d", got)
	}
	awaitTaken(t, f.limiter, desk(2), 1) // that of the first one
	close(proceed)
	<-done
	awaitTaken(t, f.limiter, desk(2), 0)
}

func testFallbackPlaces(t *testing.T, s *suite) {
	f := s.fixture(t)
	f.limiter = core.New(f.store)
	defer f.limiter.Close()
	options := f.options()
	options.OnError, options.Replicas = guard.Fallback, 2
	policy := deskPolicy(4)
	policy.Queue.MaxWait = time.Hour // no request waits in the Fallback mode
	entered, proceed := make(chan *core.Permit), make(chan struct{})
	h := f.serve(site{around: []middleware{s.new(f.limiter, options, policy)}, handler: func(_ http.ResponseWriter, r *http.Request) {
		entered <- guard.PermitFrom(r.Context())
		<-proceed
	}})
	var group sync.WaitGroup
	enter := func() *core.Permit {
		group.Go(func() { answer(h, ask(http.MethodGet, "/")) })
		return <-entered
	}
	enter() // in the store
	f.store.failure = errors.New("the store is down")
	for range 2 { // this process's share
		if permit := enter(); permit == nil || permit.Err() != nil || permit.Token() == 0 {
			t.Errorf("a local place: %v", permit)
		}
	}
	answered := answer(h, ask(http.MethodGet, "/"))
	if answered.StatusCode != http.StatusTooManyRequests || answered.Header.Get("Retry-After") == "" || answered.Header.Get("RateLimit") != "" {
		t.Errorf("more than the share: %v", answered)
	}
	for range 3 {
		proceed <- struct{}{}
	}
	group.Wait()
	for range 2 { // they are free again, once they were given back in the background
		deadline := time.Now().Add(30 * time.Second)
		for done := false; !done && time.Now().Before(deadline); {
			group.Go(func() {
				if answer(h, ask(http.MethodGet, "/")).StatusCode == http.StatusTooManyRequests {
					entered <- nil
				}
			})
			done = <-entered != nil
		}
	}
	f.store.failure = nil
	awaitTaken(t, f.limiter, desk(4), 0) // that of the store was given back there
	proceed <- struct{}{}
	proceed <- struct{}{}
	group.Wait()
}

func testPlacesSettledTogether(t *testing.T, s *suite) {
	f := s.fixture(t)
	calls := &settleCalls{Store: core.NewMemory()}
	f.limiter = core.New(calls)
	h := f.around(f.limited(deskPolicy(1), guard.Policy{Limit: hundred(), By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: func(*http.Request, guard.Served) int { return 3 }}}))
	get(h)
	if taken(t, f.limiter, desk(1)) != 0 || taken(t, f.limiter, hundred()) != 3 || calls.calls.Load() != 1 {
		t.Errorf("%d places, %d units, settled in %d calls", taken(t, f.limiter, desk(1)), taken(t, f.limiter, hundred()), calls.calls.Load())
	}
	f.limiter.Close()
	if n := calls.calls.Load(); n != 1 {
		t.Errorf("settled in %d calls", n)
	}
}

type settleCalls struct {
	core.Store

	calls atomic.Int64
}

func (s *settleCalls) Settle(ctx context.Context, list []core.Settlement) error {
	s.calls.Add(1)
	return s.Store.Settle(ctx, list)
}

func testObserverPanics(t *testing.T, s *suite) {
	s.needScenes(t)
	limiter := core.New(core.NewMemory())
	defer limiter.Close()
	server := listen(t, s.play(scene{
		limiters: []middleware{s.new(limiter, guard.Options{Observe: func(guard.Event) { panic("on purpose") }}, deskPolicy(1))},
		handler:  write,
	}))
	if response, err := http.Get(server.URL + "/"); err == nil {
		response.Body.Close()
	}
	awaitTaken(t, limiter, desk(1), 0)
}
