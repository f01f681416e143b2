package redisstore

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/redistest"
)

// A waiter stays before those that came after it when the clock of Redis steps back.
func TestOrderOutlivesAStepOfTheClock(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).UnixMicro())
	r := newStore(redistest.Shared(t).Client(t), func(c *Config) {
		c.Prefix, c.Clock = redistest.Prefix(t), now.Load
	})
	never := func() bool { return false }
	older, younger := r.NewWakes(func(uint64) {}, never).Rank(1, "key", hourly, "10"), r.NewWakes(func(uint64) {}, never).Rank(1, "key", hourly, "10")
	came := time.Now().Add(-time.Second)
	stand := func(rank *Rank, came time.Time) []Other {
		others, err := rank.Stand(1, came, time.Now(), false)
		if err != nil {
			t.Fatal(err)
		}
		return others
	}
	stand(older, came)
	now.Add(-time.Minute.Microseconds())
	stand(older, came)
	if others := stand(younger, came.Add(500*time.Millisecond)); len(others) != 1 || !others[0].Came.Before(came.Add(500*time.Millisecond)) {
		t.Errorf("others are %v, want the one that came at %v", others, came)
	}
	if others := stand(older, came); len(others) != 1 || others[0].Came.Before(came) {
		t.Errorf("others are %v, want one that came after %v", others, came)
	}
}
