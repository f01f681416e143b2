// Package bubbletest runs tests in bubbles of package testing/synctest, where time is faked.
package bubbletest

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// Run is [synctest.Test]. With the race detector, one processor alone runs Go code meanwhile: Go 1.26 has all processors run the timers of
// a bubble in one context of the detector, and two at once end the process with "ThreadSanitizer: CHECK failed"
// (https://go.dev/issue/78156).
func Run(t *testing.T, test func(*testing.T)) {
	t.Helper()
	if raced {
		enter()
		defer leave()
	}
	synctest.Test(t, test) //nolint:forbidigo // this is the place
}

var (
	mu      sync.Mutex
	bubbles int // that run just now
	former  int // how many processors there were before
)

func enter() {
	mu.Lock()
	defer mu.Unlock()
	if bubbles++; bubbles == 1 {
		former = runtime.GOMAXPROCS(1)
	}
}

func leave() {
	mu.Lock()
	defer mu.Unlock()
	if bubbles--; bubbles == 0 {
		runtime.GOMAXPROCS(former)
	}
}
