package lease

import (
	"sync/atomic"
	"time"
)

// hot is how many units of a key this process has to ask for, within the time that a grant lasts, before it is granted
// units ahead. So a key that is asked for now and then stays exact, and costs nothing here.
const hot = 8

// cells is how many counters there are: a power of 2.
const cells = 1 << 13

// heat counts roughly how often keys are asked for, in bounded memory. Keys may share a counter: then one of them is granted units
// although it is not hot, which is no harm.
type heat struct{ of [cells]atomic.Uint64 }

// odd is a number that spreads others when they are multiplied with it.
const odd = 0x9E3779B97F4A7C15

// add counts units of a key under a limit, both in the hash, and reports whether they are hot in the time that a grant
// lasts. now is in nanoseconds.
func (h *heat) add(hash uint64, lasts time.Duration, units int, now int64) bool {
	const counted = 20 // bits
	cell, period := &h.of[(hash^uint64(lasts)*odd>>32)%cells], uint64(now/int64(lasts))<<counted
	for {
		was := cell.Load()
		count := was & (1<<counted - 1)
		if was>>counted != period>>counted {
			count = 0
		}
		count = min(count+uint64(min(units, hot)), hot)
		if cell.CompareAndSwap(was, period|count) {
			return count >= hot
		}
	}
}
