package core

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTheForwardClockCountsMicroseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := forwardClock()
		time.Sleep(time.Second + time.Microsecond)
		if got := now(); got != time.Now().UnixMicro() {
			t.Errorf("%d µs, want %d", got, time.Now().UnixMicro())
		}
	})
}
