package core_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
)

// inOrder notes the first checks of the calls that are asked together, and holds them until it is opened.
type inOrder struct {
	core.Store

	opened chan struct{}
	mu     sync.Mutex
	asked  [][]core.Check
}

func (c *inOrder) Decide(ctx context.Context, calls []core.Call) (answered int, err error) {
	<-c.opened
	var first []core.Check
	for i := range calls {
		first = append(first, calls[i].Checks[0])
	}
	c.mu.Lock()
	c.asked = append(c.asked, first)
	c.mu.Unlock()
	return c.Store.Decide(ctx, calls)
}

// Calls that are asked together differ in what they cost, and in nothing else, as a store may rely on: a
// waiter for no units, who only looks, is asked for apart from those who are charged.
func TestCallsThatAreAskedTogetherDifferInTheirCostAlone(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		store := &inOrder{Store: core.NewMemory(), opened: make(chan struct{})}
		limiter, limit := core.New(store), core.Leaky(20, core.PerHour(1))
		for _, cost := range []int{1, 0, 5, 3, 0, 0, 4} {
			go func() {
				if err := limiter.WaitN(t.Context(), "key", limit, cost); err != nil {
					t.Errorf("for %d units: %v", cost, err)
				}
			}()
			synctest.Wait()
		}
		close(store.opened)
		synctest.Wait()
		asked := 0
		for _, together := range store.asked {
			asked += len(together)
			for _, check := range together {
				if check.Cost = together[0].Cost; check != together[0] {
					t.Errorf("asked together with %+v: %+v", together[0], check)
				}
			}
		}
		if got := used(t, limiter, limit); asked != 7 || got != 13 {
			t.Errorf("asked %d times, and %d units are used, want 7 and 13", asked, got)
		}
	})
}

// faithless is a store that answers no call, or panics.
type faithless struct {
	core.Store

	panics bool
}

func (s faithless) Decide(context.Context, []core.Call) (answered int, err error) {
	if s.panics {
		panic("out of order")
	}
	return 0, nil
}

// A store that breaks its word fails those who wait, and no others.
func TestWaitForAStoreThatBreaksItsWord(t *testing.T) {
	for _, store := range []core.Store{faithless{panics: true}, faithless{}} {
		limiter, limit := core.New(store), core.Leaky(10, core.PerHour(1))
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				if err := limiter.Wait(t.Context(), "key", limit); err == nil {
					t.Error("admitted by nobody")
				}
			})
		}
		group.Wait()
	}
}
