package guard_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
)

// framework is a handler of a framework whose handlers return the status of an error, for
// the framework to answer, or 0.
type framework func(w http.ResponseWriter, r *http.Request) (failed int)

func (f framework) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if failed := f(w, r); failed != 0 {
		http.Error(w, http.StatusText(failed), failed)
	}
}

// An adapter for a framework asks the Guard, and puts the answer into the
// framework's words. The writer stays in use for whoever answers the error, as it has to
// where a policy has Settle.
func ExampleGuard() {
	limiter, err := core.Open("memory:")
	if err != nil {
		log.Fatal(err)
	}
	g := guard.Must(guard.New(limiter, guard.Options{}, guard.Policy{
		Limit: core.GCRA(2, core.PerMinute(1)),
	}))

	adapter := func(next framework) framework {
		return func(w http.ResponseWriter, r *http.Request) (failed int) {
			r, denial := g.Check(w.Header(), r, nil)
			if denial != nil {
				denial.ServeHTTP(w, r)
				return 0
			}
			g.Serve(w, r, func(w http.ResponseWriter, r *http.Request) int {
				failed = next(w, r)
				return failed
			})
			return failed
		}
	}

	limited := adapter(func(_ http.ResponseWriter, r *http.Request) int {
		if r.URL.Path != "/" {
			return http.StatusNotFound
		}
		return 0
	})
	for _, path := range []string{"/", "/nowhere", "/"} {
		w := httptest.NewRecorder()
		limited.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, w.Code)
	}
	// Output:
	// / 200
	// /nowhere 404
	// / 429
}
