package wait

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
	"weak"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

const (
	// mostRenewed is how many leases are renewed in one call at most.
	mostRenewed = 128
	// renewalsInFlight is how many such calls there are at once.
	renewalsInFlight = 4
)

// PlacesConfig has the functions that renew places and give them back.
type PlacesConfig struct {
	// Renew renews the leases of places, and sets the answers that it knows: see [LeasesConfig].
	Renew func(ctx context.Context, list []*Place, answers []Renewal) error
	// GiveBack gives back places that have lost their [Hold]. It does not wait for the store.
	GiveBack func(*Place)
	// Held is called when the lease of places has begun, with their units, and when they are given back, with as many
	// units below 0, how long they were held, and why they had been lost before, if they had. It may panic.
	Held func(p *Place, units int, elapsed time.Duration, lost error)
	// Lost is called when places are lost, before that is logged. It must not panic.
	Lost func(*Place)
	// Renewed is called after each Renew. It may panic.
	Renewed func(RenewalReport)
	// Logger returns the logger for failures. It may panic, and so may the logger.
	Logger func() *slog.Logger
}

// Places are the places that a process holds. They are made by [NewPlaces], and may be used by many goroutines at once.
type Places struct {
	PlacesConfig

	// Times are how long places have lately been held.
	Times HeldTimes

	leases          *Leases
	lost, forgotten call.Warning
}

// NewPlaces returns Places without a place. All fields of config are needed.
func NewPlaces(config PlacesConfig) *Places {
	l := &Places{PlacesConfig: config}
	l.leases = NewLeases(LeasesConfig{
		Renew: l.renew,
		Most:  mostRenewed, InFlight: renewalsInFlight,
		Lost: l.lose, Renewed: config.Renewed,
	})
	return l
}

// Close ends all leases. It waits up to a second for renewals that are in flight.
func (l *Places) Close() { l.leases.Close() }

// Place is the state of the places of one check.
type Place struct {
	// Key and Spec are those of the check, and Units is how many places there are.
	Key   string
	Spec  *exact.Spec
	Units int
	// Shadow says that the places are those of a shadow check. They are neither counted nor reported.
	Shadow bool
	// Receipt is for the store, to renew the places and to give them back.
	Receipt call.Receipt
	// Token is greater than those of all earlier holders.
	Token uint64

	lease Lease
	began time.Time
	of    weak.Pointer[Hold] // nil once the caller cannot give the places back any more
	ended atomic.Bool        // they were given back, or are about to be
}

// Together reports whether a store keeps places that one call has taken together.
func (p *Place) Together(with *Place) bool {
	return p.Key == with.Key && p.Spec == with.Spec && p.Shadow == with.Shadow
}

// renew renews the leases of places, and gives forgotten ones back.
func (l *Places) renew(ctx context.Context, list []*Place, answers []Renewal) error {
	kept := make([]*Place, 0, len(list))
	at := make([]int, 0, len(list))
	for i, p := range list {
		if p.of.Value() == nil { // the caller has forgotten it
			l.giveBackForgotten(p)
			answers[i] = NotHeld
			continue
		}
		kept, at = append(kept, p), append(at, i)
	}
	if len(kept) == 0 {
		return nil
	}
	known := make([]Renewal, len(kept))
	err := l.Renew(ctx, kept, known)
	for i, answer := range known {
		answers[at[i]] = answer
	}
	return err
}

// errForgotten says that places were lost because they were never given back.
var errForgotten = errors.New("core: a permit was forgotten without Release, and its places are given back")

// giveBackForgotten gives back places with a [Hold] that has become unreachable.
func (l *Places) giveBackForgotten(p *Place) {
	if p.ended.Swap(true) {
		return // they were given back just now
	}
	l.GiveBack(p)
	l.noteEnd(p, errForgotten)
	l.warn(&l.forgotten, p, errForgotten.Error())
}

// noteEnd notes that places are given back, and why they had been lost before, if they had.
func (l *Places) noteEnd(p *Place, lost error) {
	elapsed := time.Since(p.began)
	l.Times.Note(p.Spec, elapsed)
	l.tellHeld(p, -p.Units, elapsed, lost)
}

// tellHeld calls the hook for places. If it panics, that is contained: it may run on a goroutine that renews the leases
// of others, or serves waiters.
func (l *Places) tellHeld(p *Place, units int, elapsed time.Duration, lost error) {
	if p.Shadow {
		return
	}
	defer func() { _ = recover() }()
	l.Held(p, units, elapsed, lost)
}

// lose tells and logs that places were lost before they were given back. When the store is down, all of them are.
func (l *Places) lose(p *Place, reason error) {
	l.Lost(p)
	if !p.ended.Load() { // else they were forgotten, which was logged
		l.warn(&l.lost, p, "core: a place was lost before it was given back", slog.Any("error", reason))
	}
}

// warn logs something about places, once in a while. A logger that panics does not keep the leases of others from
// being renewed.
func (l *Places) warn(w *call.Warning, p *Place, message string, more ...any) {
	defer func() { _ = recover() }()
	w.Log(l.Logger(), message, append(more, slog.String("limit", p.Spec.String()))...)
}
