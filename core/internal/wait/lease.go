package wait

import (
	"context"
	"time"
)

// Lease is the lease of places. It is made by [Leases.Begin] or begun by [Leases.Start], and may be used by many
// goroutines at once.
type Lease struct {
	leases *Leases
	of     *Place
	length time.Duration

	// The lock of leases guards the fields below.
	at      [events]time.Duration // since the epoch
	place   [events]int           // in the schedules
	over    error                 // why it is over; nil: it is not, as far as was noticed
	ended   bool                  // End was called
	cancels []context.CancelCauseFunc
}

// End ends the lease, and reports whether this is the first call: then the caller has to give its places back. It is true
// once, also for a lease that was lost or closed. No renewal is sent after End returns, except one that is in flight
// already. Contexts of the lease end with context.Canceled.
func (x *Lease) End() (first bool) {
	first, _ = x.end()
	return first
}

// Finish is End, and returns the result that Err would have had just before.
func (x *Lease) Finish() (before error) {
	_, before = x.end()
	return before
}

func (x *Lease) end() (first bool, before error) {
	l := x.leases
	l.mu.Lock()
	before = x.err()
	first, x.ended = !x.ended, true
	var canceled finished
	if x.over == nil {
		canceled = l.finish(x, context.Canceled)
	}
	l.mu.Unlock()
	canceled.cancel()
	return first, before
}

// Err returns nil while the lease is certain, and otherwise the first of these to happen: ErrExpired, ErrNotHeld,
// ErrClosed, or context.Canceled for End. It asks the clock, so it is right even if nothing else in the process has had
// the time to notice.
func (x *Lease) Err() error {
	x.leases.mu.Lock()
	defer x.leases.mu.Unlock()
	return x.err()
}

// err is Err. The lock is held.
func (x *Lease) err() error {
	if x.over == nil && x.at[deadline] <= x.leases.now() {
		return ErrExpired
	}
	return x.over
}

// Context returns a context that ends when the lease is no longer certain, when it ends, and when parent ends. Its cause
// is the error of Err. Each call makes another one, which stays in memory until the lease is over.
func (x *Lease) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	if over := x.onceOver(cancel); over != nil {
		cancel(over)
	}
	return ctx
}

// onceOver keeps a function to be called when the lease is over. If it is over already, it returns why instead.
func (x *Lease) onceOver(cancel context.CancelCauseFunc) (over error) {
	x.leases.mu.Lock()
	defer x.leases.mu.Unlock()
	if over = x.err(); over == nil {
		x.cancels = append(x.cancels, cancel)
	}
	return over
}

// isFresh reports whether a lease that is not over has not been due yet. The lock is held.
func (x *Lease) isFresh() bool { return x.place[deadline] == absent }

// finished is a lease that is over, and is handled when the lock is not held any more.
type finished struct {
	of      *Place
	reason  error
	cancels []context.CancelCauseFunc
}

// cancel ends the contexts of the lease.
func (f *finished) cancel() {
	for _, cancel := range f.cancels {
		cancel(f.reason)
	}
}
