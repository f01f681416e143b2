package offenders_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
	"github.com/weir-go/ratelimit/telemetry/offenders"
)

func Example() {
	tracker := offenders.New(offenders.Options{})
	limit := ratelimit.New(core.New(core.NewMemory()), ratelimit.Options{Observe: tracker.Observe},
		ratelimit.Policy{Limit: core.FixedWindow(1, time.Hour).Named("hourly")})
	for _, client := range []string{"203.0.113.9", "203.0.113.9", "203.0.113.9", "198.51.100.7", "198.51.100.7"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = client + ":1234"
		limit(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
	}
	for _, o := range tracker.Top(10) {
		fmt.Printf("%s %.1f by %s\n", o.Key, o.Denials, o.Policy)
	}
	http.Handle("GET /offenders", tracker) // where only you can read it
	// Output:
	// ip:203.0.113.9 2.0 by hourly
	// ip:198.51.100.7 1.0 by hourly
}
