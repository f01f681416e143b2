package outbound_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/outbound"
)

// slow is somebody else's API, which takes a second for an answer and counts who is inside.
type slow struct {
	mu           sync.Mutex
	inside, most int
	err          error
}

func (s *slow) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.inside++
	s.most = max(s.most, s.inside)
	s.mu.Unlock()
	time.Sleep(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside--
	if s.err != nil {
		return nil, s.err
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("answer")), Request: r}, nil
}

var two = core.Concurrent(2, 30*time.Second)

func TestNoMoreCallsAtOnceThanPlaces(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		limiter, base := core.New(core.NewMemory()), new(slow)
		defer limiter.Close()
		transport := outbound.New(limiter, two, outbound.Options{Base: base})
		start := time.Now()
		var group sync.WaitGroup
		for range 6 {
			group.Go(func() {
				if _, err := call(t.Context(), transport, "https://partner.example/"); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if base.most != 2 {
			t.Errorf("%d calls at once, want 2", base.most)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("six calls took %v, want 3s", took)
		}
	})
}

func TestCallHoldsItsPlaceUntilTheBodyIsRead(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		limiter := core.New(core.NewMemory())
		defer limiter.Close()
		one := core.Concurrent(1, 30*time.Second)
		transport := outbound.New(limiter, one, outbound.Options{Base: new(slow), LongestWait: -1})
		open := func() *http.Response {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://partner.example/", nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			return response
		}
		for name, end := range map[string]func(*http.Response){
			"closed": func(r *http.Response) { r.Body.Close() },
			"read":   func(r *http.Response) { _, _ = io.Copy(io.Discard, r.Body) },
		} {
			response := open()
			if _, err := call(t.Context(), transport, "https://partner.example/"); err == nil {
				t.Errorf("%s: a second call while the body of the first one is open", name)
			}
			end(response)
			synctest.Wait()
			if d, err := limiter.Peek(t.Context(), "host:partner.example", one); err != nil || d.Remaining != 1 {
				t.Errorf("%s: %d places are free, %v", name, d.Remaining, err)
			}
			response.Body.Close()
		}
	})
}

func TestFailedCallGivesItsPlaceBack(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		limiter, broken := core.New(core.NewMemory()), errors.New("broken")
		defer limiter.Close()
		transport := outbound.New(limiter, two, outbound.Options{Base: &slow{err: broken}, LongestWait: -1})
		for range 5 {
			if _, err := call(t.Context(), transport, "https://partner.example/"); !errors.Is(err, broken) {
				t.Fatal(err)
			}
			synctest.Wait()
		}
	})
}

func TestCallThatLeavesWhileItWaitsHoldsNothing(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		limiter, base := core.New(core.NewMemory()), new(slow)
		defer limiter.Close()
		transport := outbound.New(limiter, core.Concurrent(1, 30*time.Second), outbound.Options{Base: base})
		go func() { _, _ = call(t.Context(), transport, "https://partner.example/") }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := call(ctx, transport, "https://partner.example/"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if _, err := call(t.Context(), transport, "https://partner.example/"); err != nil || base.most != 1 {
			t.Errorf("%v, %d at once", err, base.most)
		}
	})
}
