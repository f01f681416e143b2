package core_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// stall is for how long the machine may keep a fleet from going on while the order is judged in which its waiters are served. One
// that has not asked for most of a second is dead to the others, and loses its turn.
const stall = 250 * time.Millisecond

// tries is how often that is repeated because the machine has stalled.
const tries = 12

// watchStalls measures, until it is asked, the longest time for which the machine has kept this process, or a server, from going on.
func watchStalls(client redis.Cmdable) (longest func() time.Duration) {
	const pause = 5 * time.Millisecond
	ctx, stop := context.WithCancel(context.Background())
	measured := make(chan time.Duration, 1)
	go func() {
		most := time.Duration(0)
		for ctx.Err() == nil {
			began := time.Now()
			time.Sleep(pause)
			_ = client.Ping(context.Background()).Err() // by an error nothing is measured but its time
			most = max(most, time.Since(began)-pause)
		}
		measured <- most
	}()
	return func() time.Duration {
		stop()
		return <-measured
	}
}

// steadily has something judged that a stall of the machine spoils: what is wrong with it counts if it is seen at each of three
// attempts without a stall. Waiters may be served out of their order by a tenth of a second, which a busy machine makes of less.
// Nothing is wrong if that is "".
func steadily(t *testing.T, client redis.Cmdable, judge func(try int) (wrong string)) {
	t.Helper()
	attempt := 1
	for try := 1; ; try++ {
		longest := watchStalls(client)
		wrong := judge(try)
		stalled := longest()
		if wrong == "" || t.Failed() {
			return
		}
		if stalled < stall {
			attempt++
		}
		if attempt > 3 || try == tries {
			t.Errorf("%s, at try %d, while the machine has stood still for %v at most", wrong, try, stalled)
			return
		}
	}
}

// attempts is how often processes may try to show that they are served alike while the machine does not stall.
const attempts = 5

// servedAlike has processes judged: what is wrong with them counts if it is seen at each of several attempts. At each of them they are
// slower by half than at the one before, since a busy machine takes longer for everything. An attempt at which the machine
// has stalled is repeated.
func servedAlike(t *testing.T, judge func(slower int) (wrong string, stalled time.Duration)) {
	t.Helper()
	for attempt, try := 1, 1; ; try++ {
		wrong, stalled := judge(1 << (attempt - 1))
		switch {
		case wrong == "" || t.Failed():
			return
		case stalled >= stall && try < tries:
			continue
		case attempt == attempts:
			t.Fatalf("%d times in vain, the last time %s, while the machine has stood still for %v at most", attempts, wrong, stalled)
		}
		attempt++
	}
}
