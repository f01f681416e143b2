package ratelimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// A login form that counts only failures.
func ExamplePolicy_settle() {
	limiter, _ := core.Open("memory:")
	defer limiter.Close()
	limit := ratelimit.New(limiter, ratelimit.Options{}, ratelimit.Policy{
		Limit: core.SlidingLog(2, 15*time.Minute).Named("logins"),
		Settle: ratelimit.SettlePolicy{Cost: func(_ *http.Request, served ratelimit.Served) int {
			if served.Status == http.StatusUnauthorized {
				return 1
			}
			return 0
		}},
	})
	login := limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "correct" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	for _, password := range []string{"correct", "correct", "correct", "a", "b", "c"} {
		w := httptest.NewRecorder()
		login.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/login?password="+password, nil))
		fmt.Print(w.Code, " ")
	}
	// Output: 200 200 200 401 401 429
}
