package ratelimit_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/echo/v5"
	"github.com/weir-go/ratelimit/headers"
)

// CORS middleware stands around the limiter. It answers preflights, which never reach the limiter, and denied requests
// carry its headers.
func Example_cors() {
	limiter, err := core.Open("memory:")
	if err != nil {
		log.Fatal(err)
	}
	cors := middleware.CORSWithConfig(middleware.CORSConfig{
		AllowOrigins:  []string{"https://app.example"},
		ExposeHeaders: headers.Names(headers.Draft),
	})
	router := echo.New()
	router.Use(cors, ratelimit.Leaky(limiter, 1, core.PerHour(1)))
	router.GET("/items/:id", item)

	for _, method := range []string{http.MethodOptions, http.MethodGet, http.MethodOptions, http.MethodGet} {
		r := httptest.NewRequest(method, "/items/7", nil)
		r.Header.Set("Origin", "https://app.example")
		if method == http.MethodOptions {
			r.Header.Set("Access-Control-Request-Method", http.MethodGet)
		}
		w := httptest.NewRecorder()
		router.ServeHTTP(w, r)
		fmt.Println(method, w.Code, w.Header().Get("Access-Control-Allow-Origin"))
	}
	// Output:
	// OPTIONS 204 https://app.example
	// GET 200 https://app.example
	// OPTIONS 204 https://app.example
	// GET 429 https://app.example
}
