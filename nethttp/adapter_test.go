package ratelimit_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/weir-go/ratelimit/guard/guardtest"
	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAdapter(t *testing.T) {
	guardtest.Run(t, guardtest.Adapter[ratelimit.Middleware]{
		FromGuard: ratelimit.FromGuard,
		Serve:     serve,
		Constructors: guardtest.Constructors[ratelimit.Middleware]{
			New:           ratelimit.New,
			Leaky:         ratelimit.Leaky,
			Shaping:       ratelimit.Shaping,
			TokenBucket:   ratelimit.TokenBucket,
			GCRA:          ratelimit.GCRA,
			FixedWindow:   ratelimit.FixedWindow,
			SlidingWindow: ratelimit.SlidingWindow,
			SlidingLog:    ratelimit.SlidingLog,
			Calendar:      ratelimit.Calendar,
			Concurrent:    ratelimit.Concurrent,
		},
		User:     keyfuncs.User(func(r *http.Request) any { return r.Context().Value(userKey{}) }),
		CatchAll: "/files/{rest...}",
		Play:     play,
		Redis:    func(t *testing.T) string { return redistest.Start(t).URL() },
		Answered: guardtest.Answered{Sees: func(guardtest.Outside, bool, bool) bool { return false }},
	})
}

func play(scene guardtest.Scene[ratelimit.Middleware]) http.Handler {
	h := wrap(scene.Handler, scene.Limiters)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			reason := recover()
			switch {
			case reason == nil:
			case scene.Outside != guardtest.Recovers || reason == http.ErrAbortHandler: //nolint:errorlint // as net/http does
				panic(reason)
			default:
				http.Error(w, "panicked", http.StatusInternalServerError)
			}
		}()
		h.ServeHTTP(w, r)
	})
}

type userKey struct{}

func serve(site guardtest.Site[ratelimit.Middleware]) http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/{$}", "/items/{id}", "/files/{rest...}"} {
		for _, method := range []string{"GET ", "OPTIONS "} { // GET serves HEAD, too
			mux.Handle(method+path, wrap(site.Handler, site.Inside))
		}
	}
	h := wrap(mux, site.Around)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if site.Before != nil {
			site.Before(w)
		}
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, site.User)))
	})
}

// wrap wraps a handler in limiters, the first of which is the outermost.
func wrap(h http.Handler, limiters []ratelimit.Middleware) http.Handler {
	for _, limiter := range slices.Backward(limiters) {
		h = limiter(h)
	}
	return h
}
