package poll

import (
	"testing"
	"time"
)

// The processes of a fleet do not read at the same instant: the pauses of a loop differ, by a tenth to each side.
func TestPausesDiffer(t *testing.T) {
	l := Loop{Every: 100 * time.Second}
	shortest, longest := l.pause(), l.pause()
	for range 1000 {
		p := l.pause()
		shortest, longest = min(shortest, p), max(longest, p)
	}
	if shortest < 90*time.Second || longest > 110*time.Second || shortest > 95*time.Second || longest < 105*time.Second {
		t.Errorf("pauses from %v to %v, want 90s to 110s", shortest, longest)
	}
}
