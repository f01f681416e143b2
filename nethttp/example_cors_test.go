package ratelimit_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// cors lets the pages of one site read all answers, and answers preflights itself. A library such as github.com/rs/cors
// stands in the same place.
func cors(origin string, next http.Handler) http.Handler {
	exposed := strings.Join(headers.Names(headers.Draft), ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Add("Vary", "Origin")
		if r.Header.Get("Origin") == origin {
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Expose-Headers", exposed)
		}
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", "GET, POST")
			h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// CORS middleware stands around the limiter. It answers preflights, which never reach the limiter, and denied requests
// carry its headers.
func Example_cors() {
	limiter, err := core.Open("memory:")
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", item)
	limit := ratelimit.Leaky(limiter, 1, core.PerHour(1))
	server := cors("https://app.example", limit(mux))

	for _, method := range []string{http.MethodOptions, http.MethodGet, http.MethodOptions, http.MethodGet} {
		r := httptest.NewRequest(method, "/items/7", nil)
		r.Header.Set("Origin", "https://app.example")
		if method == http.MethodOptions {
			r.Header.Set("Access-Control-Request-Method", http.MethodGet)
		}
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		fmt.Println(method, w.Code, w.Header().Get("Access-Control-Allow-Origin"))
	}
	// Output:
	// OPTIONS 204 https://app.example
	// GET 200 https://app.example
	// OPTIONS 204 https://app.example
	// GET 429 https://app.example
}
