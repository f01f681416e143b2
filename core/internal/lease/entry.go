package lease

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// entry is a key under a limit that is hot in this process.
type entry struct {
	// Spending reads these fields. They never change, except current.
	spec    *exact.Spec
	key     string
	below   atomic.Pointer[entry] // in its list of the table
	current atomic.Pointer[Grant] // nil: nothing is granted
	set     *Set
	hash    uint64
	terms   Terms

	_      [64]byte     // the fields below are written by calls that find nothing to spend
	missed atomic.Int64 // units that were asked of the store, since they could not be spent
	pause  atomic.Int64 // no grant is asked for before this instant
	asking atomic.Bool  // a grant is asked for

	mu       sync.Mutex
	timer    *time.Timer
	gone     bool
	sent     int64   // when the latest grant was asked for, or below 0
	finished int64   // units that were spent of grants that have ended
	counted  int64   // units that were wanted until sent
	behind   int64   // granted units that were unspent when the latest grant was asked for, and were not given back since
	seen     int64   // the value of missed when the entry was last tidied
	cold     bool    // too few units are wanted to be granted ahead
	pace     float64 // units that are wanted in a nanosecond, or 0 if that is not known yet
}

func newEntry(s *Set, key string, spec *exact.Spec, hash uint64) *entry {
	e := &entry{set: s, key: key, spec: spec, hash: hash, terms: TermsOf(spec, s.config.Over), sent: -1}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.timer = time.AfterFunc(e.terms.Lasts, e.tidy)
	return e
}

// spend spends units, and reports whether it could. It goes on to the next grant where the current one is spent or has lapsed, and
// sees to it that there will be one.
func (e *entry) spend(units int64) (Spent, bool) {
	g := e.current.Load()
	if g == nil {
		return e.miss(units)
	}
	if s, ok := e.spendOf(g, units); ok {
		return s, true
	}
	if g.next.Load() != nil || e.current.Load() != g || e.set.now() >= g.until {
		if s, ok := e.follow(g, units); ok {
			return s, true
		}
	}
	return e.miss(units)
}

// spendOf spends units of a grant, and reports whether it could. The units are taken before the clock is read: a grant that has
// lapsed at that instant is not spent, however long the process has stood still in between.
func (e *entry) spendOf(g *Grant, units int64) (Spent, bool) {
	left := g.take(units)
	if left < 0 {
		return Spent{}, false
	}
	now := e.set.now()
	if now >= g.until {
		g.put(units)
		return Spent{}, false
	}
	if left <= g.low && !g.renewed.Load() {
		e.renewFrom(g, now)
	}
	return Spent{grant: g, left: left, units: units}, true
}

// miss notes units that cannot be spent here, and sees to it that there will be some.
func (e *entry) miss(units int64) (Spent, bool) {
	e.missed.Add(units)
	now := e.set.now()
	if g := e.current.Load(); g == nil {
		e.renew(now)
	} else {
		e.renewFrom(g, now)
	}
	return Spent{}, false
}

// renewFrom asks for the grant that follows one, once.
func (e *entry) renewFrom(g *Grant, now int64) {
	if now >= e.pause.Load() && !g.renewed.Load() && g.renewed.CompareAndSwap(false, true) && !e.renew(now) {
		g.renewed.Store(false)
	}
}

// renew asks for a grant in the background, and reports whether it does. It asks for one at a time, and for none during a
// pause.
func (e *entry) renew(now int64) bool {
	if now < e.pause.Load() || !e.asking.CompareAndSwap(false, true) {
		return false
	}
	if !e.set.work(e.ask) {
		e.asking.Store(false)
		return false
	}
	return true
}

// ask asks for a grant.
func (e *entry) ask() {
	defer e.asking.Store(false)
	sent, want := e.plan()
	if want == 0 {
		return
	}
	answer, err := e.set.config.Ask(e.set.ctx, e.key, e.spec, &e.terms, want)
	if err != nil { // if units were charged, they have lapsed
		answer = Asked{}
	}
	e.granted(sent, want, answer)
}

// plan returns how many units to ask for now: as many as are wanted in half of the time that a grant lasts. So a process
// makes two calls for a steady key in that time, and a grant is spent before it lapses. The process never has more units
// than flow through the limit while a grant lasts, even if more are wanted. So it admits no more late units than all
// processes together are allowed to.
func (e *entry) plan() (sent int64, want int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	sent = e.set.now()
	if e.gone {
		return sent, 0
	}
	total := e.finished + e.missed.Load()
	e.behind = 0
	for g := e.current.Load(); g != nil; g = g.next.Load() {
		total += g.spent()
		e.behind += max(0, g.left.Load())
	}
	if passed := sent - e.sent; e.sent < 0 || passed == 0 {
		want = hot // nothing is known of the pace
	} else {
		pace := float64(total-e.counted) / float64(passed)
		if e.pace > 0 {
			pace = (pace + e.pace) / 2
		}
		e.pace = pace
		want = int(min(pace*float64(e.terms.Lasts)/2, float64(e.terms.Most)))
	}
	e.sent, e.counted = sent, total
	want = min(want, e.terms.Most)
	if e.cold = want < fewest; e.cold {
		want = 0 // one at a time is as cheap, and exact
	}
	if want = max(0, min(want, e.terms.Most-int(e.behind))); want == 0 {
		e.nothing(sent)
	}
	return sent, want
}

// granted puts a grant into its place.
func (e *entry) granted(sent int64, want int, answer Asked) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if answer.Units == 0 {
		e.nothing(sent)
		return
	}
	if answer.Units < want { // there is little left: others get their turn, and the rest is asked exactly
		e.pause.Store(sent + int64(e.terms.Lasts)/2)
	}
	g := &Grant{of: e, asked: answer, until: e.terms.until(sent, answer.Reset), low: int64(answer.Units) / 2}
	g.left.Store(int64(answer.Units))
	if e.gone {
		e.finish(g, g.end())
		return
	}
	e.lapse()
	g.late = e.behind
	if last := e.current.Load(); last == nil {
		e.current.Store(g)
	} else {
		last.next.Store(g) // it has none: a grant is renewed once
	}
	e.schedule()
}

// nothing has the next grant asked for after a pause, counted from when the latest was asked for. The caller has locked e.mu.
func (e *entry) nothing(sent int64) {
	e.pause.Store(sent + int64(e.terms.Lasts)/2)
	if g := e.current.Load(); g != nil {
		g.renewed.Store(false)
	}
}

// follow goes on to the next grant if one is spent or has lapsed. It spends the units left of the former grant first, and
// then units of the next one. It reports whether it could.
func (e *entry) follow(g *Grant, units int64) (Spent, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now, rest := e.set.now(), int64(0)
	if e.current.Load() == g { // no other call has gone on
		e.current.Store(g.next.Load())
		unspent := g.end()
		defer func() { e.finish(g, unspent-rest) }()
		if now < g.until {
			rest = min(unspent, units)
		}
	}
	next := e.current.Load()
	if next == nil || now >= next.until {
		rest = 0
		return Spent{}, false
	}
	left := next.take(units - rest)
	if left < 0 {
		rest = 0
		return Spent{}, false
	}
	return Spent{grant: next, left: left, units: units - rest, former: g, rest: rest}, true
}

// finish gives back the rest of a grant that has ended. The caller has locked e.mu.
func (e *entry) finish(g *Grant, unspent int64) {
	spent := g.asked.Units - int(unspent)
	e.finished += int64(spent)
	if next := g.next.Load(); next != nil {
		next.late = max(0, next.late-unspent)
	}
	e.behind = max(0, e.behind-unspent)
	e.set.giveBack(Unspent{
		Key: e.key, Spec: e.spec, Units: g.asked.Units, Spent: spent, Receipt: g.asked.Receipt, late: spent + int(g.late),
	})
}

// giveBackLate gives back units that were put back into a grant after it had ended. They have been reported as spent.
func (e *entry) giveBackLate(g *Grant, units int64) {
	e.set.giveBack(Unspent{Key: e.key, Spec: e.spec, Units: int(units), Receipt: g.asked.Receipt, told: true})
}

// lapse ends the grants that have lapsed. The caller has locked e.mu.
func (e *entry) lapse() {
	now := e.set.now()
	for g := e.current.Load(); g != nil && now >= g.until; g = e.current.Load() {
		e.current.Store(g.next.Load())
		e.finish(g, g.end())
	}
}

// tidy ends a grant that has lapsed, and removes an entry that is not used any more.
func (e *entry) tidy() {
	e.mu.Lock()
	e.lapse()
	missed := e.missed.Load()
	idle := e.current.Load() == nil && !e.asking.Load() && (e.cold || missed == e.seen)
	e.seen, e.gone = missed, e.gone || idle
	if !e.gone {
		e.schedule()
	}
	e.mu.Unlock()
	if idle {
		e.set.remove(e)
	}
}

// schedule has the entry tidied when its grant lapses. The caller has locked e.mu.
func (e *entry) schedule() {
	wait := e.terms.Lasts
	if g := e.current.Load(); g != nil {
		wait = max(0, time.Duration(g.until-e.set.now()))
	}
	e.timer.Reset(wait)
}

// end ends all grants of the entry, including the ones in flight.
func (e *entry) end() {
	e.mu.Lock()
	e.gone = true
	e.timer.Stop()
	g := e.current.Swap(nil)
	for g != nil {
		e.finish(g, g.end())
		g = g.next.Load()
	}
	e.mu.Unlock()
	e.set.remove(e)
}
