package grant

import "sync/atomic"

// hot is how many units of a key this process has to ask for, within the time that a grant lasts, before it is granted
// units ahead. So a key that is asked for now and then stays exact, and costs nothing here.
const hot = 8

// cells is how many counters there are: a power of 2.
const cells = 1 << 13

// heat counts roughly how often keys are asked for, in bounded memory. Keys may share a counter: then one of them is granted units
// although it is not hot, which is no harm.
type heat struct{ of [cells]atomic.Uint64 }

// add counts units of a key, whose hash it is, under a limit with some terms, and reports whether it is hot. now is in
// nanoseconds.
func (h *heat) add(hash uint64, terms *Terms, units int, now int64) bool {
	const counted, odd = 20, 0x9E3779B97F4A7C15 // bits, and a number that spreads others
	hash ^= (uint64(terms.Lasts)*odd + uint64(terms.Most)) * odd >> 32
	cell, period := &h.of[hash%cells], uint64(now/int64(terms.Lasts))<<counted
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
