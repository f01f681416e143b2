package guardtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var ownCases = []testCase{
	{"each request that a handler serves as its own is charged", testOwnRequests},
	{"a batch gets no more than its share", testBatchOfOwnRequests},
	{"one request is charged once, however middleware copies it", testCopiesOnTheWay},
	{"what a request of its own spends is counted once", testOwnSpending},
	{"a request of its own is told of its own limits alone, and settled by itself", testOwnOutcomes},
}

// making is a way to make a request inside of a handler.
type making struct {
	name string
	make func(r *http.Request, path string) *http.Request
	free int // how many of a batch are not charged
}

func fresh(ctx context.Context, path string) *http.Request {
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	r.RemoteAddr = "203.0.113.9:1"
	return r
}

var makings = []making{
	{"NewRequest", func(r *http.Request, path string) *http.Request { return fresh(r.Context(), path) }, 0},
	{"NewRequest with the header", func(r *http.Request, path string) *http.Request {
		own := fresh(r.Context(), path)
		own.Header = r.Header
		return own
	}, 0},
	{"httptest", func(r *http.Request, path string) *http.Request {
		return httptest.NewRequestWithContext(r.Context(), http.MethodGet, path, nil)
	}, 0},
	{"AsOwn", func(r *http.Request, path string) *http.Request { return fresh(guard.AsOwn(r.Context()), path) }, 0},
	{"a copy as own", func(r *http.Request, path string) *http.Request {
		own := r.WithContext(guard.AsOwn(r.Context()))
		own.URL = &url.URL{Path: path}
		return own
	}, 0},
	{"a copy", func(r *http.Request, path string) *http.Request {
		own := r.WithContext(r.Context())
		own.URL = &url.URL{Path: path}
		return own
	}, 1},
	{"a clone", func(r *http.Request, path string) *http.Request {
		own := r.Clone(r.Context())
		own.URL.Path = path
		return own
	}, 1},
	{"the request itself", func(r *http.Request, path string) *http.Request {
		r.URL.Path = path
		return r
	}, 1},
}

// batch is a handler that serves requests of its own through the handler of all.
func (f *fixture) batch(size int, all *http.Handler, own making, statuses map[int]int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			f.handle(w, r)
			return
		}
		copied := r.WithContext(r.Context())
		copied.URL = &url.URL{Path: "/"}
		for range size {
			recorder := httptest.NewRecorder()
			(*all).ServeHTTP(recorder, own.make(copied, "/items/7"))
			statuses[recorder.Code]++
		}
	}
}

func testOwnRequests(t *testing.T, s *suite) {
	s.need(t, NetHTTP)
	for _, own := range makings {
		for name, limits := range map[string]struct{ around, inside int }{"around": {1, 0}, "inside": {0, 1}, "both": {1, 1}, "twice around": {2, 0}, "everywhere": {2, 2}} {
			f := s.fixture(t)
			of := site{}
			for range limits.around {
				of.around = append(of.around, f.limited(guard.Policy{Limit: hundred(), By: keyfuncs.Global}))
			}
			for range limits.inside {
				of.inside = append(of.inside, f.limited(guard.Policy{Limit: hundred(), By: keyfuncs.Global}))
			}
			var h http.Handler
			statuses := make(map[int]int)
			of.handler = f.batch(10, &h, own, statuses)
			h = f.serve(of)
			answer(h, ask(http.MethodGet, "/"))
			f.expectUsed(hundred(), 11-own.free)
			if t.Failed() || statuses[http.StatusOK] != 10 {
				t.Fatalf("%s, with limiters %s: answered with %v", own.name, name, statuses)
			}
		}
	}
}

func testBatchOfOwnRequests(t *testing.T, s *suite) {
	s.need(t, NetHTTP)
	for _, own := range makings {
		f := s.fixture(t)
		three := core.FixedWindow(3, time.Hour).Named("three")
		var h http.Handler
		statuses := make(map[int]int)
		h = f.serve(site{around: []middleware{f.limited(guard.Policy{Limit: three, By: keyfuncs.Global})}, handler: f.batch(50, &h, own, statuses)})
		answer(h, ask(http.MethodGet, "/"))
		if statuses[http.StatusOK] != 2+own.free || statuses[http.StatusTooManyRequests] != 48-own.free {
			t.Errorf("%s: a batch of 50 at three an hour is answered with %v", own.name, statuses)
		}
	}

	f := s.fixture(t)
	var h http.Handler
	f.limiter = core.New(core.NewMemory()) // for many goroutines
	h = f.serve(site{around: []middleware{s.new(f.limiter, guard.Options{}, guard.Policy{Limit: hundred(), By: keyfuncs.Global})}, handler: func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			return
		}
		var all sync.WaitGroup
		for range 20 {
			own := r.Clone(r.Context())
			own.URL.Path = "/items/7"
			all.Go(func() { h.ServeHTTP(httptest.NewRecorder(), own) })
		}
		all.Wait()
	}})
	answer(h, ask(http.MethodGet, "/"))
	f.expectUsed(hundred(), 20) // all but one of them, and the batch itself
}

// stripped serves a request as http.StripPrefix does: without a part of its path.
func stripped(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own := new(http.Request)
		*own = *r
		own.URL = new(url.URL)
		*own.URL = *r.URL
		own.URL.Path = "/items/" + strings.TrimPrefix(r.URL.Path, "/items/")
		next.ServeHTTP(w, own)
	})
}

// anyKey is a key of a context that no package knows.
type anyKey struct{}

func testCopiesOnTheWay(t *testing.T, s *suite) {
	s.need(t, NetHTTP)
	for name, copies := range map[string]func(http.Handler) http.Handler{
		"none": func(h http.Handler) http.Handler { return h },
		"WithContext": func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), anyKey{}, 1)))
			})
		},
		"Clone": func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r.Clone(r.Context())) })
		},
		"StripPrefix": stripped,
		"a limited body": func(h http.Handler) http.Handler {
			return http.MaxBytesHandler(h, 1000)
		},
		"a time limit": func(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Minute, "") },
		"all of them": func(h http.Handler) http.Handler {
			return http.MaxBytesHandler(stripped(http.TimeoutHandler(h, time.Minute, "")), 1000)
		},
		"a clone with another path and body": func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				own := r.Clone(r.Context())
				own.URL.Path, own.Body = "/items/8", io.NopCloser(strings.NewReader("y"))
				h.ServeHTTP(w, own)
			})
		},
	} {
		for _, body := range []io.Reader{nil, strings.NewReader("x")} {
			for _, target := range []string{"/items/7", ""} {
				f := s.fixture(t)
				policy := guard.Policy{Limit: hundred(), By: keyfuncs.Global}
				inner := f.serve(site{around: []middleware{f.limited(policy), f.limited(policy)}, inside: []middleware{f.limited(policy)}, handler: f.handle})
				outer := f.serve(site{around: []middleware{f.limited(policy)}, handler: copies(inner).ServeHTTP})
				r := httptest.NewRequest(http.MethodGet, "/items/7", body)
				r.RequestURI = target // some servers, such as those of functions in a cloud, set none
				if target == "" && (name == "a clone with another path and body" || name == "StripPrefix" && body == nil) {
					continue
				}
				if got := answer(outer, r).StatusCode; got != http.StatusOK {
					t.Errorf("%s: answered with %d", name, got)
				}
				f.expectUsed(hundred(), 1)
				f.expectAsked(1)
				if t.Failed() {
					t.Fatalf("%s, %v, %q", name, body, target)
				}
			}
		}
	}
}

func testOwnSpending(t *testing.T, s *suite) {
	for _, own := range makings[:5] {
		f := s.fixture(t)
		var h http.Handler
		handler := func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				f.batch(3, &h, own, make(map[int]int))(w, r)
				return
			}
			guard.Spend(r.Context(), 5)
		}
		h = f.serve(site{around: []middleware{f.limited(spentOf(hundred(), 1))}, handler: handler})
		answer(h, ask(http.MethodGet, "/"))
		f.expectUsed(hundred(), 15)
		if own.name == "AsOwn" || own.name == "a copy as own" {
			continue
		}
		f = s.fixture(t)
		h = f.serve(site{inside: []middleware{f.limited(guard.Policy{Limit: ten()})}, handler: handler})
		outer := f.limited(spentOf(hundred(), 1))
		answer(f.serve(site{around: []middleware{outer}, handler: h.ServeHTTP}), ask(http.MethodGet, "/"))
		f.expectUsed(hundred(), 15)
		if t.Failed() {
			t.Fatal(own.name)
		}
	}
}

func testOwnOutcomes(t *testing.T, s *suite) {
	for _, own := range makings[:5] {
		f := s.fixture(t)
		var h http.Handler
		var told []string
		h = f.serve(site{
			around: []middleware{f.limited(spentOf(hundred(), 9)), f.limited(guard.Policy{Limit: ten(), By: keyfuncs.Global})},
			handler: func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/" {
					recorder := httptest.NewRecorder()
					h.ServeHTTP(recorder, own.make(r, "/items/7"))
					told = append(told, recorder.Header().Get("RateLimit-Policy"), strconv.Itoa(len(guard.OutcomesFrom(r.Context()))))
					f.expectUsed(hundred(), 9+2)
					return
				}
				guard.Spend(r.Context(), 2)
				told = append(told, strconv.Itoa(len(guard.OutcomesFrom(r.Context()))), strconv.Itoa(len(guard.Settle(r.Context()))))
			},
		})
		answer(h, ask(http.MethodGet, "/"))
		want := `[2 1 "hundred";q=100;w=3600, "leaky:10:1/s";q=1;w=1;weir-burst=10 2]`
		if got := fmt.Sprint(told); got != want {
			t.Errorf("%s: %s, want %s", own.name, got, want)
		}
	}
}
