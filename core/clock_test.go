package core

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"
)

func TestTheForwardClockCountsMicroseconds(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		now := forwardClock()
		time.Sleep(time.Second + time.Microsecond)
		if got := now(); got != time.Now().UnixMicro() {
			t.Errorf("%d µs, want %d", got, time.Now().UnixMicro())
		}
	})
}
