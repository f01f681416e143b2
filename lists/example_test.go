package lists_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	"github.com/weir-go/ratelimit/lists"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

func Example() {
	limit := ratelimit.New(core.New(core.NewMemory()), ratelimit.Options{Lists: guard.Lists{
		Allow:   lists.Of("198.51.100.0/24"), // the office
		Deny:    lists.Of("203.0.113.0/24"),
		Address: keyfuncs.Address(keyfuncs.TrustedProxies("10.0.0.0/8")),
	}}, ratelimit.Policy{Limit: core.FixedWindow(1, time.Hour), By: keyfuncs.Global})
	handler := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	for _, client := range []string{"192.0.2.1", "192.0.2.1", "198.51.100.7", "203.0.113.9"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "10.0.0.5:1234"
		r.Header.Set("X-Forwarded-For", client)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(client, w.Code)
	}
	// Output:
	// 192.0.2.1 200
	// 192.0.2.1 429
	// 198.51.100.7 200
	// 203.0.113.9 403
}

func ExampleWatch() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	directory, err := os.MkdirTemp("", "lists")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(directory)
	path := filepath.Join(directory, "deny.txt")
	if err := os.WriteFile(path, []byte("203.0.113.0/24 # a botnet\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	abusers, err := lists.Watch(ctx, lists.File(path), lists.WatchOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(abusers.List().Has(netip.MustParseAddr("203.0.113.9"), "")) // and in Lists.Deny of a middleware's Options
	// Output: true
}
