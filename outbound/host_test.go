package outbound_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/outbound"
)

// byAccount is the account of a call.
func byAccount(r *http.Request) string { return r.Header.Get("Account") }

// callAs makes a call as an account, and returns when it was made.
func callAs(t *testing.T, transport *outbound.Transport, account, url string) time.Duration {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Account", account)
	began := time.Now()
	response, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return time.Since(began)
}

// One host that asks for a day holds back the calls to that host, and those of one account.
func TestAHostHoldsBackNoOtherHost(t *testing.T) {
	for name, c := range map[string]struct {
		options                        outbound.Options
		same, other, anothersSame, own time.Duration
	}{
		"by default":   {outbound.Options{}, time.Minute, 0, time.Minute, 0},
		"by account":   {outbound.Options{By: byAccount}, time.Minute, 0, 0, 0},
		"of all hosts": {outbound.Options{By: byAccount, AllHosts: true}, time.Minute, time.Minute, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for call, want := range map[[2]string]time.Duration{
				{"one", "https://hostile.example/b"}:     c.same,
				{"one", "https://HOSTILE.example.:443/"}: c.same,
				{"one", "https://good.example/"}:         c.other,
				{"two", "https://hostile.example/"}:      c.anothersSame,
				{"two", "https://good.example/"}:         c.own,
			} {
				bubbletest.Run(t, func(t *testing.T) {
					p := newPartner()
					p.answer = func(call int) (int, http.Header) {
						if call == 1 {
							return http.StatusTooManyRequests, http.Header{"Retry-After": {"86400"}}
						}
						return http.StatusOK, http.Header{}
					}
					options := c.options
					options.Base = p
					transport := outbound.New(memory(), core.Leaky(10, core.PerSecond(10)), options)
					callAs(t, transport, "one", "https://hostile.example/a")
					if got := callAs(t, transport, call[0], call[1]); got != want {
						t.Errorf("%q has waited for %v, want %v", call, got, want)
					}
				})
			}
		})
	}
}

// A redirect counts for the host that it goes to, so that nobody spends the limit of a third one but by calling it.
func TestARedirectCountsForTheHostThatItGoesTo(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		limiter, limit := memory(), core.FixedWindow(10, time.Hour)
		p := newPartner()
		p.answer = func(call int) (int, http.Header) {
			switch call {
			case 1:
				return http.StatusFound, http.Header{"Location": {"https://second.example/"}}
			case 2:
				return http.StatusTemporaryRedirect, http.Header{"Location": {"http://Second.example:80/again"}}
			}
			return http.StatusTooManyRequests, http.Header{"Retry-After": {"86400"}}
		}
		callAs(t, outbound.New(limiter, limit, outbound.Options{Base: p}), "", "https://first.example/")
		for host, want := range map[string]int{"host:first.example": 9, "host:second.example": 8} {
			if d, err := limiter.Peek(t.Context(), host, limit); err != nil || d.Remaining != want {
				t.Errorf("%s: %d left, %v, want %d", host, d.Remaining, err, want)
			}
		}
		if err := limiter.Wait(t.Context(), "host:first.example", limit, core.WithHoldBack(), core.WithLongestWait(0)); err != nil {
			t.Errorf("the host that has redirected is held back: %v", err)
		}
		if err := limiter.Wait(t.Context(), "host:second.example", limit, core.WithHoldBack(), core.WithLongestWait(0)); err == nil {
			t.Error("the host that has asked for it is not held back")
		}
	})
}

// What By names counts apart for each host, and together with AllHosts. Ports other than the usual one are other hosts.
func TestKeysOfCalls(t *testing.T) {
	for _, c := range []struct {
		options outbound.Options
		url     string
		want    string
	}{
		{outbound.Options{}, "https://API.example/", "host:api.example"},
		{outbound.Options{}, "https://api.example.:443/", "host:api.example"},
		{outbound.Options{}, "http://api.example:443/", "host:api.example:443"},
		{outbound.Options{}, "http://[2001:DB8::1]:80/", "host:2001:db8::1"},
		{outbound.Options{}, "http://[2001:db8::1]:81/", "host:[2001:db8::1]:81"},
		{outbound.Options{}, "https://api.example:00443/", "host:api.example"},
		{outbound.Options{}, "http://api.example:0081/", "host:api.example:81"},
		{outbound.Options{}, "http://api.example:/", "host:api.example"},
		{outbound.Options{}, "http://[2001:db8:0:0::0:1]/", "host:2001:db8::1"},
		{outbound.Options{}, "http://[::ffff:203.0.113.9]/", "host:203.0.113.9"},
		{outbound.Options{}, "http://[::ffff:cb00:7109]:081/", "host:203.0.113.9:81"},
		{outbound.Options{}, "https://\uff41pi.example/", "host:api.example"}, // a wide a
		{outbound.Options{}, "https://api\u3002ex\u00adample\uff0e:0443/", "host:api.example"},
		{outbound.Options{}, "https://B\u00fccher.example/", "host:xn--bcher-kva.example"},
		{outbound.Options{}, "https://xn--bcher-kva.example/", "host:xn--bcher-kva.example"},
		{outbound.Options{By: byAccount}, "http://[::FFFF:203.0.113.9]:080/", "me host:203.0.113.9"},
		{outbound.Options{By: byAccount}, "https://api.example/", "me host:api.example"},
		{outbound.Options{By: byAccount, AllHosts: true}, "https://api.example/", "me"},
	} {
		limiter, limit := memory(), core.FixedWindow(10, time.Hour)
		c.options.Base = newPartner()
		callAs(t, outbound.New(limiter, limit, c.options), "me", c.url)
		if d, err := limiter.Peek(t.Context(), c.want, limit); err != nil || d.Remaining != 9 {
			t.Errorf("%s: %d left of %q, %v, want 9", c.url, d.Remaining, c.want, err)
		}
	}
}

// A panic of a function of the caller's reaches the caller, and leaves no place behind.
func TestPanicsLeaveNoPlaceBehind(t *testing.T) {
	panics := func() { panic("a hook") }
	for name, options := range map[string]outbound.Options{
		"By":       {By: func(*http.Request) string { panics(); return "" }},
		"LimitFor": {LimitFor: func(*http.Request) core.Limit { panics(); return nil }},
		"Base":     {Base: answers(func(*http.Request) (*http.Response, error) { panics(); return nil, errReset })},
		"Observe":  {Observe: func(*http.Request, error) { panics() }},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				store := &unheld{Store: core.NewMemory()}
				limiter := core.New(store)
				defer limiter.Close()
				if options.Base == nil {
					options.Base = answers(func(r *http.Request) (*http.Response, error) {
						return &http.Response{
							StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}},
							Body: io.NopCloser(strings.NewReader("answer")), Request: r,
						}, nil
					})
				}
				var limit core.Limit = single
				if options.LimitFor != nil {
					limit = nil
				}
				transport := outbound.New(limiter, limit, options)
				func() {
					defer func() {
						if recover() == nil {
							t.Error("the panic has not reached the caller")
						}
					}()
					_, _ = start(t.Context(), t, transport)
				}()
				expectFree(t, limiter, 1)
			})
		})
	}
}

// unheld is a store that cannot hold a key back.
type unheld struct{ core.Store }

func (s *unheld) Settle(ctx context.Context, list []core.Settlement) error {
	if list[0].Raise {
		return errStoreDown
	}
	return s.Store.Settle(ctx, list)
}
