package outbound_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/outbound"
)

// worn is a host that accepts so many calls a second, with room for those of 50 ms, and answers all others 503.
type worn struct {
	mu           sync.Mutex
	capacity     float64
	room         float64
	at           time.Time
	got, accepts int
}

func (w *worn) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.room = min(w.room+w.capacity*now.Sub(w.at).Seconds(), max(1, w.capacity/20))
	w.at = now
	w.got++
	status := http.StatusServiceUnavailable
	if w.room >= 1 {
		status = http.StatusOK
		w.room--
		w.accepts++
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// turn gives the host another capacity, and begins to count anew.
func (w *worn) turn(capacity float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.capacity, w.room, w.got, w.accepts = capacity, 0, 0, 0
}

// callEach makes calls at an even pace for a time, and returns how many got an answer of 200.
func callEach(t *testing.T, transport http.RoundTripper, pace, long time.Duration) (accepted int) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://partner.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(pace) {
		response, err := transport.RoundTrip(r)
		switch {
		case err == nil && response.StatusCode == http.StatusOK:
			accepted++
		case err != nil && !errors.Is(err, outbound.ErrThrottled):
			t.Fatal(err)
		}
	}
	return accepted
}

// throttled returns a Transport with a throttle and without a limit.
func throttled(base http.RoundTripper, options outbound.Options) *outbound.Transport {
	options.Base, options.Throttle = base, true
	return outbound.New(memory(), core.Unlimited, options)
}

// A host at a tenth of its capacity gets two calls for each that it accepts. Ten seconds after it has healed, all calls are made again.
func TestAThrottledHostGetsTwoCallsForEachThatItAccepts(t *testing.T) {
	twice := func(accepted int) float64 { return 2.1 * float64(accepted) }
	for name, c := range map[string]struct {
		retry    outbound.Retry
		capacity float64
		long     time.Duration
		most     func(accepted int) float64 // of the calls that it gets in that time
		heals    time.Duration
	}{
		"a tenth":               {outbound.Retry{}, 100, time.Minute, twice, 10 * time.Second},
		"a tenth, with retries": {outbound.Retry{Most: 2, Pause: 1}, 100, time.Minute, twice, 10 * time.Second},
		"nothing":               {outbound.Retry{}, 0, 20 * time.Second, func(int) float64 { return 60 }, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				host := &worn{capacity: 10_000}
				transport := throttled(host, outbound.Options{Retry: c.retry})
				if got := callEach(t, transport, time.Millisecond, 5*time.Second); got != 5_000 {
					t.Fatalf("%d calls were accepted while the host was well, want all 5,000", got)
				}
				host.turn(c.capacity)
				callEach(t, transport, time.Millisecond, time.Second) // of which the window is full
				host.turn(c.capacity)
				callEach(t, transport, time.Millisecond, c.long)
				if most := c.most(host.accepts); float64(host.got) > most {
					t.Errorf("the host got %d calls and accepted %d, want at most %.0f", host.got, host.accepts, most)
				}
				host.turn(10_000)
				callEach(t, transport, time.Millisecond, c.heals)
				if got := callEach(t, transport, time.Millisecond, time.Second); got < 990 {
					t.Errorf("%v after it has healed, %d of 1,000 calls are accepted, want all", c.heals, got)
				}
			})
		})
	}
}

// refuse calls a host until the throttle has stopped a call, and most times at most.
func refuse(t *testing.T, transport http.RoundTripper, most int, change func(*http.Request)) (stopped bool) {
	t.Helper()
	for range most {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://partner.example/", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		change(r)
		response, err := transport.RoundTrip(r)
		if errors.Is(err, outbound.ErrThrottled) {
			return true
		}
		if err == nil {
			response.Body.Close()
		}
	}
	return false
}

// answered is a host that answers with a status.
func answered(status int) answers {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	}
}

// failed is a host that fails with an error, after it has read the body of the request.
func failed(err error) answers {
	return func(r *http.Request) (*http.Response, error) {
		if _, bodyErr := io.Copy(io.Discard, r.Body); bodyErr != nil {
			err = bodyErr
		}
		return nil, err
	}
}

var errNetwork = &net.OpError{Op: "read", Err: errReset}

// Failures that the caller or the request has caused say nothing about the host, so that no client throttles the calls of others.
func TestWhatCountsForTheThrottle(t *testing.T) {
	for name, c := range map[string]struct {
		base    http.RoundTripper
		options outbound.Options
		change  func(*http.Request)
		want    bool
	}{
		"200":                     {base: answered(http.StatusOK)},
		"404":                     {base: answered(http.StatusNotFound)},
		"500":                     {base: answered(http.StatusInternalServerError)},
		"429":                     {base: answered(http.StatusTooManyRequests), want: true},
		"429 of an account":       {base: answered(http.StatusTooManyRequests), options: outbound.Options{By: byAccount}},
		"503 of an account":       {base: answered(http.StatusServiceUnavailable), options: outbound.Options{By: byAccount}, want: true},
		"502":                     {base: answered(http.StatusBadGateway), want: true},
		"503":                     {base: answered(http.StatusServiceUnavailable), want: true},
		"504":                     {base: answered(http.StatusGatewayTimeout), want: true},
		"the network":             {base: failed(errNetwork), want: true},
		"an answer that breaks":   {base: failed(io.ErrUnexpectedEOF), want: true},
		"no answer":               {base: failed(fmt.Errorf("transport: %w", io.EOF)), want: true},
		"a deadline":              {base: failed(context.DeadlineExceeded), want: true},
		"an error of the request": {base: failed(errReset)}, // such as a header that cannot be sent
		"a body that breaks": {base: failed(errNetwork), change: func(r *http.Request) {
			r.Body = io.NopCloser(iotest.ErrReader(errNetwork))
		}},
		"a body that comes too slowly": {base: answers(func(r *http.Request) (*http.Response, error) {
			go func() { _, _ = io.Copy(io.Discard, r.Body) }()
			<-r.Context().Done()
			_ = r.Body.Close()
			return nil, r.Context().Err()
		}), change: func(r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), time.Millisecond)
			context.AfterFunc(ctx, cancel)
			*r = *r.WithContext(ctx)
			r.Body, _ = io.Pipe()
		}},
		"a host that hangs": {base: answers(func(r *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			return nil, r.Context().Err()
		}), change: func(r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), time.Millisecond)
			context.AfterFunc(ctx, cancel)
			*r = *r.WithContext(ctx)
		}, want: true},
		"a caller that has gone": {base: answers(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, errNetwork
		}), change: func(r *http.Request) {
			ctx, cancel := context.WithCancel(r.Context())
			time.AfterFunc(time.Millisecond, cancel)
			*r = *r.WithContext(ctx)
		}},
		"a deadline that had ended": {base: failed(context.DeadlineExceeded), change: func(r *http.Request) {
			ctx, cancel := context.WithDeadline(r.Context(), time.Now())
			defer cancel()
			*r = *r.WithContext(ctx)
		}},
		"a call that its limit denies": {base: outbound.New(memory(), core.FixedWindow(1, time.Hour), outbound.Options{
			Base: answered(http.StatusOK), LongestWait: -1,
		})},
		"a denial, and a function that says yes": {base: outbound.New(memory(), core.FixedWindow(1, time.Hour), outbound.Options{
			Base: answered(http.StatusOK), LongestWait: -1,
		}), options: outbound.Options{Rejected: func(_ *http.Response, err error) bool { return err != nil }}},
		"503, and a function that says no": {
			base: answered(http.StatusServiceUnavailable), options: outbound.Options{Rejected: func(*http.Response, error) bool { return false }},
		},
		"200, and a function that says yes": {
			base: answered(http.StatusOK), options: outbound.Options{Rejected: func(*http.Response, error) bool { return true }}, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				if c.change == nil {
					c.change = func(*http.Request) {}
				}
				change := func(r *http.Request) {
					r.Header.Set("Account", "me")
					c.change(r)
				}
				if got := refuse(t, throttled(c.base, c.options), 100, change); got != c.want {
					t.Errorf("throttled: %t, want %t", got, c.want)
				}
			})
		})
	}
}

// A host is one however its name is written. It throttles no other host, and none after a second of silence.
func TestTheThrottleIsOfOneHost(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		transport := throttled(answered(http.StatusServiceUnavailable), outbound.Options{})
		refuseAll(t, transport)
		for _, url := range []string{
			"https://partner.example/", "https://PARTNER.example.:443/", "https://partner.example:0443/", "https://p\uff41rtner.example/",
		} {
			_, err := call(t.Context(), transport, url)
			if !errors.Is(err, outbound.ErrThrottled) || !strings.Contains(err.Error(), "throttled: host:partner.example has accepted 0 of the last 2000") {
				t.Errorf("%s: %v, want that it is throttled", url, err)
			}
		}
		for _, url := range []string{"https://other.example/", "https://partner.example:81/"} {
			if _, err := call(t.Context(), transport, url); err != nil {
				t.Errorf("%s: %v", url, err)
			}
		}
		time.Sleep(time.Second)
		if _, err := call(t.Context(), transport, "https://partner.example/"); err != nil {
			t.Errorf("after a second: %v", err)
		}
	})
}

// refuseAll makes 200,000 calls to a host that does not accept them. The next one is throttled, but for five times in a million.
func refuseAll(t *testing.T, transport http.RoundTripper) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://partner.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 200_000 {
		_, _ = transport.RoundTrip(r)
	}
}

// A throttled call is not made, takes nothing of the limit, and has its body closed.
func TestAThrottledCallCostsNothing(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		limiter, limit := memory(), core.FixedWindow(10_000, time.Hour)
		made := 0
		transport := outbound.New(limiter, limit, outbound.Options{Throttle: true, Base: answers(func(r *http.Request) (*http.Response, error) {
			made++
			return answered(http.StatusServiceUnavailable)(r)
		})})
		var body *closed
		if !refuse(t, transport, 100, func(r *http.Request) {
			body = &closed{Reader: strings.NewReader("body")}
			r.Body = body
		}) {
			t.Fatal("nothing was throttled")
		}
		if !body.closed {
			t.Error("the body of a throttled call is open")
		}
		if d, err := limiter.Peek(t.Context(), "host:partner.example", limit); err != nil || d.Remaining != 10_000-made {
			t.Errorf("%d left, %v, after %d calls that were made", d.Remaining, err, made)
		}
	})
}
