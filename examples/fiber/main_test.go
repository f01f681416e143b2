package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	recovering "github.com/gofiber/fiber/v3/middleware/recover"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

func send(t *testing.T, app *fiber.App, method, target string, fields ...string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Add(name, value)
	}
	answer, err := app.Test(r, fiber.TestConfig{}) // without a time-out
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

// still is a limiter whose clock stands still.
func still() *core.Limiter {
	now := time.Now()
	return core.New(core.NewMemory(core.WithClock(func() time.Time { return now })))
}

func TestLimits(t *testing.T) {
	app := newApp(still())
	for i := range 10 {
		if answer, body := send(t, app, http.MethodGet, "/items/7"); answer.StatusCode != http.StatusOK || body != "item 7\n" || answer.Header.Get("RateLimit") == "" {
			t.Errorf("request %d: %d %q %v", i+1, answer.StatusCode, body, answer.Header)
		}
	}
	answer, body := send(t, app, http.MethodGet, "/items/8")
	var problem guard.Problem
	if err := json.Unmarshal([]byte(body), &problem); err != nil || answer.StatusCode != http.StatusTooManyRequests ||
		answer.Header.Get("Content-Type") != guard.ProblemType || answer.Header.Get("Retry-After") != "1" || answer.Header.Get("Cache-Control") != "no-store" ||
		answer.Header.Get("Connection") != "" {
		t.Errorf("one more is answered with %d %q %v: %v", answer.StatusCode, body, answer.Header, err)
	}
	if answer, _ := send(t, app, http.MethodGet, "/search"); answer.StatusCode != http.StatusOK {
		t.Errorf("another route: %d", answer.StatusCode)
	}
}

// awaitLeft waits until so much is left of a key.
func awaitLeft(t *testing.T, limiter *core.Limiter, key string, limit core.Limit, want int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		d, err := limiter.Peek(t.Context(), key, limit)
		if err == nil && d.Remaining == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d are left of %s, want %d: %v", d.Remaining, key, want, err)
		}
	}
}

// What a handler's error, and Fiber's answer to it, has cost is settled; two limiters inside one another make one list.
func TestErrorsAreSettled(t *testing.T) {
	limiter := still()
	app := newApp(limiter)
	for range 4 {
		if answer, body := send(t, app, http.MethodPost, "/orders?user=alice"); answer.StatusCode != http.StatusInternalServerError || body != "nothing to order" {
			t.Fatalf("an order that fails: %d %q", answer.StatusCode, body)
		}
		awaitLeft(t, limiter, "user:alice", core.SlidingLog(3, time.Minute).Named("orders"), 3)
	}
	answer, _ := send(t, app, http.MethodPost, "/orders?user=alice&of=tea")
	list := answer.Header.Values("RateLimit")
	if len(list) != 1 || !strings.Contains(list[0], `"orders";r=2`) || !strings.Contains(list[0], `"leaky:10:1/s";r=5`) {
		t.Errorf("two limiters tell %q, want one list", list)
	}
	awaitLeft(t, limiter, "user:alice", core.SlidingLog(3, time.Minute).Named("orders"), 2)
}

// A place is given back by a handler that returns, that fails and that panics.
func TestPlacesAreGivenBack(t *testing.T) {
	limiter := still()
	one := core.Concurrent(1, time.Minute).Named("one")
	app := fiber.New()
	app.Use(recovering.New())
	busy := limit(guard.Must(guard.New(limiter, guard.Options{}, guard.PolicyFor(one, keyfuncs.Global))))
	app.Get("/:what", busy, func(c fiber.Ctx) error {
		if guard.PermitFrom(c.Context()) == nil {
			t.Error("the handler holds no place")
		}
		switch c.Params("what") {
		case "fails":
			return fiber.ErrTeapot
		case "panics":
			panic("as it does")
		}
		return nil
	})
	for _, what := range []string{"returns", "fails", "panics", "returns"} {
		answer, _ := send(t, app, http.MethodGet, "/"+what)
		if answer.StatusCode == http.StatusTooManyRequests {
			t.Errorf("no place is free when a handler %s", what)
		}
		awaitLeft(t, limiter, "global", one, 1)
	}
}

// All lines of a field count, and a key does not change when Fiber uses a request's memory again.
func TestKeysAreTheRequests(t *testing.T) {
	var keys []string
	app := fiber.New()
	app.Get("/t/:tenant", limit(guard.Must(guard.New(still(), guard.Options{Observe: func(e guard.Event) {
		for _, o := range e.Outcomes {
			keys = append(keys, o.Key)
		}
	}}, guard.PolicyFor(core.Leaky(10, core.PerSecond(1)), keyfuncs.IP(keyfuncs.TrustedHops(2)), keyfuncs.PathValue("tenant"), keyfuncs.Host)))),
		func(fiber.Ctx) error { return nil })
	for _, tenant := range []string{"first", "other"} {
		send(t, app, http.MethodGet, "http://"+tenant+".example.com/t/"+tenant, "X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 198.51.100.7")
	}
	want := []string{"ip:203.0.113.9|path:tenant=first|host:first.example.com", "ip:203.0.113.9|path:tenant=other|host:other.example.com"}
	if strings.Join(keys, " ") != strings.Join(want, " ") {
		t.Errorf("the keys are %q, want %q", keys, want)
	}
}
