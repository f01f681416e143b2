package redisstore

import "testing"

// Somebody who waits for hours is called as well as somebody who has just come.
func TestSubscriptionLastsWhileSomebodyWaits(t *testing.T) {
	waits := true
	w := (&Store{}).NewWakes(func(uint64) {}, func() bool { return waits }) // it was never used
	if w.idle() {
		t.Error("it ends under a waiter")
	}
	if waits = false; !w.idle() {
		t.Error("it outlives the last waiter")
	}
}
