package wait

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	never = time.Duration(math.MaxInt64)
	// shortestPause is the shortest time between a renewal that failed and the next try.
	shortestPause = 10 * time.Millisecond
	// longestClose bounds how long Close waits.
	longestClose = time.Second
)

// certain returns how long a lease is certain after its request was sent.
func certain(length time.Duration) time.Duration { return length - length/100 }

// part returns a fraction of a time.
func part(of time.Duration, fraction float64) time.Duration {
	return time.Duration(float64(of) * fraction)
}

// Leases are the leases of a process. They are made by [NewLeases] and may be used by many goroutines at once. They
// have a timer while there are leases, and a goroutine while they renew some.
type Leases struct {
	LeasesConfig

	epoch  time.Time       // the instants below count from it
	random func() float64  // from 0 up to, but not including, 1
	closes context.Context //nolint:containedctx // all Renews have it
	close  context.CancelFunc

	mu        sync.Mutex
	fresh     schedule // by renewal: leases that have not been due yet, and need no deadline so far
	renewals  schedule // the others, unless they are in flight
	deadlines schedule // the others, those in flight included
	timer     *time.Timer
	alarm     time.Duration // when the timer goes off
	starting  bool          // a goroutine is about to take the due leases
	inFlight  int           // Renews
	running   int           // goroutines
	closed    bool
	stopped   chan struct{} // closed when no goroutine runs any more; nil if Close does not wait for that
}

// NewLeases returns Leases without a lease. It starts no goroutine. It panics if a field of config that is needed is
// missing.
func NewLeases(config LeasesConfig) *Leases {
	if config.Renew == nil || config.Most < 1 || config.InFlight < 1 {
		panic("lease: Renew, Most and InFlight are needed")
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &Leases{LeasesConfig: config, epoch: time.Now(), random: rand.Float64, closes: ctx, close: cancel, alarm: never}
	l.fresh, l.renewals, l.deadlines = newSchedule(renewal), newSchedule(renewal), newSchedule(deadline)
	return l
}

// now returns the time since the epoch, on the monotonic clock.
func (l *Leases) now() time.Duration { return time.Since(l.epoch) }

// Begin begins a lease of some length. sent is the time, from time.Now, just before the successful request for
// it was sent. The lease is certain until sent + length − length/100. It is renewed for the first time a third
// of its length after sent, or up to length/30 earlier, so that a crowd that came at once is spread. The caller
// has to call End. If the Leases are closed, the lease is over from the beginning, with ErrClosed.
func (l *Leases) Begin(place *Place, length time.Duration, sent time.Time) *Lease {
	x := new(Lease)
	l.Start(x, place, length, sent)
	return x
}

// Start is Begin for a lease that is a part of something else. The lease must be new, and must not be copied.
func (l *Leases) Start(x *Lease, place *Place, length time.Duration, sent time.Time) {
	at := sent.Sub(l.epoch)
	due := at + length/3 - part(length/30, l.random())
	x.leases, x.of, x.length, x.place = l, place, length, [events]int{absent, absent}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		x.over = ErrClosed
		return
	}
	x.at[deadline] = at + certain(length)
	l.fresh.put(x, due)
	if due < l.alarm {
		l.setAlarm(due)
	}
}

// Len returns how many leases are not over.
func (l *Leases) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fresh.Len() + l.deadlines.Len()
}

// Close ends all leases with ErrClosed, and the contexts of Renews that are in flight. No hook is called any
// more once Close has returned, unless a Renew or a hook takes longer than a second: Close does not wait for more.
// A second Close waits as the first one does. Renew and the hooks must not call it.
func (l *Leases) Close() {
	stopped, all := l.shut()
	l.close()
	for i := range all {
		all[i].cancel()
	}
	if stopped == nil {
		return
	}
	patience := time.NewTimer(longestClose)
	defer patience.Stop()
	select {
	case <-stopped:
	case <-patience.C:
	}
}

// shut closes the Leases for new leases and renewals. It returns a channel that is closed when no goroutine runs any
// more, or nil if none does, and the leases that it has ended.
func (l *Leases) shut() (stopped <-chan struct{}, all []finished) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.promote(never)
	for x := l.deadlines.due(never); x != nil; x = l.deadlines.due(never) {
		all = append(all, l.finish(x, ErrClosed))
	}
	l.arm()
	if l.running > 0 && l.stopped == nil {
		l.stopped = make(chan struct{})
	}
	return l.stopped, all
}

// finish makes a lease over that is not. The lock is held.
func (l *Leases) finish(x *Lease, reason error) finished {
	if x.isFresh() {
		l.fresh.drop(x)
	} else {
		l.renewals.drop(x)
		l.deadlines.drop(x)
	}
	f := finished{of: x.of, reason: reason, cancels: x.cancels}
	x.over, x.cancels = reason, nil
	return f
}

// promote moves leases that are due for the first time to the schedules of the others. The lock is held.
func (l *Leases) promote(now time.Duration) {
	for x := l.fresh.pop(now); x != nil; x = l.fresh.pop(now) {
		l.renewals.put(x, x.at[renewal])
		l.deadlines.put(x, x.at[deadline])
	}
}
