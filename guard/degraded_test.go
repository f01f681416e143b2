package guard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard/internal/fallback"
)

// lost is a store that fails with an error.
type lost struct {
	core.Store

	err error
}

func (l lost) Decide(context.Context, []core.Call) (int, error) { return 0, l.err }

// While the keys that this process knows all deny, one more key could pass as often as it likes.
func TestFullFallbackFailsClosed(t *testing.T) {
	byPath := func(r *http.Request) (string, error) { return r.URL.Path, nil }
	for _, err := range []error{core.Overloaded, core.Unreachable} {
		observed := Event{}
		options := Options{OnError: Fallback, OnOverload: Fallback, Observe: func(e Event) { observed = e }}
		g := Must(New(core.New(lost{err: err}), options, Policy{Limit: core.Leaky(1, core.PerDay(1)), By: byPath}))
		g.current.Load().fallback = fallback.New(1, 1)
		status := func(path string) int {
			w := httptest.NewRecorder()
			verdict := g.Decide(httptest.NewRequest(http.MethodGet, path, nil), nil)
			if verdict.Denial != nil {
				verdict.Denial.ServeHTTP(w, verdict.Request)
			}
			return w.Code
		}
		if got := fmt.Sprint(status("/known"), status("/known"), status("/new"), status("/new"), status("/known")); got != "200 429 503 503 429" {
			t.Errorf("%v: answered with %s, want 200 429 503 503 429", err, got)
		}
		status("/new")
		if u := observed.Unanswered; len(u) != 1 || u[0].Mode != FailClosed || !errors.Is(observed.Err, err) {
			t.Errorf("%v: observed %+v, want one policy that fails closed", err, observed)
		}
	}
}
