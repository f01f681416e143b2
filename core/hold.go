package core

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
	"weak"

	"github.com/weir-go/ratelimit/core/internal/heldtimes"
	"github.com/weir-go/ratelimit/core/internal/lease"
	"github.com/weir-go/ratelimit/core/internal/warning"
)

// hold is the places of concurrent limits that a reservation has, until they are given back.
type hold struct {
	limiter *Limiter
	places  []*place // those of each check that has some
	leases  []*lease.Lease[*place]
	ended   atomic.Bool   // no lease is renewed any more
	claimed atomic.Uint32 // whoever gives the places back

	// What places and leases are in, unless there are several.
	onePlace [1]*place
	oneLease [1]*lease.Lease[*place]
}

// The claims of a hold: it is given back once.
const (
	unclaimed uint32 = iota
	byPermit
	byReservation
)

// claim reports whether the places are somebody's to give back. first says that they were nobody's before.
func (h *hold) claim(by uint32) (mine, first bool) {
	if h.claimed.CompareAndSwap(unclaimed, by) {
		return true, true
	}
	return h.claimed.Load() == by, false
}

// place is what is known of the places of one check, to renew them and to give them back.
type place struct {
	check    Check
	receipt  Receipt
	decision Decision
	began    time.Time
	of       weak.Pointer[hold] // nil once nobody can give them back any more
	ended    atomic.Bool        // they were given back, or are about to be
}

// holding are the places that a limiter holds, and how long it has lately held places.
type holding struct {
	leases *lease.Leases[*place]
	times  heldtimes.Times

	lost, forgotten warning.Warning
}

const (
	// mostRenewed is how many leases are renewed in one call at most.
	mostRenewed = 128
	// renewalsInFlight is how many such calls there are at once.
	renewalsInFlight = 4
)

// leasesOf returns the leases of a limiter.
func leasesOf(l *Limiter) *lease.Leases[*place] {
	return lease.New(lease.Config[*place]{
		Renew: l.renew,
		Most:  mostRenewed, InFlight: renewalsInFlight,
		Lost: func(p *place, reason error) {
			l.wakePlaceWaiters(&p.check)
			l.tellLost(p, reason)
		},
		Renewed: func(r lease.Report) {
			if l.trace.Renewal != nil {
				l.trace.Renewal(Renewal{Held: r.Held, Lost: r.NotHeld, Unanswered: r.Unknown, Elapsed: r.Took, Err: r.Err})
			}
		},
	})
}

// takePlaces begins the leases of the places that a reservation has taken.
func (r *Reservation) takePlaces() {
	allowed := r.Allowed()
	for i := range r.checks {
		c := &r.checks[i]
		taken := allowed
		if c.Shadow {
			taken = r.decisions[i].Allowed
		}
		if !c.holds() || !taken || r.decisions[i].Waived {
			continue
		}
		if r.hold == nil {
			r.hold = &hold{limiter: r.limiter}
			r.hold.places, r.hold.leases = r.hold.onePlace[:0], r.hold.oneLease[:0]
		}
		p := &place{check: c.alone(), receipt: r.receipts[i], decision: r.decisions[i], began: r.answered, of: weak.Make(r.hold)}
		r.hold.places = append(r.hold.places, p)
		r.hold.leases = append(r.hold.leases, r.limiter.holding.leases.Begin(p, c.Limit.spec.Period, r.asked))
	}
	if r.hold != nil {
		for _, p := range r.hold.places {
			r.limiter.tellHeld(p, Held{Units: p.check.Units()})
		}
	}
}

// holds reports whether a check takes places that have to be given back.
func (c *Check) holds() bool {
	return c.Mode == Charge && c.Limit.spec.Algorithm.Holds()
}

// end ends the leases of a hold, before its places are given back. It calls hooks: no lock may be held.
func (h *hold) end() {
	if h == nil || h.ended.Swap(true) {
		return
	}
	errs := make([]error, len(h.leases))
	for i, x := range h.leases {
		h.places[i].ended.Store(true)
		errs[i] = x.Err()
		x.End()
	}
	for i, p := range h.places {
		h.limiter.noteEnd(p, errs[i])
	}
}

// noteEnd notes that places are given back, and why they had been lost before, if they had.
func (l *Limiter) noteEnd(p *place, lost error) {
	elapsed := time.Since(p.began)
	l.holding.times.Note(p.check.Limit.spec, elapsed)
	l.tellHeld(p, Held{Units: -p.check.Units(), Elapsed: elapsed, Err: lost})
}

// tellHeld calls the hook for places. If it panics, that is contained: it may run on a goroutine that renews the
// leases of others, or serves those who wait.
func (l *Limiter) tellHeld(p *place, held Held) {
	if l.trace.Held == nil || p.check.Shadow {
		return
	}
	defer func() { _ = recover() }()
	held.Limit = p.check.Limit
	l.trace.Held(held)
}

// renew renews the leases of places.
func (l *Limiter) renew(ctx context.Context, places []*place, answers []lease.Answer) error {
	list := make([]Settlement, 0, len(places))
	at := make([]int, 0, len(places))
	for i, p := range places {
		if p.of.Value() == nil { // nobody gives it back any more
			l.giveBackForgotten(p)
			answers[i] = lease.NotHeld
			continue
		}
		list, at = append(list, Settlement{Check: p.check, Receipt: p.receipt, Renew: true}), append(at, i)
	}
	if len(list) == 0 {
		return nil
	}
	err := l.store.Settle(ctx, list)
	partly, part := errors.AsType[*PartlySettledError](err)
	for i, place := range at {
		switch {
		case err != nil && (!part || slices.Contains(partly.NotDone, i)):
		case list[i].Lost:
			answers[place] = lease.NotHeld
		default:
			answers[place] = lease.Held
		}
	}
	return err //nolint:wrapcheck // it is the store's
}

// giveBackForgotten gives back places whose Permit has become unreachable without Release.
func (l *Limiter) giveBackForgotten(p *place) {
	if p.ended.Swap(true) {
		return // they were given back just now
	}
	l.settleLater(laterSettlement{of: l.reservationOf(p), costs: []int{0}})
	l.noteEnd(p, errForgotten)
	l.warn(&l.holding.forgotten, p, errForgotten.Error())
}

// errForgotten is why places were lost that nobody has given back.
var errForgotten = errors.New("core: a permit was forgotten without Release, and its places are given back")

// reservationOf returns a reservation of nothing but some places, to give them back.
func (l *Limiter) reservationOf(places ...*place) *Reservation {
	r := &Reservation{limiter: l}
	for _, p := range places {
		p.decision.Allowed = true
		r.checks, r.decisions, r.receipts = append(r.checks, p.check), append(r.decisions, p.decision), append(r.receipts, p.receipt)
	}
	return r
}

// tellLost logs that places were lost before they were given back. When the store is down, all of them are.
func (l *Limiter) tellLost(p *place, reason error) {
	if !p.ended.Load() { // else they were forgotten, which was logged
		l.warn(&l.holding.lost, p, "core: a place was lost before it was given back", slog.Any("error", reason))
	}
}

// warn logs something about places, once in a while. A logger that panics does not keep the leases of others from
// being renewed.
func (l *Limiter) warn(w *warning.Warning, p *place, message string, more ...any) {
	defer func() { _ = recover() }()
	w.Log(l.logger(), message, append(more, slog.String("limit", p.check.Limit.String()))...)
}

// giveBackUncertain gives back in the background what a call may have taken that the store has not answered.
func (r *Reservation) giveBackUncertain(err error) {
	if errors.Is(err, ErrNotDone) {
		return
	}
	var places []*place
	for i := range r.checks {
		if r.checks[i].holds() && r.receipts[i] != (Receipt{}) {
			places = append(places, &place{check: r.checks[i].alone(), receipt: r.receipts[i], decision: Decision{Limit: r.checks[i].Limit}})
		}
	}
	if len(places) > 0 {
		own := r.limiter.reservationOf(places...)
		r.limiter.settleLater(laterSettlement{of: own, costs: make([]int, len(places))})
	}
}

// untilFree returns the denial of whoever comes next after the last place was granted by a decision.
func (h *holding) untilFree(granted Decision) Decision {
	granted.Allowed, granted.Estimated, granted.RetryAfter = false, true, granted.NextAfter
	list := [1]Decision{granted}
	h.estimate(list[:])
	return list[0]
}

// estimate tells in denials how long places have lately been held, where the store has said when leases end.
// A lease that ends sooner is sooner.
func (h *holding) estimate(decisions []Decision) {
	for i := range decisions {
		d := &decisions[i]
		if !d.Estimated || d.RetryAfter == Never {
			continue
		}
		if median, known := h.times.Median(d.Limit.spec); known {
			d.RetryAfter = max(time.Microsecond, min(d.RetryAfter, median))
		}
	}
}
