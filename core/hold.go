package core

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/lease"
)

// hold is the places of concurrent limits that a reservation has, until they are given back.
type hold struct {
	limiter *Limiter
	checks  []int // the places of the checks in the reservation
	leases  []*lease.Lease[*place]
	token   uint64 // of the first check
	began   time.Time
	ended   atomic.Bool   // no lease is renewed any more
	claimed atomic.Uint32 // whoever gives the places back
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
	of       weak.Pointer[hold] // nil once nobody can give them back any more
}

// holding are the places that a limiter holds, and how long it has lately held places.
type holding struct {
	leases *lease.Leases[*place]
	times  sync.Map // of *heldTimes, by *exact.Spec
	known  atomic.Int32
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
			l.tellLost(p, reason)
			l.placeWaiters.Wake(p.queueKey())
		},
		Renewed: func(r lease.Report) {
			if l.trace.Renewal != nil {
				l.trace.Renewal(Renewal{Held: r.Held, Lost: r.NotHeld, Unanswered: r.Unknown, Elapsed: r.Took, Err: r.Err})
			}
		},
	})
}

func (p *place) queueKey() queueKey {
	return queueKey{key: p.check.Key, limit: p.check.Limit.spec.Identity()}
}

// takePlaces begins the leases of the places that a reservation has taken.
func (r *Reservation) takePlaces() {
	allowed := r.Allowed()
	for i := range r.checks {
		c := &r.checks[i]
		if !c.holds() || !(c.Shadow && r.decisions[i].Allowed || !c.Shadow && allowed) {
			continue
		}
		if r.hold == nil {
			r.hold = &hold{limiter: r.limiter, token: r.decisions[i].Token, began: r.answered}
		}
		p := &place{check: *c, receipt: r.receipts[i], decision: r.decisions[i], of: weak.Make(r.hold)}
		r.hold.checks = append(r.hold.checks, i)
		r.hold.leases = append(r.hold.leases, r.limiter.holding.leases.Begin(p, c.Limit.spec.Period, r.asked))
		if t := r.limiter.trace.Held; t != nil && !c.Shadow {
			t(Held{Limit: c.Limit, Units: c.Units()})
		}
	}
}

// holds reports whether a check takes places that have to be given back.
func (c *Check) holds() bool {
	return c.Mode == Charge && c.Limit.spec.Algorithm.Holds()
}

// end ends the leases of a hold, before its places are given back.
func (h *hold) end(r *Reservation) {
	if h == nil || h.ended.Swap(true) {
		return
	}
	elapsed := time.Since(h.began)
	for i, x := range h.leases {
		err := x.Err()
		x.End()
		c := &r.checks[h.checks[i]]
		h.limiter.holding.note(c.Limit.spec, elapsed)
		if t := h.limiter.trace.Held; t != nil && !c.Shadow {
			t(Held{Limit: c.Limit, Units: -c.Units(), Elapsed: elapsed, Err: err})
		}
	}
}

// renew renews the leases of places.
func (l *Limiter) renew(ctx context.Context, places []*place, answers []lease.Answer) error {
	list := make([]Settlement, 0, len(places))
	at := make([]int, 0, len(places))
	for i, p := range places {
		if p.of.Value() == nil { // nobody gives it back any more
			l.forgotten(p)
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

// forgotten gives back places that their holder has lost sight of without giving them back.
func (l *Limiter) forgotten(p *place) {
	l.background.logger().Warn("core: a permit was forgotten without Release, and its places are given back",
		slog.String("limit", p.check.Limit.String()))
	l.background.settle(laterSettlement{of: l.reservationOf(p), costs: []int{0}})
}

// reservationOf returns a reservation of nothing but some places, to give them back.
func (l *Limiter) reservationOf(places ...*place) *Reservation {
	r := &Reservation{limiter: l}
	for _, p := range places {
		p.decision.Allowed = true
		r.checks, r.decisions, r.receipts = append(r.checks, p.check), append(r.decisions, p.decision), append(r.receipts, p.receipt)
	}
	return r
}

func (l *Limiter) tellLost(p *place, reason error) {
	l.background.logger().Warn("core: a place was lost before it was given back",
		slog.String("limit", p.check.Limit.String()), slog.Any("error", reason))
}

// giveBackUncertain gives back in the background what a call may have taken that the store has not answered.
func (r *Reservation) giveBackUncertain(err error) {
	if errors.Is(err, ErrNotDone) {
		return
	}
	var places []*place
	for i := range r.checks {
		if r.checks[i].holds() && r.receipts[i] != (Receipt{}) {
			places = append(places, &place{check: r.checks[i], receipt: r.receipts[i], decision: Decision{Limit: r.checks[i].Limit}})
		}
	}
	if len(places) > 0 {
		own := r.limiter.reservationOf(places...)
		r.limiter.background.settle(laterSettlement{of: own, costs: make([]int, len(places))})
	}
}

// heldTimes are how long places of a limit have lately been held.
type heldTimes struct {
	mu    sync.Mutex
	count int
	times [31]time.Duration
}

// mostTimed bounds how many limits have their times noted.
const mostTimed = 1024

// note notes how long a place of a limit was held.
func (h *holding) note(s *exact.Spec, elapsed time.Duration) {
	found, ok := h.times.Load(s.Identity())
	if !ok {
		if h.known.Add(1) > mostTimed {
			h.known.Add(-1)
			return
		}
		found, ok = h.times.LoadOrStore(s.Identity(), new(heldTimes))
		if ok {
			h.known.Add(-1)
		}
	}
	t := found.(*heldTimes) //nolint:forcetypeassert // the map holds nothing else
	t.mu.Lock()
	defer t.mu.Unlock()
	t.times[t.count%len(t.times)] = elapsed
	t.count++
}

// median returns how long places of a limit have lately been held, or false if nobody knows.
func (h *holding) median(s *exact.Spec) (time.Duration, bool) {
	found, ok := h.times.Load(s.Identity())
	if !ok {
		return 0, false
	}
	t := found.(*heldTimes) //nolint:forcetypeassert // the map holds nothing else
	t.mu.Lock()
	times := slices.Clone(t.times[:min(t.count, len(t.times))])
	t.mu.Unlock()
	slices.Sort(times)
	return times[len(times)/2], true
}

// estimate tells in denials how long places have lately been held, where the store has said when leases end.
// A lease that ends sooner is sooner.
func (h *holding) estimate(decisions []Decision) {
	for i := range decisions {
		d := &decisions[i]
		if !d.Estimated || d.RetryAfter == Never {
			continue
		}
		if median, known := h.median(d.Limit.spec); known {
			d.RetryAfter = max(time.Microsecond, min(d.RetryAfter, median))
		}
	}
}
