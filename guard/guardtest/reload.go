package guardtest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/policies"
)

var reloadCases = []testCase{
	{"the rules of a path hold for the handler that the router runs, also where the path has dots", testPathWithDots},
	{"rules that change under load: each request is settled once, by the rules that decided it", func(t *testing.T, s *suite) {
		testReload(t, s, core.New(core.NewMemory()))
	}},
	{"Redis: rules that change under load: each request is settled once, by the rules that decided it", func(t *testing.T, s *suite) {
		limiter := core.New(core.NewRedis(redisClient(t, s.startRedis(t)), core.WithBudget(30*time.Second)))
		defer limiter.Close()
		testReload(t, s, limiter)
	}},
}

// testPathWithDots limits the paths below /files/, which a path with dots must not lead around.
func testPathWithDots(t *testing.T, s *suite) {
	d, err := policies.Parse([]byte("policies: [{match: /files/, limit: 'leaky 1, 1/h', key: global}]"))
	if err != nil {
		t.Fatal(err)
	}
	set, err := d.Set(policies.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := s.fixture(t)
	h := f.around(f.use(guard.Must(guard.Follow(f.limiter, guard.Options{}, set))))
	expectStatus(t, "the first", h, ask(http.MethodGet, "/files/a"), http.StatusOK)
	for _, path := range []string{"/files/../x", "/files/a/../../x", "/files/%2e%2e/x", "/files//../x"} {
		f.ran = 0
		w := httptest.NewRecorder()
		h.ServeHTTP(w, ask(http.MethodGet, path))
		if f.ran > 0 {
			t.Errorf("%s: the handler ran, although the limit is used up: status %d", path, w.Code)
		}
	}
}

// reloaded are rules that a test replaces.
type reloaded struct {
	rules   guard.Rules
	prepare func(guard.Rules) (func(), error)
}

func (s *reloaded) Follow(prepare func(guard.Rules) (func(), error)) error {
	s.prepare = prepare
	return s.replace(s.rules)
}

func (s *reloaded) replace(rules guard.Rules) error {
	use, err := s.prepare(rules)
	if err == nil {
		use()
	}
	return err
}

// units is a limit that denies no request. Its capacity tells the rules that it is from.
func units(rules int) core.Limit { return core.SlidingLog(1000+rules, time.Hour).Named("units") }

// reload returns rules, of which every third has no places. A request that succeeds costs their number.
func reload(n int) guard.Rules {
	policies := []guard.Policy{{
		Limit: units(n), By: keyfuncs.Global, Cost: func(*http.Request) int { return 5 },
		Settle: guard.SettlePolicy{Cost: func(_ *http.Request, served guard.Served) int {
			if served.Status >= http.StatusInternalServerError {
				return 0
			}
			return n
		}},
	}}
	if n%3 != 0 {
		p := deskPolicy(2 + n%2)
		p.Queue.MaxWait = time.Minute
		policies = append(policies, p)
	}
	return guard.Rules{Policies: [][]guard.Policy{policies}}
}

// testReload replaces rules while requests wait for places, hold them, stream, and have a cost that is not settled.
func testReload(t *testing.T, s *suite, limiter *core.Limiter) {
	var mu sync.Mutex
	events := make(map[string][]guard.Event)
	set := &reloaded{rules: reload(1)}
	handle := guard.Must(guard.Follow(limiter, guard.Options{Observe: func(e guard.Event) {
		mu.Lock()
		defer mu.Unlock()
		id := e.Request.Header.Get("Id")
		events[id] = append(events[id], e)
	}}, set))
	h := s.serve(site{around: []middleware{s.use(handle)}, handler: func(w http.ResponseWriter, r *http.Request) {
		if id, _ := strconv.Atoi(r.Header.Get("Id")); id%4 == 0 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		for range 3 {
			_, _ = fmt.Fprintln(w, "a line")
			_ = http.NewResponseController(w).Flush()
		}
	}})
	const workers, each = 8, 12
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := range each {
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.Header.Set("Id", strconv.Itoa(worker*each+i))
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
	served := make(chan struct{})
	go func() {
		wg.Wait()
		close(served)
	}()
	last := 1
	for n := 1; ; n++ {
		select {
		case <-served:
		default:
			last = 1 + n%5
			if err := set.replace(reload(last)); err != nil {
				t.Error(err)
			}
			continue
		}
		break
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		mu.Lock()
		told := 0
		for _, of := range events {
			told += len(of)
		}
		mu.Unlock()
		if told >= 2*workers*each {
			break
		}
	}
	mu.Lock()
	defer mu.Unlock()
	spent := 0
	for id := range workers * each {
		spent += settledOnce(t, events[strconv.Itoa(id)], id%4 == 0)
	}
	awaitTaken(t, limiter, units(last), spent)
	awaitTaken(t, limiter, desk(2), 0)
}

// settledOnce returns the cost of a request that was admitted and settled once each, by the same rules.
func settledOnce(t *testing.T, events []guard.Event, failed bool) int {
	t.Helper()
	if len(events) != 2 || events[0].Status != 0 || events[0].Settled || !events[1].Settled || events[1].Err != nil {
		t.Errorf("the events of a request are %+v, want an admission and a settlement", events)
		return 0
	}
	rules := events[0].Outcomes[0].Decision.Limit.Capacity() - units(0).Capacity()
	want := rules
	if failed {
		want = 0
	}
	if settled := events[1].Outcomes[0]; settled.Decision.Limit != units(rules) || settled.Cost != want {
		t.Errorf("rules %d: settled as %s at %d, want %d", rules, settled.Decision.Limit, settled.Cost, want)
	}
	return want
}
