package guard_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// instant answers at once, so that what is left is the Guard's own cost.
type instant struct{ core.Store }

func (instant) Decide(_ context.Context, calls []core.Call) (answered int, err error) {
	for i, check := range calls[0].Checks {
		calls[0].Decisions[i] = core.Decision{Allowed: true, Limit: check.Limit, Remaining: 9, NextAfter: time.Second, ResetAfter: time.Second}
	}
	return 1, nil
}

// discard is a response writer that costs nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

func BenchmarkMiddleware(b *testing.B) {
	handler := fine
	b.Run("none", func(b *testing.B) { benchmark(b, handler) })
	for name, store := range map[string]core.Store{"instant": instant{}, "memory": core.NewMemory()} {
		for _, n := range []int{1, 3} {
			policies := []guard.Policy{
				{Limit: core.Leaky(1_000_000_000, core.PerSecond(1_000_000))},
				{Limit: core.TokenBucket(1_000_000_000, core.PerSecond(1_000_000)), By: keyfuncs.Global},
				{Limit: core.FixedWindow(1_000_000_000, time.Hour), By: keyfuncs.Join(keyfuncs.RemoteIP, keyfuncs.Method)},
			}[:n]
			limiter := ratelimit.New(core.New(store), guard.Options{}, policies...)
			b.Run(fmt.Sprintf("%s/policies=%d", name, n), func(b *testing.B) { benchmark(b, limiter(handler)) })
		}
	}
}

// BenchmarkFallback is the cost of remembering what the store decides, while it is well: of one key, and of more than
// are remembered.
func BenchmarkFallback(b *testing.B) {
	for _, keys := range []int{1, 200_000} {
		names := make([]string, keys)
		for i := range names {
			names[i] = fmt.Sprint("user:", i)
		}
		next := 0
		by := func(*http.Request) (string, error) {
			next = (next + 1) % keys
			return names[next], nil
		}
		for _, mode := range []guard.ErrorMode{guard.FailOpen, guard.Fallback} {
			limit := core.Leaky(1_000_000_000, core.PerSecond(1_000_000))
			limiter := ratelimit.New(core.New(instant{}), guard.Options{OnError: mode, Replicas: 4}, guard.Policy{Limit: limit, By: by})
			b.Run(fmt.Sprintf("%v/keys=%d", mode, keys), func(b *testing.B) { benchmark(b, limiter(fine)) })
		}
	}
}

// BenchmarkGuard is the Guard alone, of an admitted request and of a denied one.
func BenchmarkGuard(b *testing.B) {
	for name, limit := range map[string]core.Limit{"allowed": core.Leaky(1_000_000_000, core.PerSecond(1_000_000)), "denied": core.FixedWindow(1, time.Hour)} {
		store := core.Store(instant{})
		if name == "denied" {
			store = core.NewMemory()
		}
		g := guard.Must(guard.New(core.New(store), guard.Options{}, guard.Policy{Limit: limit}))
		b.Run(name, func(b *testing.B) {
			h, r := make(http.Header), httptest.NewRequest(http.MethodGet, "/items/7", nil)
			g.Decide(r, nil)
			b.ReportAllocs()
			for b.Loop() {
				g.Decide(r, nil).WriteHeader(h)
			}
		})
	}
}

func benchmark(b *testing.B, h http.Handler) {
	w := discard{make(http.Header)}
	r := httptest.NewRequest(http.MethodGet, "/items/7", nil)
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}
