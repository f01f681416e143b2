package guardtest_test //nolint:testableexamples // TestExample runs it

import (
	"net/http"
	"slices"
	"testing"

	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/guard/guardtest"
)

// middleware is what the example's framework, net/http, puts in front of handlers.
type middleware func(http.Handler) http.Handler

// limit is the adapter: it lets a request go on to the next handler if the policies of a Guard allow it.
func limit(g *guard.Guard) middleware {
	if g == nil {
		panic("limit: the Guard is nil")
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			verdict := g.Decide(r, nil)
			verdict.WriteHeader(w.Header())
			if verdict.Denial != nil {
				verdict.Denial.ServeHTTP(w, verdict.Request)
				return
			}
			verdict.Serve(w, func(w http.ResponseWriter, r *http.Request) (unanswered int) {
				next.ServeHTTP(w, r)
				return 0
			})
		})
	}
}

// buildSite builds what a case asks for with the framework's router.
func buildSite(site guardtest.Site[middleware]) http.Handler {
	around := func(h http.Handler, limiters []middleware) http.Handler {
		for _, limiter := range slices.Backward(limiters) { // the first is the outermost
			h = limiter(h)
		}
		return h
	}
	mux := http.NewServeMux()
	for _, path := range []string{"/{$}", "/items/{id}", "/files/{rest...}"} {
		mux.Handle("GET "+path, around(site.Handler, site.Inside))
		mux.Handle("OPTIONS "+path, around(site.Handler, site.Inside))
	}
	h := around(mux, site.Around)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if site.Before != nil {
			site.Before(w)
		}
		h.ServeHTTP(w, r)
	})
}

func ExampleRun() {
	testAdapter := func(t *testing.T) {
		guardtest.Run(t, guardtest.Adapter[middleware]{
			FromGuard: limit,
			Serve:     buildSite,
			Without:   guardtest.RouteAround, // a mux finds the route inside of the limiter
		})
	}
	_ = testAdapter // TestAdapter of your package
}
