package ratelimit_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/ratelimit/core"
	ratelimit "github.com/weir-go/ratelimit/gin"
	"github.com/weir-go/ratelimit/headers"
)

// cors lets the pages of one site read all answers, and answers preflights itself. A library such as
// github.com/gin-contrib/cors stands in the same place.
func cors(origin string) gin.HandlerFunc {
	exposed := strings.Join(headers.Names(headers.Draft), ", ")
	return func(c *gin.Context) {
		c.Writer.Header().Add("Vary", "Origin")
		if c.GetHeader("Origin") == origin {
			c.Header("Access-Control-Allow-Origin", origin)
			c.Header("Access-Control-Expose-Headers", exposed)
		}
		if c.Request.Method == http.MethodOptions && c.GetHeader("Access-Control-Request-Method") != "" {
			c.Header("Access-Control-Allow-Methods", "GET, POST")
			c.Header("Access-Control-Allow-Headers", "Authorization, Content-Type")
			c.AbortWithStatus(http.StatusNoContent)
		}
	}
}

// CORS middleware stands around the limiter. It answers preflights, which never reach the limiter, and denied requests
// carry its headers.
func Example_cors() {
	limiter, err := core.Open("memory:")
	if err != nil {
		log.Fatal(err)
	}
	router := gin.New()
	router.Use(cors("https://app.example"), ratelimit.Leaky(limiter, 1, core.PerHour(1)))
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
