package guardrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/guard/guardrpc"
	"github.com/weir-go/ratelimit/keyfuncs"
)

func guardOf(t *testing.T, policies ...guard.Policy) *guard.Guard {
	t.Helper()
	limiter := core.New(core.NewMemory())
	t.Cleanup(func() { _ = limiter.Close() })
	return guard.Must(guard.New(limiter, guard.Options{}, policies...))
}

// A call is the POST of its procedure, with its metadata, its peer and its message.
func TestACallIsARequest(t *testing.T) {
	var key string
	g := guardOf(t, guard.Policy{Limit: core.FixedWindow(1, time.Hour), By: func(r *http.Request) (string, error) {
		parts, err := keyfuncs.Join(keyfuncs.Method, keyfuncs.Route, keyfuncs.Host, keyfuncs.RemoteIP, keyfuncs.Header("X-Tenant"))(r)
		key = fmt.Sprint(parts, " ", guardrpc.Message(r.Context()))
		return key, err
	}})
	call := guardrpc.Call{Procedure: "/shop.Orders/Create", Header: http.Header{"X-Tenant": {"a"}}, Host: "shop.example", Peer: "203.0.113.9:1", Message: "order 7"}
	if verdict, _ := guardrpc.Decide(t.Context(), g, call); verdict.Denial != nil {
		t.Errorf("denied: %+v", verdict.Denial)
	}
	call.Unknown = true
	first := key
	if verdict, _ := guardrpc.Decide(t.Context(), g, call); verdict.Denial != nil || key == first {
		t.Errorf("a procedure that nobody knows has the key %q", key)
	}
	if verdict, fields := guardrpc.Decide(t.Context(), g, guardrpc.Call{Procedure: "/a.B/C", Unknown: true}); verdict.Denial != nil || fields.Get("Ratelimit") == "" {
		t.Errorf("a call with a procedure alone: %+v, %v", verdict.Denial, fields)
	}
	t.Log(first, key)
}

// A denial has a code, words and details, and says in milliseconds when a client tries again by itself.
func TestDenials(t *testing.T) {
	for _, test := range []struct {
		limit    core.Quota
		cost     int
		pushback string
		types    []string
	}{
		{core.Leaky(1, core.PerSecond(1)), 1, "1000", []string{"google.rpc.ErrorInfo", "google.rpc.QuotaFailure", "google.rpc.RetryInfo"}},
		{core.Leaky(1, core.PerHour(1)), 1, "-1", []string{"google.rpc.ErrorInfo", "google.rpc.QuotaFailure", "google.rpc.RetryInfo"}},
		{core.Leaky(1, core.PerSecond(1)), 2, "-1", []string{"google.rpc.ErrorInfo", "google.rpc.QuotaFailure"}},
	} {
		limiter := core.New(core.NewMemory(core.WithClock(func() time.Time { return time.Unix(0, 0) })))
		g := guard.Must(guard.New(limiter, guard.Options{}, guard.Policy{Limit: test.limit, By: keyfuncs.Global, Cost: func(*http.Request) int { return test.cost }}))
		var verdict guard.Verdict
		var fields http.Header
		for range 2 {
			verdict, fields = guardrpc.Decide(t.Context(), g, guardrpc.Call{Procedure: "/a.B/C"})
		}
		if verdict.Denial == nil || fields.Get("Grpc-Retry-Pushback-Ms") != test.pushback {
			t.Fatalf("%v: %+v, %v, want a pushback of %s", test.limit, verdict.Denial, fields, test.pushback)
		}
		denied := guardrpc.ErrorOf(verdict.Denial)
		var types []string
		for _, detail := range denied.Details {
			types = append(types, detail.Type)
		}
		if denied.Code != 8 || denied.Message == "" || !slices.Equal(types, test.types) {
			t.Errorf("%v: code %d, %q, details %v, want %v", test.limit, denied.Code, denied.Message, types, test.types)
		}
	}
	for status, code := range map[int]uint32{403: 7, 503: 14, 413: 8, 414: 8, 499: 1, 500: 13} {
		if denied := guardrpc.ErrorOf(&guard.Denial{Status: status}); denied.Code != code || (len(denied.Details) == 1) != (status == 403 || status == 503) {
			t.Errorf("%d: code %d, want %d, with %d details", status, denied.Code, code, len(denied.Details))
		}
	}
}

// A policy is told the HTTP status that stands for the code.
func TestCodesSettle(t *testing.T) {
	told := 0
	g := guardOf(t, guard.Policy{Limit: core.FixedWindow(100, time.Hour), By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: func(_ *http.Request, served guard.Served) int {
		told = served.Status
		return 1
	}}})
	for code, want := range map[uint32]int{0: 200, 1: 499, 3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 12: 501, 14: 503, 16: 401, 17: 500, 1 << 31: 500} {
		verdict, _ := guardrpc.Decide(t.Context(), g, guardrpc.Call{Procedure: "/a.B/C"})
		guardrpc.Serve(verdict, func(context.Context) uint32 { return code })
		if told != want {
			t.Errorf("code %d was settled as %d, want %d", code, told, want)
		}
	}
}

// A place is held until the handler has returned or panicked, and then given back.
func TestPlacesAreHeld(t *testing.T) {
	g := guardOf(t, guard.Policy{Limit: core.Concurrent(1, time.Minute), By: keyfuncs.Global})
	for range 3 {
		func() {
			defer func() { _ = recover() }()
			verdict, _ := guardrpc.Decide(t.Context(), g, guardrpc.Call{Procedure: "/a.B/C"})
			for deadline := time.Now().Add(time.Minute); verdict.Denial != nil && time.Now().Before(deadline); { // it is given back in the background
				verdict, _ = guardrpc.Decide(t.Context(), g, guardrpc.Call{Procedure: "/a.B/C"})
			}
			if verdict.Denial != nil {
				t.Fatalf("the place is not given back: %+v", verdict.Denial)
			}
			guardrpc.Serve(verdict, func(ctx context.Context) uint32 {
				if inner, _ := guardrpc.Decide(guard.AsOwn(ctx), g, guardrpc.Call{Procedure: "/a.B/C"}); inner.Denial == nil {
					t.Error("another call has a place, too")
				}
				panic(errors.New("the handler fails"))
			})
		}()
	}
}
