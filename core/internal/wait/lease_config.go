package wait

import (
	"context"
	"errors"
	"time"
)

// LeasesConfig has the functions that renew leases. Lost and Renewed may be nil.
type LeasesConfig struct {
	// Renew asks the store to renew leases, and sets the answer for each of the places that it knows one of.
	// All answers are Unanswered at first. An answer counts whether or not Renew returns an error: a store
	// on several servers may know some. A panic is an error, and leaves all answers Unanswered.
	//
	// ctx ends when the Leases are closed. Renew needs a time limit of its own: while it runs it occupies
	// one of InFlight places, and its leases are not renewed again.
	Renew func(ctx context.Context, places []*Place, answers []Renewal) error
	// Most is how many leases one Renew has at most, and InFlight is how many Renews run at once at most.
	Most, InFlight int
	// Lost is called once for each lease that is lost, with ErrExpired or ErrNotHeld. It is not called for a
	// lease that ended before.
	Lost func(place *Place, reason error)
	// Renewed is called after each Renew, when all its answers are known.
	Renewed func(RenewalReport)
}

// Renewal is a store's answer to the renewal of a lease.
type Renewal uint8

const (
	// Unanswered says that there is no answer. The renewal is retried soon.
	Unanswered Renewal = iota
	// Held says that the lease was renewed.
	Held
	// NotHeld says that the lease could not be renewed, because the store had forgotten its holder.
	NotHeld
)

// RenewalReport tells of one Renew.
type RenewalReport struct {
	Held, NotHeld, Unanswered int           // how many leases had which answer, those included that ended meanwhile
	Took                      time.Duration // until Renew returned
	Err                       error         // the error of Renew
}

// The reasons why a lease is over, unless its holder has ended it.
var (
	// ErrExpired means that the lease was not renewed in time, so that the store may have given its
	// place to another holder.
	ErrExpired = errors.New("lease: not renewed in time")
	// ErrNotHeld means that the store has forgotten the holder.
	ErrNotHeld = errors.New("lease: not held any more")
	// ErrClosed means that the Leases were closed, so that nothing renews the lease.
	ErrClosed = errors.New("lease: closed")
)
