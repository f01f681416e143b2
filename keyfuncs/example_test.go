package keyfuncs_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/ratelimit/keyfuncs"
)

func show(f keyfuncs.Func, r *http.Request) {
	key, err := f(r)
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println(key)
}

func ExampleRemoteIP() {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-Forwarded-For", "127.0.0.1") // anybody can write this

	r.RemoteAddr = "[::ffff:203.0.113.9]:4711"
	show(keyfuncs.RemoteIP, r)
	r.RemoteAddr = "[2001:db8::1]:4711"
	show(keyfuncs.RemoteIP, r)
	// Output:
	// ip:203.0.113.9
	// ip:2001:db8::/64
}

func ExampleIP() {
	by := keyfuncs.IP(keyfuncs.TrustedProxies("10.0.0.0/8"), keyfuncs.IPv6Prefix(56))

	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "10.0.0.5:4711"
	r.Header.Set("X-Forwarded-For", "1.1.1.1, 203.0.113.9, 10.0.0.7")
	show(by, r)
	// Output: ip:203.0.113.9
}

func ExampleTrustedHops() {
	// A load balancer, behind it a proxy on a unix socket: both append.
	by := keyfuncs.IP(keyfuncs.TrustedHops(2))

	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "@"
	r.Header.Set("X-Forwarded-For", "1.1.1.1, 203.0.113.9, 10.0.0.7")
	show(by, r)
	// Output: ip:203.0.113.9
}

func ExampleTrustedHeader() {
	by := keyfuncs.IP(keyfuncs.TrustedHeader("CF-Connecting-IP", "173.245.48.0/20"))

	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("CF-Connecting-IP", "203.0.113.9")
	r.RemoteAddr = "173.245.48.1:4711"
	show(by, r)
	r.RemoteAddr = "198.51.100.1:4711" // somebody who went around the edge
	show(by, r)
	// Output:
	// ip:203.0.113.9
	// ip:198.51.100.1
}

func ExampleForwarded() {
	by := keyfuncs.IP(keyfuncs.Forwarded("10.0.0.0/8"))

	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "10.0.0.5:4711"
	r.Header.Set("Forwarded", `for="[2001:db8::1]:4711";proto=https, for=10.0.0.7`)
	show(by, r)
	// Output: ip:2001:db8::/64
}

func ExampleOr() {
	type userKey struct{}
	userID := func(r *http.Request) string {
		id, _ := r.Context().Value(userKey{}).(string) // put there by the authentication
		return id
	}
	by := keyfuncs.Or(keyfuncs.User(userID), keyfuncs.RemoteIP)

	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "203.0.113.9:4711"
	show(by, r)
	show(by, r.WithContext(context.WithValue(r.Context(), userKey{}, "42")))
	// Output:
	// ip:203.0.113.9
	// user:42
}

func ExampleJoin() {
	by := keyfuncs.Join(keyfuncs.RemoteIP, keyfuncs.Route)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(_ http.ResponseWriter, r *http.Request) { show(by, r) })

	r := httptest.NewRequest(http.MethodGet, "/items/42", nil)
	r.RemoteAddr = "203.0.113.9:4711"
	mux.ServeHTTP(httptest.NewRecorder(), r)
	// Output: ip:203.0.113.9|route:/items/{id}
}

func ExampleHeader() {
	by := keyfuncs.Header("X-API-Key")

	r := httptest.NewRequest(http.MethodGet, "/", nil)
	show(by, r) // a limiter counts it by its address
	r.Header.Set("X-API-Key", "opensesame")
	show(by, r)
	// Output:
	// error: keyfuncs: request has no such key
	// header:x-api-key:VCKlFU3Y9axYK_jdWN3x2A
}

func ExampleBearer() {
	by := keyfuncs.Bearer()

	r := httptest.NewRequest(http.MethodGet, "/", nil)
	show(by, r) // a limiter counts it by its address
	r.Header.Set("Authorization", "Bearer mF_9.B5f-4.1JqM==")
	show(by, r)
	r.Header.Set("Authorization", "bearer   mF_9.B5f-4.1JqM==") // the same token
	show(by, r)
	// Output:
	// error: keyfuncs: request has no such key
	// bearer:wjxJ2W6CIy_Mgu66lG6Svw
	// bearer:wjxJ2W6CIy_Mgu66lG6Svw
}
