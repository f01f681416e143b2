package outbound_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/outbound"
)

// recovering is a host that answers so many calls 503 and those after it 200. It remembers its calls.
type recovering struct {
	partner

	refused int
	header  http.Header
	bodies  []string
	answers []*closed // the bodies of its answers
}

func (h *recovering) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := ""
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		sent = string(text)
		_ = r.Body.Close()
	}
	h.bodies = append(h.bodies, sent)
	h.answer = func(n int) (int, http.Header) {
		if n <= h.refused {
			return http.StatusServiceUnavailable, h.header
		}
		return http.StatusOK, http.Header{}
	}
	response, err := h.partner.RoundTrip(r)
	body := &closed{Reader: strings.NewReader("answer")}
	h.answers = append(h.answers, body)
	response.Body = body
	return response, err
}

func newRecovering(refused int) *recovering {
	return &recovering{partner: partner{start: time.Now()}, refused: refused, header: http.Header{}}
}

// retrying returns a Transport that makes calls again, and has no limit.
func retrying(base http.RoundTripper, most int, options outbound.Options) *outbound.Transport {
	options.Base, options.Retry.Most = base, most
	return outbound.New(memory(), core.Unlimited, options)
}

// A request with a body is sent again with the same body, and the caller gets the last answer alone.
func TestARetrySendsTheWholeBodyAgain(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		host := newRecovering(2)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://partner.example/", strings.NewReader("the order"))
		if err != nil {
			t.Fatal(err)
		}
		before := *r
		response, err := retrying(host, 2, outbound.Options{}).RoundTrip(r)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v, want 200", response, err)
		}
		if text, _ := io.ReadAll(response.Body); string(text) != "answer" {
			t.Errorf("the answer is %q", text)
		}
		if !slices.Equal(host.bodies, []string{"the order", "the order", "the order"}) {
			t.Errorf("sent %q", host.bodies)
		}
		if !host.answers[0].closed || !host.answers[1].closed || host.answers[2].closed {
			t.Error("the answers that the caller does not get have to be closed, and no other")
		}
		if r.Body != before.Body {
			t.Error("the request of the caller has changed")
		}
	})
}

// A call is made again only if it does no harm twice, and can be made twice.
func TestWhatIsMadeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		body   io.Reader
		change func(*http.Request)
		want   int // calls
	}{
		"GET":                   {method: http.MethodGet, want: 3},
		"no method":             {method: "", want: 3},
		"HEAD":                  {method: http.MethodHead, want: 3},
		"DELETE":                {method: http.MethodDelete, want: 3},
		"PUT":                   {method: http.MethodPut, body: strings.NewReader("order"), want: 3},
		"POST":                  {method: http.MethodPost, body: strings.NewReader("order"), want: 1},
		"POST without a body":   {method: http.MethodPost, want: 1},
		"PATCH":                 {method: http.MethodPatch, body: strings.NewReader("order"), want: 1},
		"a method of their own": {method: "get", want: 1},
		"POST with a key": {method: http.MethodPost, body: strings.NewReader("order"), want: 3, change: func(r *http.Request) {
			r.Header.Set("Idempotency-Key", "7")
		}},
		"POST with another key": {method: http.MethodPost, body: strings.NewReader("order"), want: 3, change: func(r *http.Request) {
			r.Header["X-Idempotency-Key"] = nil
		}},
		"a body that is there once": {method: http.MethodPut, body: io.NopCloser(strings.NewReader("order")), want: 1},
		"http.NoBody":               {method: http.MethodPut, body: http.NoBody, want: 3},
		"a body that cannot be had again": {method: http.MethodPut, body: strings.NewReader("order"), want: 1, change: func(r *http.Request) {
			r.GetBody = func() (io.ReadCloser, error) { return nil, errReset }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				host := newRecovering(9)
				r, err := http.NewRequestWithContext(t.Context(), c.method, "https://partner.example/", c.body)
				if err != nil {
					t.Fatal(err)
				}
				r.Method = c.method
				if c.change != nil {
					c.change(r)
				}
				response, err := retrying(host, 2, outbound.Options{}).RoundTrip(r)
				if err != nil || response.StatusCode != http.StatusServiceUnavailable {
					t.Fatalf("%v, %v, want the answer of the host", response, err)
				}
				if text, err := io.ReadAll(response.Body); string(text) != "answer" || err != nil {
					t.Errorf("the caller reads %q, %v", text, err)
				}
				if len(host.called) != c.want {
					t.Errorf("%d calls, want %d", len(host.called), c.want)
				}
			})
		})
	}
}

// The pauses double, and each differs by up to a half. One that an answer asks for comes before.
func TestPausesBeforeRetries(t *testing.T) {
	for name, c := range map[string]struct {
		asked   string
		options outbound.Options
		timeout time.Duration
		calls   int           // 4, or 1 if the pause is too long
		least   time.Duration // from the first call to the last; the pauses differ by a factor of three
		most    time.Duration
	}{
		"100, 200 and 400 ms":           {calls: 4, least: 350 * time.Millisecond, most: 1050 * time.Millisecond},
		"1, 2 and 4 s":                  {options: outbound.Options{Retry: outbound.Retry{Pause: time.Second}}, calls: 4, least: 3500 * time.Millisecond, most: 10500 * time.Millisecond},
		"asked for":                     {asked: "5", calls: 4, least: 15*time.Second + 350*time.Millisecond, most: 15*time.Second + 1050*time.Millisecond},
		"an answer that is final":       {asked: "never", calls: 1},
		"more than is held back":        {asked: "61", calls: 1},
		"what is asked for is ignored":  {asked: "61", options: outbound.Options{LongestHoldBack: -1}, calls: 4, least: 350 * time.Millisecond, most: 1050 * time.Millisecond},
		"centuries":                     {asked: "9999999999999", options: outbound.Options{LongestHoldBack: math.MaxInt64, Retry: outbound.Retry{Pause: 10 * time.Second}}, calls: 1},
		"more than the call waits":      {asked: "3", options: outbound.Options{LongestWait: 2 * time.Second}, calls: 1},
		"a call that does not wait":     {asked: "1", options: outbound.Options{LongestWait: -1}, calls: 1},
		"the deadline comes before":     {asked: "5", timeout: 4 * time.Second, calls: 1},
		"the deadline comes in between": {timeout: 49 * time.Millisecond, calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				host := newRecovering(9)
				host.header = http.Header{"Retry-After": {c.asked}}
				if c.asked == "never" {
					host.header = http.Header{"X-Should-Retry": {"false"}}
				}
				ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(c.timeout, time.Hour))
				defer cancel()
				began := time.Now()
				status, err := call(ctx, retrying(host, 3, c.options), "https://partner.example/")
				took := time.Since(began)
				if status != http.StatusServiceUnavailable || err != nil || len(host.called) != c.calls {
					t.Errorf("%d, %v after %d calls, want 503 after %d", status, err, len(host.called), c.calls)
				}
				if took < c.least || took > c.most {
					t.Errorf("took %v, want %v to %v", took, c.least, c.most)
				}
			})
		})
	}
}

// A caller who leaves in a pause is told so, and that the call was made.
func TestAContextThatEndsInAPause(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		host := newRecovering(9)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		body := &closed{Reader: strings.NewReader("order")}
		r, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://partner.example/", strings.NewReader("order"))
		if err != nil {
			t.Fatal(err)
		}
		r.GetBody = func() (io.ReadCloser, error) { return body, nil }
		response, err := retrying(host, 3, outbound.Options{}).RoundTrip(r)
		if response != nil || !errors.Is(err, context.Canceled) || err.Error() != "outbound: the call was made once, and not again: context canceled" {
			t.Errorf("%v, %v", response, err)
		}
		if !body.closed || !host.answers[0].closed || len(host.called) != 1 {
			t.Errorf("the body of the retry closed %t, of the answer %t, after %d calls", body.closed, host.answers[0].closed, len(host.called))
		}
	})
}

// Four calls in a row are made again, then one for ten that were accepted; and another host has a budget of its own.
func TestTheBudgetOfRetries(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		host := newRecovering(1_000)
		transport := retrying(host, 1, outbound.Options{})
		calls := func(n int, url string) int {
			before := len(host.called)
			for range n {
				_, _ = call(t.Context(), transport, url)
			}
			return len(host.called) - before
		}
		if got := calls(100, "https://partner.example/"); got != 102 { // the second call of each pair takes a token, too
			t.Errorf("100 calls were made %d times, want 102", got)
		}
		if got := calls(100, "https://other.example/"); got != 102 {
			t.Errorf("100 calls to another host were made %d times, want 102", got)
		}
		host.refused = 0
		if got := calls(300, "https://partner.example/"); got != 300 {
			t.Errorf("300 accepted calls were made %d times", got)
		}
		host.refused = 1_000
		if got := calls(100, "https://PARTNER.example:443/"); got != 102 {
			t.Errorf("100 calls after 300 accepted ones were made %d times, want 102", got)
		}
	})
}

// Each try waits for the limit of its host, and counts for it. The place of a call is free before the next try needs it.
func TestRetriesCountForTheLimit(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		host, limiter := newRecovering(2), core.New(core.NewMemory())
		defer limiter.Close()
		paced := outbound.New(limiter, core.Leaky(1, core.Per(1, time.Minute)), outbound.Options{Base: host, Retry: outbound.Retry{Most: 2}})
		if status, err := call(t.Context(), paced, "https://partner.example/"); status != http.StatusOK || err != nil {
			t.Error(status, err)
		}
		for i, at := range host.called { // the pause ends between two microseconds, in which limits count
			host.called[i] = at.Truncate(time.Microsecond)
		}
		host.expectCalled(t, 0, time.Minute, 2*time.Minute)
		one := outbound.New(limiter, single, outbound.Options{Base: newRecovering(2), Retry: outbound.Retry{Most: 2}, LongestWait: time.Minute})
		if status, err := call(t.Context(), one, "https://partner.example/"); status != http.StatusOK || err != nil {
			t.Error(status, err)
		}
		expectFree(t, limiter, 1)
	})
}

// A try that the limit does not admit in time leaves an error that says how often the call was made.
func TestARetryThatTheLimitDenies(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		transport := outbound.New(memory(), core.FixedWindow(1, time.Hour), outbound.Options{
			Base: newRecovering(9), Retry: outbound.Retry{Most: 2}, LongestWait: time.Second,
		})
		_, err := call(t.Context(), transport, "https://partner.example/")
		if _, limited := errors.AsType[*core.LimitedError](err); !limited || !strings.Contains(err.Error(), "the call was made once, and not again") {
			t.Error(err)
		}
	})
}

// A host that never ends its answer holds no retry up.
func TestARetryDoesNotReadAnAnswerForever(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		calls := 0
		transport := retrying(answers(func(r *http.Request) (*http.Response, error) {
			calls++
			endless, _ := io.Pipe()
			response, err := answered(http.StatusServiceUnavailable)(r)
			response.Body = endless
			return response, err
		}), 2, outbound.Options{})
		began := time.Now()
		if status, err := call(t.Context(), transport, "https://partner.example/"); status != http.StatusServiceUnavailable || err != nil || calls != 3 {
			t.Errorf("%d, %v after %d calls", status, err, calls)
		}
		if took := time.Since(began); took > 450*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

// Options that make no sense are found at the start.
func TestRetryPanicsOnMisuse(t *testing.T) {
	for name, options := range map[string]outbound.Options{
		"without Most":           {Retry: outbound.Retry{Tokens: 5}},
		"a number below 0":       {Retry: outbound.Retry{Most: -1}},
		"number below 0: ":       {Retry: outbound.Retry{Most: 1, Pause: -1}},
		"is NaN":                 {Retry: outbound.Retry{Most: 1, Ratio: math.NaN()}},
		"is -0.1":                {Retry: outbound.Retry{Most: 1, Ratio: -0.1}},
		"is +Inf":                {Retry: outbound.Retry{Most: 1, Ratio: math.Inf(1)}},
		"Rejected has no effect": {Rejected: func(*http.Response, error) bool { return true }},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if said, _ := recover().(string); !strings.HasPrefix(said, "outbound: ") || !strings.Contains(said, name) {
					t.Errorf("panics with %q, want a reason", said)
				}
			}()
			outbound.New(memory(), core.Unlimited, options)
		})
	}
}

// A panic reaches the caller, leaves no place behind, and closes the answer.
func TestPanicsInThrottlesAndRetries(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		limiter := core.New(core.NewMemory())
		defer limiter.Close()
		body := &closed{Reader: strings.NewReader("answer")}
		transport := outbound.New(limiter, single, outbound.Options{
			Throttle: true, Retry: outbound.Retry{Most: 1}, Rejected: func(*http.Response, error) bool { panic("a hook") },
			Base: answers(func(r *http.Request) (*http.Response, error) {
				response, err := answered(http.StatusOK)(r)
				response.Body = body
				return response, err
			}),
		})
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic has not reached the caller")
				}
			}()
			_, _ = start(t.Context(), t, transport)
		}()
		if !body.closed {
			t.Error("the answer is open")
		}
		expectFree(t, limiter, 1)
	})
}
