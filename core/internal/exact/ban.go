package exact

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

// ban is the arithmetic of bans: strikes are counted in a log, and the one that fills it begins a ban. Its
// events are strikes, which always fit unless a ban is in force.
//
// Its Usage is the strikes that count, or all that fit while a ban is in force; the wait until fewer are left,
// or until the ban ends; how many bans are remembered; and the wait until the state is as good as none. Waits
// are microseconds.
type ban struct{}

// BanTerms are the terms of a ban besides its strikes, which are a capacity and a window. They are comparable.
type BanTerms struct {
	// First is how long the first ban lasts. Each ban that follows is Factor times longer, up to Longest.
	First   time.Duration
	Factor  int
	Longest time.Duration
	// Forget is for how long after the end of the last ban the next one is still longer than that.
	Forget time.Duration
	// Extend says that a strike during a ban begins it anew.
	Extend bool
}

// The defaults of BanTerms. That of First is the window of the strikes.
const (
	defaultFactor  = 2
	defaultLongest = 7 * 24 * time.Hour
	defaultForget  = 24 * time.Hour
)

// BanParams returns the Params of a ban by the strikes of a [SlidingLog] without a name, with the defaults of unset
// terms. Those of other strikes are not valid.
func BanParams(name string, strikes Params, terms BanTerms) Params {
	p := Params{Algorithm: Ban, Name: name, Capacity: strikes.Capacity, Events: strikes.Events, Period: strikes.Period, Ban: terms}
	if strikes.Algorithm != SlidingLog || strikes.Name != "" {
		p.Capacity = 0
	}
	if p.Ban.First == 0 {
		p.Ban.First = p.Period
	}
	if p.Ban.Factor == 0 {
		p.Ban.Factor = defaultFactor
	}
	if p.Ban.Longest == 0 {
		p.Ban.Longest = max(defaultLongest, p.Ban.First)
	}
	if p.Ban.Forget == 0 {
		p.Ban.Forget = defaultForget
	}
	return p
}

const (
	// mostStrikes bounds the strikes that a ban takes: they are one text.
	mostStrikes = 1000
	// shortestBan is the least that a ban can last.
	shortestBan = time.Millisecond
	// longestBan is the most: with the time for which it is remembered, it ends before 2^53 microseconds. To keep a
	// client out for ever, put it on a list.
	longestBan = 10 * 365 * day
	// largestFactor bounds how much longer each ban is.
	largestFactor = 1000
	// mostBans bounds how many bans are counted. No factor but 1 needs more to reach the longest.
	mostBans = 1_000_000
)

func (ban) units(p *Params) (Units, error) {
	t := p.Ban
	switch {
	case p.Capacity > mostStrikes:
		return Units{}, fmt.Errorf("%d strikes are more than %d", p.Capacity, mostStrikes)
	case t.Factor < 1 || t.Factor > largestFactor:
		return Units{}, fmt.Errorf("factor %d is not from 1 to %d", t.Factor, largestFactor)
	case t.Longest < t.First:
		return Units{}, fmt.Errorf("the longest ban of %v is shorter than the first one of %v", t.Longest, t.First)
	}
	for _, d := range [...]struct {
		what  string
		d     time.Duration
		least time.Duration
	}{{"the first ban", t.First, shortestBan}, {"the longest ban", t.Longest, shortestBan}, {"the time to forget", t.Forget, 0}} {
		switch {
		case d.d < d.least:
			return Units{}, fmt.Errorf("%s of %v is shorter than %v", d.what, d.d, d.least)
		case d.d > longestBan:
			return Units{}, fmt.Errorf("%s of %v is longer than %d days: who is never to come back belongs on a list", d.what, d.d, longestBan/day)
		case d.d%time.Microsecond != 0:
			return Units{}, fmt.Errorf("%s of %v is not a whole number of microseconds", d.what, d.d)
		}
	}
	if p.Period > longestBan {
		return Units{}, fmt.Errorf("strikes that count for %v are longer than %d days", p.Period, longestBan/day)
	}
	return windowUnits(p, time.Microsecond)
}

func (ban) numbers(*Units) []int64 { return nil } // each state has its own end

// length returns how long a ban lasts that begins at an instant, after a number of earlier bans, without its jitter.
func (t *BanTerms) length(bans int64) int64 {
	length, longest, factor := t.First.Microseconds(), t.Longest.Microseconds(), int64(t.Factor)
	if factor == 1 {
		return length
	}
	for ; bans > 0 && length < longest; bans-- {
		if length > longest/factor {
			return longest
		}
		length *= factor
	}
	return length
}

// jitter returns by how much a ban is longer than its length: up to a tenth. The instant and the number of the ban decide
// it, so that all stores agree on it, and no client knows it before.
func jitter(length, now, bans int64) int64 {
	const parts = 1021 // a prime
	return length / 10 / (parts - 1) * ((now + 359*bans) % parts)
}

// banned is a ban as it stands at an instant.
type banned struct {
	left int64 // 0: no ban is in force
	bans int64 // that are remembered
	gone int64 // until they are forgotten
	// live are the strikes that count.
	live []int64
	// early says that the ban began in the future: the clock has stepped back since.
	early bool
}

// standing returns how a ban stands at an instant.
func standing(s *Spec, st *State, now int64) (b banned) {
	if st.spec == nil {
		return banned{}
	}
	until := st.previous
	if st.at > now {
		until, b.early = now+until-st.at, true
	}
	b.left = max(0, until-now)
	if b.gone = until + s.Ban.Forget.Microseconds() - now; b.gone > 0 || b.left > 0 {
		b.bans = st.level
	}
	if b.bans == 0 && b.left == 0 {
		b.gone = 0
	}
	if b.left > 0 {
		return b
	}
	log := st.instants()
	b.live = log[sort.Search(len(log), func(i int) bool { return log[i] > now-s.Window }):]
	if excess := len(b.live) - s.Capacity + 1; excess > 0 { // the limit has been made smaller
		b.live = b.live[excess:]
	}
	return b
}

// counted returns the strikes that count, none of them from the future, for the caller to change.
func (b *banned) counted(now int64) []int64 {
	live := slices.Clone(b.live)
	for i := range live {
		live[i] = min(live[i], now)
	}
	return live
}

func (ban) observe(s *Spec, st *State, now int64, _ int) (u Usage, repair bool) {
	b := standing(s, st, now)
	u = Usage{Used: int64(len(b.live)), Third: b.bans, Fourth: b.gone}
	if b.left > 0 {
		u.Used, u.Second = s.Full, b.left
		return u, b.early
	}
	if n := len(b.live); n > 0 {
		counts := func(i int) int64 { return min(b.live[i], now) + s.Window - now }
		u.Second, u.Fourth = counts(0), max(u.Fourth, counts(n-1))
	}
	return u, false
}

// Extended returns a usage of a ban that is in force, if it begins anew at the instant of the usage.
func (s *Spec) Extended(st *State, u Usage) Usage {
	u.Second = st.previous - st.at
	u.Fourth = u.Second + s.Ban.Forget.Microseconds()
	return u
}

// Extends reports whether a strike during a ban begins it anew.
func (s *Spec) Extends() bool { return s.Ban.Extend }

func (ban) store(s *Spec, st *State, u Usage, now int64, cost int, _ Holder) {
	if u.Used >= s.Full {
		st.at, st.previous = now, now+st.previous-st.at
		return
	}
	strike(s, st, now, cost)
}

// strike adds strikes to a state that is not banned, and reports whether they begin a ban.
func strike(s *Spec, st *State, now int64, strikes int) (begun bool) {
	b := standing(s, st, now)
	if b.bans == 0 {
		st.at, st.previous, st.level = 0, 0, 0
		st.setReason("")
	}
	live := b.counted(now)
	if len(live)+strikes < s.Capacity {
		st.setInstants(append(live, slices.Repeat([]int64{now}, strikes)...))
		return false
	}
	length := s.Ban.length(st.level)
	st.at, st.previous = now, now+length+jitter(length, now, st.level)
	st.level = min(st.level+1, mostBans)
	st.setInstants(nil)
	st.setReason("")
	return true
}

func (ban) settle(s *Spec, st *State, now int64, c *Correction) bool {
	b := standing(s, st, now)
	strikes := c.Events
	if c.Raise {
		strikes = max(0, strikes-len(b.live))
	}
	switch {
	case c.Length > 0:
		st.at, st.previous, st.level = now, now+c.Length, b.bans
		st.setInstants(nil)
		st.setReason(c.Reason)
	case b.left > 0:
		if strikes <= 0 || !s.Ban.Extend {
			return false
		}
		st.at, st.previous = now, now+st.previous-st.at
	case strikes > 0:
		c.Begun = strike(s, st, now, strikes)
	default:
		keep := max(0, len(b.live)+strikes)
		if strikes == 0 || len(b.live) == 0 {
			return false
		}
		if b.bans == 0 {
			st.at, st.previous, st.level = 0, 0, 0
			st.setReason("")
		}
		st.setInstants(b.counted(now)[:keep])
	}
	return true
}

func (ban) fits(s *Spec, u Usage, _ int) bool    { return u.Used < s.Full }
func (ban) wait(_ *Spec, u Usage, _ int) int64   { return u.Second }
func (ban) longer(*Spec, int, int) (int64, bool) { return 0, true }
func (ban) left(s *Spec, u Usage) (remaining int, next, reset int64) {
	return int(s.Full - u.Used), u.Second, u.Fourth
}

func (ban) reset(_ *Spec, u Usage) int64 { return u.Fourth }

// Begins reports whether this many strikes begin a ban.
func (s *Spec) Begins(u Usage, strikes int) bool {
	return s.Algorithm.Bans() && u.Used < s.Full && u.Used+int64(strikes) >= s.Full
}

// Bars reports whether a ban is in force, so that the key is out.
func (s *Spec) Bars(u Usage) bool { return s.Algorithm.Bans() && u.Used >= s.Full }

// charged returns the usage after strikes. How long a ban lasts that they begin is told with all the jitter
// that it may have.
func (ban) charged(s *Spec, u Usage, cost int) Usage {
	if !s.Begins(u, cost) {
		if u.Used == 0 {
			u.Second = s.Window
		}
		u.Used += int64(cost)
		u.Fourth = max(u.Fourth, s.Window)
		return u
	}
	length := s.Ban.length(u.Third)
	length += length / 10
	return Usage{Used: s.Full, Second: length, Third: min(u.Third+1, mostBans), Fourth: length + s.Ban.Forget.Microseconds()}
}

// Banned is how a ban of a key stands, for consoles. Instants are microseconds since 1970.
type Banned struct {
	// Since and Until are when it began and ends.
	Since, Until int64
	// Bans is how many have begun by strikes, as far as they are remembered.
	Bans int64
	// Reason is the reason of a ban that was begun by hand.
	Reason string
}

// Banned returns the ban of a state that is in force at an instant, and whether there is one.
func (st *State) Banned(now int64) (b Banned, inForce bool) {
	if st.spec == nil || !st.spec.Algorithm.Bans() || st.previous <= now {
		return Banned{}, false
	}
	return Banned{Since: st.at, Until: st.previous, Bans: st.level, Reason: st.reason()}, true
}
