package core

import "time"

// forwardClock returns a clock that never goes back: a function that returns microseconds since 1970, as this process's clock has them now and
// its monotonic clock counts them from now on. It may be called by many goroutines at once.
func forwardClock() func() int64 {
	start := time.Now()
	began := start.UnixMicro()
	return func() int64 { return began + time.Since(start).Microseconds() }
}
