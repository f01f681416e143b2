package mistakes

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/weir-go/ratelimit/core"
)

// What is remembered of a limiter does not keep it alive, and goes with it.
func TestWhatIsRememberedOfALimiterGoesWithIt(t *testing.T) {
	id := func() weak.Pointer[core.Limiter] {
		limiter := core.New(core.NewMemory())
		for n := range mostBuilt + 100 {
			WarnOfEqual(limiter, nil, []Limit{{Limit: core.Leaky(n+1, core.PerSecond(1))}})
		}
		id := weak.Make(limiter)
		if n := len(builtOf(id).places); n != mostBuilt {
			t.Errorf("%d limits are remembered, want %d", n, mostBuilt)
		}
		runtime.KeepAlive(limiter)
		return id
	}()
	for deadline := time.Now().Add(10 * time.Second); builtOf(id) != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("what was remembered is still there; the limiter is, too: %t", id.Value() != nil)
		}
		runtime.GC()
	}
}

func builtOf(id weak.Pointer[core.Limiter]) *builtBy {
	built.mu.Lock()
	defer built.mu.Unlock()
	return built.by[id]
}
