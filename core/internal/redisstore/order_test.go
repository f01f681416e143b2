package redisstore

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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
		others, err := rank.Stand(1, came, time.Now(), 0)
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

// Older waiters are called as far as the room reaches, the oldest first: none for which an older one would have to be passed.
func TestOlderWaitersAreCalledAsFarAsTheRoomReaches(t *testing.T) {
	client, prefix := redistest.Shared(t).Client(t), redistest.Prefix(t)
	r := newStore(client, func(c *Config) { c.Prefix = prefix })
	wakes := r.NewWakes(func(uint64) {}, func() bool { return false })
	subscription := client.Subscribe(t.Context(), wakes.channel(wakes.process))
	defer func() { _ = subscription.Close() }()
	if _, err := subscription.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	came := time.Now().Add(-time.Minute)
	stand := func(line uint64, cost, room int) {
		rank := wakes.Rank(line, "key", hourly, "10")
		if _, err := rank.Stand(cost, came.Add(time.Duration(line)*time.Second), time.Now().Add(time.Hour), room); err != nil {
			t.Fatal(err)
		}
	}
	stand(1, 10, 0)
	stand(2, 2, 0)
	for _, room := range []int{0, 6, 10, 11, 12} {
		stand(3, 1, room)
	}
	var called []string
	for range 4 {
		message, err := subscription.ReceiveTimeout(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		called = append(called, message.(*redis.Message).Payload)
	}
	if want := []string{"1", "1", "1", "2"}; !slices.Equal(called, want) {
		t.Errorf("called: %q, want %q", called, want)
	}
}
