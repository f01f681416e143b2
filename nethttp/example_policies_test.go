package ratelimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
	"github.com/weir-go/ratelimit/policies"
)

// Limits from a file, which may change while requests are served: then [policies.Watch] and [policies.File] take the place of
// Parse and Set.
func ExampleFromPolicies() {
	document, err := policies.Parse([]byte(`
limits:
  everybody: leaky 5, 1/m
  orders: token-bucket 1, 1/m
policies:
  - limit: everybody
    key: ip
  - limit: orders
    match: POST /orders
    key: header X-API-Key
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := document.Set(policies.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter, _ := core.Open("memory:")
	defer limiter.Close()
	served := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	handler := ratelimit.FromPolicies(limiter, set, ratelimit.Options{})(served)

	for _, method := range []string{http.MethodPost, http.MethodPost, http.MethodGet} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(method, "/orders", nil))
		fmt.Println(method, w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// POST 200 "everybody";r=4;t=240, "orders";r=0;t=60
	// POST 429 "everybody";r=4, "orders";r=0;t=60
	// GET 200 "everybody";r=3;t=180
}
