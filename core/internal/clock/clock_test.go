package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestForwardCountsMicroseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := Forward()
		time.Sleep(time.Second + time.Microsecond)
		if got := now(); got != time.Now().UnixMicro() {
			t.Errorf("%d µs, want %d", got, time.Now().UnixMicro())
		}
	})
}
