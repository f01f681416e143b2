package guardtest

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var timedOutCases = []testCase{
	{"a handler that has timed out may go on to settle, grow and spend", testTimedOutHandler},
	{"many goroutines of a handler may settle and grow at once", testSettledByMany},
}

func testTimedOutHandler(t *testing.T, s *suite) {
	limiter := core.New(core.NewMemory())
	defer limiter.Close()
	var handlers sync.WaitGroup
	var settled atomic.Int64
	own := spentOf(hundred(), 1)
	own.Settle.First = false
	own.Settle.Cost = func(_ *http.Request, served guard.Served) int {
		settled.Add(1)
		return served.Spent
	}
	desks := deskPolicy(1000)
	outer := s.new(limiter, guard.Options{}, own, desks, guard.Policy{Ban: guard.BanPolicy{Ban: brute(), Strike: says(0)}, By: keyfuncs.RemoteIP})
	slow := http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer handlers.Done()
		go func() { _, _ = io.WriteString(w, "late") }()
		<-r.Context().Done()
		for range 5 {
			_, _ = guard.Grow(r.Context(), 2, hundred())
			guard.Spend(r.Context(), 1)
			guard.PermitFrom(r.Context()).Release()
			guard.Settle(r.Context())
			_ = guard.OutcomesFrom(r.Context())
			_, _ = guard.Grow(r.Context(), 3, hundred())
		}
	}), time.Millisecond, "")
	server := listen(t, s.serve(site{around: []middleware{outer}, handler: slow.ServeHTTP}))
	const requests = 50
	handlers.Add(requests)
	var clients sync.WaitGroup
	for range requests {
		clients.Go(func() {
			if response, err := http.Get(server.URL + "/"); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		})
	}
	clients.Wait()
	handlers.Wait()
	if got := settled.Load(); got > requests || got == 0 {
		t.Errorf("%d requests were settled %d times", requests, got)
	}
	awaitTaken(t, limiter, desk(1000), 0)
}

func testSettledByMany(t *testing.T, s *suite) {
	limiter := core.New(core.NewMemory())
	defer limiter.Close()
	var settled atomic.Int64
	own := spentOf(hundred(), 1)
	own.Settle.Cost = func(_ *http.Request, served guard.Served) int {
		settled.Add(1)
		return served.Spent
	}
	h := s.serve(site{
		around: []middleware{s.new(limiter, guard.Options{}, own, deskPolicy(1000))},
		inside: []middleware{s.new(limiter, guard.Options{}, own)},
		handler: func(w http.ResponseWriter, r *http.Request) {
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					guard.Spend(r.Context(), 1)
					_, _ = guard.Grow(r.Context(), i, hundred())
					guard.Settle(r.Context())
				})
			}
			_, _ = io.WriteString(w, "meanwhile")
			all.Wait()
		},
	})
	for range 50 {
		settled.Store(0)
		if err := limiter.Reset(t.Context(), globalKey, hundred()); err != nil {
			t.Fatal(err)
		}
		get(h)
		if got := settled.Load(); got != 2 { // once for each of the two policies
			t.Fatalf("settled %d times", got)
		}
	}
	awaitTaken(t, limiter, desk(1000), 0)
}
