package rlqs

import (
	"math"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// transit is how long a message to a proxy may be on its way. A proxy counts the time of an assignment from when it arrives, in whole seconds: so it is
// told as much less than a lease lasts.
const transit = time.Second

// usage is a report of a proxy about one bucket, about the time since its report before that.
type usage struct {
	elapsed         time.Duration
	allowed, denied uint64
}

// lease is units that were charged ahead of time, and assigned to a proxy.
type lease struct {
	key     string
	limit   core.Quota
	receipt core.Receipt
	units   int
	spent   int       // as far as it was reported; more than the units if the proxy has let more pass
	at      time.Time // when the units were asked for
	lapses  bool      // a report may be missing, so nothing is known to be left
}

// bucket is what is known of one bucket of one proxy. Each report and each lease moves it on; it has no clock, and asks no store.
type bucket struct {
	length time.Duration // of a lease
	leases []lease       // those that a proxy may still spend, or of which it may still report, the oldest first

	asked    [2]time.Time // when units were asked for, the time before the last one first
	retry    time.Time    // not before: the limit had nothing left
	reported time.Time    // when the last report arrived
	used     time.Time    // when a report told of requests last
	latest   [4]usage     // the latest reports, so that one that is repeated is known
	reports  int
	demand   float64 // requests a second, allowed or denied
	first    float64 // requests before units were asked for
	denied   bool    // requests were denied since units were assigned last
}

// mostReported is how many requests of a report count, so that no sum overflows.
const mostReported = 1 << 40

// report takes a report that arrives at an instant.
//
// The requests are taken from the oldest lease first. A proxy may have taken them from a later one: then the older one had more left than is counted here,
// and the later one less. So never more is thought to be left than is.
func (b *bucket) report(now time.Time, u usage) {
	u.allowed, u.denied = min(u.allowed, mostReported), min(u.denied, mostReported)
	b.spend(int(u.allowed))
	for i := range min(b.reports, len(b.latest)) {
		if b.latest[i] == u && !coarse(u.elapsed) { // it is counted twice, which only makes less seem to be left
			return
		}
	}
	b.latest[b.reports%len(b.latest)] = u
	b.reports++
	if !b.reported.IsZero() && missing(now.Sub(b.reported), u.elapsed) {
		for i := range b.leases {
			b.leases[i].lapses = true
		}
	}
	requests := float64(u.allowed) + float64(u.denied)
	if requests > 0 || b.used.IsZero() {
		b.used = now
	}
	if b.asked[1].IsZero() {
		b.first += requests
	}
	b.denied = b.denied || u.denied > 0
	if since := now.Sub(b.reported); !b.reported.IsZero() && since > 0 {
		part := min(1, since.Seconds()/b.length.Seconds()*2) // half a lease is remembered
		if b.reports == 2 {
			part = 1 // it is the first time of a known length
		}
		b.demand += (requests/max(since.Seconds(), u.elapsed.Seconds()) - b.demand) * part
	}
	b.reported = now
}

// coarse reports whether a time is told in whole seconds, as Envoy does.
func coarse(elapsed time.Duration) bool { return elapsed%time.Second == 0 }

// missing reports whether a report that came so long after the one before, about less time, shows that one between them was lost. Envoy tells whole seconds;
// on its stream none is lost while the stream stays.
func missing(since, elapsed time.Duration) bool {
	slack := elapsed/4 + 10*time.Millisecond
	if coarse(elapsed) {
		slack += time.Second
	}
	return since > elapsed+slack
}

// spend counts requests that have passed.
func (b *bucket) spend(requests int) {
	for i := range b.leases {
		l := &b.leases[i]
		taken := min(requests, max(0, l.units-l.spent))
		l.spent += taken
		requests -= taken
	}
	if n := len(b.leases); n > 0 { // more than was assigned: it is charged when the lease is settled
		last := &b.leases[n-1]
		last.spent = min(last.spent+requests, mostReported)
	}
}

// ended removes the leases that no proxy can spend any more, and of which all has been reported, and returns the settlements of those that were not spent
// exactly. A lease of which a report may be missing, or does not come for another lease, lapses: nothing is given back of it.
func (b *bucket) ended(now time.Time) (list []core.Settlement) {
	for len(b.leases) > 0 {
		l := b.leases[0]
		end := l.at.Add(b.length + transit)
		overdue := !now.Before(end.Add(b.length))
		if now.Before(end) || b.reported.Before(end) && !overdue {
			break
		}
		b.leases = b.leases[1:]
		if l.spent > l.units || l.spent < l.units && !l.lapses && !b.reported.Before(end) {
			list = append(list, core.Settlement{Check: core.Check{Key: l.key, Limit: l.limit, Cost: l.units}, Cost: l.spent, Receipt: l.receipt})
		}
	}
	return list
}

// due reports whether units have to be asked for: twice in the length of a lease at most.
func (b *bucket) due(now time.Time) bool {
	if !b.asked[0].IsZero() && now.Sub(b.asked[0]) < b.length || now.Before(b.retry) {
		return false
	}
	n := len(b.leases)
	if n == 0 {
		return true
	}
	last := &b.leases[n-1]
	told := b.length - transit
	low := float64(last.units-last.spent) < b.demand*told.Seconds()/4
	return b.denied || low || now.Sub(last.at) >= told*2/5
}

// want returns how many units to ask for: as many as are used in the length of a lease. Of a bucket that is new that is not known: it gets a quarter of
// the rate of its limit.
func (b *bucket) want(rate float64, capacity int) int {
	seconds := b.length.Seconds()
	wanted := b.demand * seconds * 1.1
	if b.asked[1].IsZero() {
		wanted = max(rate*seconds/4, b.first)
	}
	return max(1, min(int(min(math.Ceil(wanted), mostReported)), capacity, math.MaxInt32))
}

// granted notes units that were asked for at an instant. None are a denial until a time.
func (b *bucket) granted(l lease, retry time.Time) {
	b.asked[0], b.asked[1] = b.asked[1], l.at
	b.retry = time.Time{}
	if l.units == 0 {
		b.retry = retry
		return
	}
	b.denied = false
	b.leases = append(b.leases, l)
}
