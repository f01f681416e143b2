package outbound_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/outbound"
)

// partner is somebody else's API, and when it was called.
type partner struct {
	mu     sync.Mutex
	start  time.Time
	called []time.Duration
	answer func(call int) (status int, header http.Header)
}

func newPartner() *partner { return &partner{start: time.Now()} }

func (p *partner) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.called = append(p.called, time.Since(p.start))
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}
	if p.answer != nil {
		response.StatusCode, response.Header = p.answer(len(p.called))
	}
	return response, nil
}

// call makes a call and returns the status, or the error.
func call(ctx context.Context, t *outbound.Transport, url string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	response, err := (&http.Client{Transport: t}).Do(r)
	if err != nil {
		return 0, err
	}
	response.Body.Close()
	return response.StatusCode, nil
}

func (p *partner) expectCalled(t *testing.T, want ...time.Duration) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.called) != len(want) {
		t.Fatalf("called at %v, want %v", p.called, want)
	}
	for i := range want {
		if p.called[i] != want[i] {
			t.Fatalf("called at %v, want %v", p.called, want)
		}
	}
}

func TestTransportKeepsCallsToAHostWithinALimit(t *testing.T) {
	for name, limit := range map[string]core.Limit{"limited": core.Leaky(1, core.PerSecond(5)), "shaped": core.Shaping(9, core.PerSecond(5))} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				p := newPartner()
				transport := outbound.New(memory(), limit, outbound.Options{Base: p})
				for _, url := range []string{"https://api.example/a", "https://API.example/b", "https://other.example/", "https://api.example/c"} {
					if status, err := call(t.Context(), transport, url); status != http.StatusOK {
						t.Errorf("%s: %d, %v", url, status, err)
					}
				}
				p.expectCalled(t, 0, 200*time.Millisecond, 200*time.Millisecond, 400*time.Millisecond)
			})
		})
	}
}

func TestTransportHoldsTheKeyBackForEverybody(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		header http.Header
		want   time.Duration
	}{
		"Retry-After of 429": {429, http.Header{"Retry-After": {"7"}}, 7 * time.Second},
		"Retry-After of 503": {503, http.Header{"Retry-After": {"2"}}, 2 * time.Second},
		"Retry-After-Ms":     {429, http.Header{"Retry-After-Ms": {"1779"}, "Retry-After": {"2"}}, 1779 * time.Millisecond},
		"tokens of OpenAI's": {429, http.Header{"X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"6.5s"}}, 6500 * time.Millisecond},
		"RateLimit of 429":   {429, http.Header{"Ratelimit": {`"partner";r=0;t=4`}}, 4 * time.Second},
		"an hour":            {429, http.Header{"Retry-After": {"3600"}}, time.Minute},
		"no hint":            {429, http.Header{}, 0},
		"of 200":             {200, http.Header{"Retry-After": {"7"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				p, store := newPartner(), core.NewMemory()
				p.answer = func(call int) (int, http.Header) {
					if call == 1 {
						return test.status, test.header
					}
					return http.StatusOK, http.Header{}
				}
				limit := core.Leaky(10, core.PerSecond(10))
				one := outbound.New(core.New(store), limit, outbound.Options{Base: p})
				other := outbound.New(core.New(store), limit, outbound.Options{Base: p}) // as if in another process
				if status, err := call(t.Context(), one, "https://api.example/"); status != test.status {
					t.Errorf("%d, %v, want the partner's own %d", status, err, test.status)
				}
				if status, err := call(t.Context(), other, "https://api.example/"); status != http.StatusOK {
					t.Errorf("%d, %v", status, err)
				}
				p.expectCalled(t, 0, test.want)
			})
		})
	}
}

func TestTransportFailsAtOnceWhatCannotBeMadeInTime(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		p := newPartner()
		limit := core.Leaky(1, core.PerSecond(1))
		transport := outbound.New(memory(), limit, outbound.Options{Base: p, LongestWait: -1})
		_, _ = call(t.Context(), transport, "https://api.example/")
		body := &closed{Reader: strings.NewReader("body")}
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.example/", body)
		_, err := transport.RoundTrip(r)
		limited, ok := errors.AsType[*core.LimitedError](err)
		if !ok || limited.Decision.RetryAfter != time.Second || !body.closed {
			t.Errorf("%v, body closed %t, want a LimitedError that says 1s", err, body.closed)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		patient := outbound.New(memory(), limit, outbound.Options{Base: p})
		_, _ = call(ctx, patient, "https://api.example/")
		if _, err := call(ctx, patient, "https://api.example/"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want DeadlineExceeded", err)
		}
		p.expectCalled(t, 0, 0)
	})
}

type closed struct {
	io.Reader

	closed bool
}

func (c *closed) Close() error {
	c.closed = true
	return nil
}

// down is a store that cannot answer.
type down struct{ core.Store }

var errStoreDown = errors.New("the store is down")

func (down) Decide(context.Context, []core.Call) (answered int, err error) {
	return 0, errStoreDown
}

func TestTransportWhenTheStoreIsDown(t *testing.T) {
	p := newPartner()
	observed := 0
	for closed, want := range map[bool]error{false: nil, true: errStoreDown} {
		transport := outbound.New(core.New(down{}), core.Leaky(1, core.PerSecond(1)), outbound.Options{
			Base: p, FailClosed: closed, Observe: func(*http.Request, error) { observed++ },
		})
		if _, err := call(t.Context(), transport, "https://api.example/"); !errors.Is(err, want) {
			t.Errorf("FailClosed %t: %v, want %v", closed, err, want)
		}
	}
	if observed != 2 || len(p.called) != 1 {
		t.Errorf("%d errors observed and %d calls made, want 2 and 1", observed, len(p.called))
	}
}

// crowded is a store that was not asked, since too many wait for it.
type crowded struct{ core.Store }

func (crowded) Decide(context.Context, []core.Call) (answered int, err error) {
	return 0, fmt.Errorf("too many wait: %w", core.Overloaded)
}

// The store is well, so that a crowd does not pass because it is one.
func TestTransportWhenThisProcessIsOverloaded(t *testing.T) {
	for name, c := range map[string]struct {
		options outbound.Options
		made    int
	}{
		"by default":                  {outbound.Options{}, 0},
		"FailClosed":                  {outbound.Options{FailClosed: true}, 0},
		"PassOverload":                {outbound.Options{PassOverload: true}, 1},
		"FailClosed and PassOverload": {outbound.Options{FailClosed: true, PassOverload: true}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p, observed := newPartner(), 0
			c.options.Base, c.options.Observe = p, func(*http.Request, error) { observed++ }
			transport := outbound.New(core.New(crowded{}), core.Leaky(1, core.PerSecond(1)), c.options)
			_, err := call(t.Context(), transport, "https://api.example/")
			if len(p.called) != c.made || (err == nil) != (c.made == 1) || err != nil && !errors.Is(err, core.Overloaded) {
				t.Errorf("%d calls made, %v, want %d", len(p.called), err, c.made)
			}
			if observed != 1 {
				t.Errorf("%d errors observed, want 1", observed)
			}
		})
	}
}

func TestTransportByAFunction(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		p := newPartner()
		transport := outbound.New(memory(), nil, outbound.Options{
			Base: p,
			By:   func(r *http.Request) string { return r.URL.Query().Get("account") },
			LimitFor: func(r *http.Request) core.Limit {
				if r.URL.Path == "/free" {
					return core.Unlimited
				}
				return core.Leaky(1, core.PerSecond(1))
			},
		})
		for _, query := range []string{"a", "b", "a", "", ""} {
			if _, err := call(t.Context(), transport, "https://api.example/?account="+url.QueryEscape(query)); err != nil {
				t.Error(err)
			}
		}
		if _, err := call(t.Context(), transport, "https://api.example/free?account=a"); err != nil {
			t.Error(err)
		}
		p.expectCalled(t, 0, 0, time.Second, time.Second, time.Second, time.Second)
	})
}

// idle is a base that has connections to close.
type idle struct {
	*partner

	closed int
}

func (i *idle) CloseIdleConnections() { i.closed++ }

func TestTransportClosesTheIdleConnectionsOfItsBase(t *testing.T) {
	limit := core.Leaky(1, core.PerSecond(1))
	base := &idle{partner: newPartner()}
	inner := outbound.New(memory(), limit, outbound.Options{Base: base})
	outer := outbound.New(memory(), limit, outbound.Options{Base: inner}) // one limit around another
	(&http.Client{Transport: outer}).CloseIdleConnections()
	if base.closed != 1 {
		t.Errorf("the base was told %d times, want once", base.closed)
	}
	without := outbound.New(memory(), limit, outbound.Options{Base: newPartner()})
	(&http.Client{Transport: without}).CloseIdleConnections() // which such a base cannot do
}

func TestTransportRefusesARequestWithoutAURL(t *testing.T) {
	limit := core.Leaky(1, core.PerSecond(1))
	for name, options := range map[string]outbound.Options{
		"by the host":     {},
		"by a function":   {By: func(r *http.Request) string { return r.URL.Host }},
		"limited by none": {By: func(*http.Request) string { return "" }},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPartner()
			options.Base = p
			body := &closed{Reader: strings.NewReader("body")}
			response, err := outbound.New(memory(), limit, options).RoundTrip(&http.Request{Method: http.MethodPost, Body: body})
			if response != nil || err == nil || err.Error() != "outbound: the call was not made: the request has no URL" {
				t.Errorf("%v, %v, want that it has no URL", response, err)
			}
			if !body.closed || len(p.called) > 0 {
				t.Errorf("body closed %t, %d calls made, want a closed body and no call", body.closed, len(p.called))
			}
			if _, err := outbound.New(memory(), limit, options).RoundTrip(new(http.Request)); err == nil {
				t.Error("no error without a body")
			}
		})
	}
}

func TestTransportOnRedis(t *testing.T) {
	client := redistest.Start(t).Client(t)
	p := newPartner()
	var group sync.WaitGroup
	for range 3 { // as if in three processes
		limiter := core.New(core.NewRedis(client, core.WithBudget(time.Minute)))
		t.Cleanup(func() { _ = limiter.Close() })
		transport := outbound.New(limiter, core.Leaky(1, core.Per(1, 20*time.Millisecond)), outbound.Options{Base: p})
		for range 3 {
			group.Go(func() {
				if _, err := call(t.Context(), transport, "https://api.example/"); err != nil {
					t.Error(err)
				}
			})
		}
	}
	group.Wait()
	if took := time.Since(p.start); len(p.called) != 9 || took < 8*20*time.Millisecond {
		t.Errorf("%d calls in %v, faster than one each 20ms", len(p.called), took)
	}
}

func TestTransportPanicsOnMisuse(t *testing.T) {
	limit := core.Leaky(1, core.PerSecond(1))
	for name, misuse := range map[string]func(){
		"the limiter is nil":           func() { outbound.New(nil, limit, outbound.Options{}) },
		"neither a limit nor LimitFor": func() { outbound.New(memory(), nil, outbound.Options{}) },
		"both a limit and LimitFor": func() {
			outbound.New(memory(), limit, outbound.Options{LimitFor: func(*http.Request) core.Limit { return limit }})
		},
		"capacity 0": func() {
			outbound.New(memory(), core.Leaky(0, core.PerSecond(1)), outbound.Options{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if said, _ := recover().(string); !strings.HasPrefix(said, "outbound: ") || !strings.Contains(said, name) {
					t.Errorf("panics with %q, want a reason", said)
				}
			}()
			misuse()
		})
	}
}

func memory() *core.Limiter { return core.New(core.NewMemory()) }
