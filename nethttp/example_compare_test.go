package ratelimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// Whom would a stricter limit hurt? A candidate runs beside what is enforced.
func Example_compare() {
	limiter, _ := core.Open("memory:")
	defer limiter.Close()
	var comparison guard.Comparison
	limit := ratelimit.New(limiter, ratelimit.Options{Observe: guard.Compare(&comparison, "candidate", nil)},
		ratelimit.Policy{Limit: core.FixedWindow(4, time.Hour)},
		ratelimit.Policy{Limit: core.FixedWindow(2, time.Hour).Named("candidate"), Shadow: true})
	handler := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for range 5 {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}
	fmt.Println(comparison.Counts())
	// Output: both allow 2, only the enforced denies 0, only the candidate denies 2, both deny 1
}
