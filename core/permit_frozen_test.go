package core_test

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// Release returns at the end of the budget, however many others wait for a server that does not answer. The patience of
// those who wait to be sent is ten times as long.
func TestReleaseOnAFrozenServer(t *testing.T) {
	const budget = 300 * time.Millisecond
	server := redistest.Start(t)
	l := core.New(core.NewRedis(server.Client(t), core.WithBudget(budget), core.WithBreaker(0, 0), core.WithLogger(slog.New(slog.DiscardHandler))))
	defer l.Close()
	limit := core.Concurrent(1000, time.Minute)
	permits := make([]*core.Permit, 600)
	for i := range permits {
		permits[i] = acquire(t, l, "key", limit)
	}
	server.Pause(t)
	var group sync.WaitGroup
	var mu sync.Mutex
	var longest time.Duration
	for _, p := range permits {
		group.Go(func() {
			began := time.Now()
			p.Release()
			mu.Lock()
			defer mu.Unlock()
			longest = max(longest, time.Since(began))
		})
	}
	group.Wait()
	if longest > 5*budget {
		t.Errorf("a release took %v, want %v", longest, budget)
	}
	server.Resume(t)
}
