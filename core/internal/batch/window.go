package batch

import "time"

const (
	// leastOwn is how long the server is busy with a full batch, at least.
	leastOwn = time.Millisecond
	// mostQueued is how many batches may wait at the server for each other. Fewer than fewQueued leave room for more.
	mostQueued, fewQueued = 2, 1
	// lowestLasts is how long the lowest round trip is remembered, at least: a network can become slower for good.
	lowestLasts = 10 * time.Second
)

// window works out how many batches may be in flight, so that a distant server always has work and a slow one has no
// queue. The right number is as many as the server answers in a round trip: bandwidth times delay. With more, they wait
// for each other at the server, and the round trip gets longer. The zero value with least set is ready to use. The lane's
// lock guards it.
type window struct {
	least   int
	further int  // how many more there may be
	slowly  bool // there were too many once: it grows by one, and not to twice as many

	lowest, earlier time.Duration // the lowest round trips, of this period and of the one before; 0: none
	period          int64         // when this period began, see sinceEpoch

	// The fields below are of a round: as many full batches as may be in flight.
	answered int
	shortest time.Duration
	used     bool // as many were in flight as may be
}

// of returns how many batches may be in flight, up to most.
func (w *window) of(most int) int { return min(w.least+w.further, max(most, w.least)) }

// note notes that the server has answered a batch at an instant, after a time.
func (w *window) note(now int64, took time.Duration) {
	if w.lowest == 0 || took < w.lowest {
		w.lowest = max(1, took)
	}
	if now-w.period >= int64(lowestLasts) {
		w.earlier, w.lowest, w.period = w.lowest, max(1, took), now
	}
}

// noteFull notes that a full batch was answered after a time, while inFlight batches were in flight. There may be most of
// them.
func (w *window) noteFull(took time.Duration, inFlight, most int) {
	size := w.of(most)
	if w.answered++; w.answered == 1 || took < w.shortest {
		w.shortest = took
	}
	if w.used = w.used || inFlight >= size; w.answered < size {
		return
	}
	w.judge(size)
	w.answered, w.used = 0, false
}

// judge changes the size at the end of a round.
func (w *window) judge(size int) {
	lowest := w.lowest
	if w.earlier > 0 {
		lowest = min(lowest, w.earlier)
	}
	queued := float64(size) * (1 - float64(lowest)/float64(w.shortest))
	switch {
	case queued > mostQueued:
		w.further, w.slowly = max(0, min(w.further, size-w.least)-1), true
	case queued < fewQueued && w.used:
		more := size
		if w.slowly {
			more = 1
		}
		own := max(leastOwn, w.shortest-lowest) // by how much it takes longer than a small one
		w.further = min(size-w.least+more, int(lowest/own))
	}
}

// reset begins anew when the server has failed. The known round trips stay.
func (w *window) reset() { w.further, w.slowly, w.answered, w.used = 0, false, 0, false }
