package storetest

import (
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// places is the model of a key under a concurrent limit: everybody who has taken places, and until when
// they have them, in microseconds. It counts them all, each time.
type places struct {
	taken []*taken
	token uint64
}

// taken is the places of one holder.
type taken struct {
	check   core.Check
	receipt core.Receipt
	of      *places
	cost    int
	ends    int64 // 0: they were given back
}

// ends returns when each place ends that is held, the first one first.
func (p *places) ends(now int64) (ends []int64) {
	for _, one := range p.taken {
		for range one.cost {
			if one.ends > now {
				ends = append(ends, one.ends)
			}
		}
	}
	slices.Sort(ends)
	return ends
}

// decide returns the answer to a check for cost places that leaves headroom free, except its token and ResetAfter. charge
// says that it is more than a peek. If the other checks of its call pass, too, the places are held for a lease.
func (p *places) decide(l core.Limit, cost, headroom int, now int64, charge, pass bool) core.Decision {
	held, n, need := p.ends(now), l.Capacity(), add(cost, headroom)
	d := core.Decision{Limit: l, Allowed: cost == 0 || need <= n-len(held)}
	switch {
	case need > n:
		d.RetryAfter = core.Never
	case !d.Allowed:
		d.Estimated = true
		d.RetryAfter = since(now, held[len(held)+need-n-1])
	case charge && pass:
		until := now + l.Rate().Period.Microseconds()
		p.taken = append(p.taken, &taken{of: p, cost: cost, ends: until})
		held = p.ends(now)
	}
	d.Remaining = max(0, n-len(held))
	switch {
	case len(held) == 0:
	case charge && d.Allowed:
		d.NextAfter = l.Rate().Period
	default:
		d.NextAfter = since(now, held[max(0, len(held)-n)])
	}
	return d
}

// giveBackOldest gives back so many places that are held, those first with leases that end first.
func (p *places) giveBackOldest(n int, now int64) {
	for range n {
		var oldest *taken
		for _, one := range p.taken {
			if one.ends > now && one.cost > 0 && (oldest == nil || one.ends < oldest.ends) {
				oldest = one
			}
		}
		if oldest == nil {
			return
		}
		oldest.cost--
	}
}

// giveBack gives back all places of a holder, unless some were given back before: then nothing is its own.
func (h *taken) giveBack() {
	if h.cost == h.check.Units() {
		h.ends = 0
	}
}

func since(now, then int64) time.Duration { return time.Duration(then-now) * time.Microsecond }

// renew begins a lease anew, and reports whether there was none any more.
func (h *taken) renew(l core.Limit, now int64) (lost bool) {
	if h.ends <= now {
		return true
	}
	h.ends = now + l.Rate().Period.Microseconds()
	return false
}
