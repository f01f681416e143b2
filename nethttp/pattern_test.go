package ratelimit_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// Whoever counts requests by route does so around everything else.
func TestThePatternThatAMuxHasFoundIsKnownOutsideOfTheLimiters(t *testing.T) {
	plain := ratelimit.New(memory(), ratelimit.Options{}, by())
	settled := by()
	settled.Settle.Cost = func(*http.Request, ratelimit.Served) int { return 0 }
	settling := ratelimit.New(memory(), ratelimit.Options{}, settled)
	skipping := by()
	skipping.Skip = func(*http.Request) bool { return true }
	panicking := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for name, h := range map[string]http.Handler{
		"no limiter":                  twoPatterns(fine),
		"a limiter":                   plain(twoPatterns(fine)),
		"a limiter that settles":      settling(twoPatterns(fine)),
		"one that skips the request":  ratelimit.New(memory(), ratelimit.Options{}, skipping)(twoPatterns(fine)),
		"several limiters":            plain(settling(plain(twoPatterns(fine)))),
		"a handler that panics":       plain(twoPatterns(panicking)),
		"and is settled":              settling(plain(twoPatterns(panicking))),
		"something between that adds": plain(hiding(twoPatterns(fine))),
	} {
		r := httptest.NewRequest(http.MethodGet, "/items/7", nil)
		func() {
			defer func() { _ = recover() }()
			h.ServeHTTP(httptest.NewRecorder(), r)
		}()
		if r.Pattern != "GET /items/{id}" {
			t.Errorf("%s: the pattern is %q outside, want GET /items/{id}", name, r.Pattern)
		}
	}
}

func TestAPatternThatWasToldMeanwhileIsKept(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/items/7", nil)
	h := ratelimit.New(memory(), ratelimit.Options{}, by())(http.HandlerFunc(func(w http.ResponseWriter, inner *http.Request) {
		r.Pattern = "/told/{id}"
		twoPatterns(fine).ServeHTTP(w, inner)
	}))
	if h.ServeHTTP(httptest.NewRecorder(), r); r.Pattern != "/told/{id}" {
		t.Errorf("the pattern is %q, want the one that was told", r.Pattern)
	}
}

func TestLimitersAroundLimitersAroundAMuxKnowTheRoute(t *testing.T) {
	for depth := range 4 {
		var keys []string
		options := ratelimit.Options{Observe: func(e ratelimit.Event) {
			if !e.Settled {
				keys = append(keys, e.Outcomes[0].Key)
			}
		}}
		outermost := ratelimit.New(memory(), options, by(keyfuncs.Route))
		values := ratelimit.New(memory(), options, by(keyfuncs.PathValue("id")))
		var h http.Handler = twoPatterns(fine)
		for i := range depth {
			policy := by()
			if i%2 == 0 {
				policy.Settle.Cost = func(*http.Request, ratelimit.Served) int { return 0 }
			}
			h = ratelimit.New(memory(), ratelimit.Options{}, policy)(h)
		}
		visit(outermost(values(h)), "/items/7", "/users/8")
		if want := []string{"route:/items/{id}", "path:id=7", "route:/users/{id}", "path:id=8"}; !slices.Equal(keys, want) {
			t.Errorf("with %d limiters between, the keys are %q, want %q", depth, keys, want)
		}
	}
}

// Whoever asks a limited mux for the handler of a request is not given a way around.
func TestTheHandlerOfALimitedMuxIsLimited(t *testing.T) {
	h := ratelimit.FixedWindow(memory(), 1, time.Hour)(twoPatterns(fine)).(interface {
		Handler(r *http.Request) (http.Handler, string)
	})
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		r := httptest.NewRequest(http.MethodGet, "/items/7", nil)
		found, pattern := h.Handler(r)
		w := httptest.NewRecorder()
		if found.ServeHTTP(w, r); w.Code != want || pattern != "GET /items/{id}" {
			t.Errorf("%q answers %d, want %d", pattern, w.Code, want)
		}
	}
	if _, ok := ratelimit.FixedWindow(memory(), 1, time.Hour)(fine).(interface {
		Handler(r *http.Request) (http.Handler, string)
	}); ok {
		t.Error("a limited handler that is no mux says that it knows patterns")
	}
}
