package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/goleak"

	"github.com/weir-go/ratelimit/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// partner counts the calls that it has served, by order.
type partner struct {
	*httptest.Server

	mu      sync.Mutex
	calls   int
	last    time.Time     // of the calls
	pause   time.Duration // the longest between two calls
	shipped map[string]int
}

// startPartner starts a partner that asks before each call whether it is overloaded.
func startPartner(t *testing.T, overloaded func(call int) bool) *partner {
	t.Helper()
	p := &partner{shipped: make(map[string]int)}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		now := time.Now()
		if p.calls > 0 {
			p.pause = max(p.pause, now.Sub(p.last))
		}
		p.last = now
		p.calls++
		call := p.calls
		p.mu.Unlock()
		if overloaded(call) {
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		p.mu.Lock()
		p.shipped[r.Header.Get("Idempotency-Key")]++
		p.mu.Unlock()
	}))
	t.Cleanup(p.Close)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	return p
}

// limiter returns what a process of the fleet has.
func limiter(t *testing.T, redis *miniredis.Miniredis, options ...core.Option) *core.Limiter {
	t.Helper()
	l, err := core.Open("redis://"+redis.Addr(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// queued returns a closed queue of some orders.
func queued(n int) <-chan string {
	queue := make(chan string, n)
	for i := range n {
		queue <- strconv.Itoa(i)
	}
	close(queue)
	return queue
}

func TestTheFleetKeepsThePartnersPace(t *testing.T) {
	t.Parallel()
	p := startPartner(t, func(call int) bool { return call == 4 })
	redis := miniredis.RunT(t)
	queue := queued(12)
	began := time.Now()
	var fleet sync.WaitGroup
	for range 2 {
		client := newClient(limiter(t, redis, core.WithBudget(time.Minute)))
		fleet.Go(func() { work(t.Context(), client, p.URL, queue) })
	}
	fleet.Wait()

	if p.calls != 13 || len(p.shipped) != 12 {
		t.Errorf("%d calls have shipped %v", p.calls, p.shipped)
	}
	// Twelve gaps of 200 ms. The partner has asked for two seconds, and the calls that were on their way may come late.
	if took := time.Since(began); took < 2400*time.Millisecond || p.pause < time.Second {
		t.Errorf("13 calls have taken %v, with a pause of %v", took, p.pause)
	}
}

func TestNoCallIsMadeWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	p := startPartner(t, func(int) bool { return false })
	redis := miniredis.RunT(t)
	client := newClient(limiter(t, redis))
	redis.Close()
	work(t.Context(), client, p.URL, queued(1))
	if p.calls != 0 {
		t.Errorf("%d calls", p.calls)
	}
}

func TestTheEndWaitsForCallsInFlight(t *testing.T) {
	t.Parallel()
	begun, finish := make(chan bool), make(chan bool)
	p := startPartner(t, func(int) bool {
		begun <- true
		<-finish
		return false
	})
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() {
		work(ctx, newClient(core.New(core.NewMemory())), p.URL, orders(ctx))
		close(ended)
	}()
	for range workers {
		<-begun
	}
	interrupt()
	select {
	case <-ended:
		t.Error("it has not waited")
	case <-time.After(50 * time.Millisecond):
	}
	close(finish)
	<-ended
	if len(p.shipped) != workers {
		t.Errorf("shipped %v, want what was in flight", p.shipped)
	}
}

// The partner that comes with the program denies what is too much, and is overloaded at times.
func TestPartner(t *testing.T) {
	h := newPartner()
	statuses := make(map[int]int)
	for range 1000 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/shipments", nil))
		statuses[w.Code]++
		if w.Code != http.StatusOK && w.Header().Get("Retry-After") == "" {
			t.Errorf("answered %d without a Retry-After", w.Code)
		}
		if statuses[http.StatusTooManyRequests] > 0 {
			return
		}
	}
	t.Errorf("answered %v", statuses)
}
