package exact

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

// concurrent is the arithmetic of places: each holder has some of them until it gives them back, or
// until its lease ends.
//
// Its Usage is the places that are held, two waits in microseconds, and the latest token. The first wait is until enough
// leases have ended to free a place that is not free now, the second until there are enough places for the cost that was
// observed. Both assume that no lease is renewed and no place is given back. The first one is 0, which stands for the
// limit's own lease, where a check that takes places fits: a script would spend much time to read it.
//
// A lease that ends later than any lease that begins now was begun before the clock stepped back. When a check is denied,
// such a lease is cut to the longest one, so that a dead holder does not keep others out for as long as the clock needs
// to catch up.
type concurrent struct{}

// Holder identifies a holder of places of a concurrent limit: a number that a process has drawn, and one for each of its
// calls.
type Holder [2]int64

// holder has some places until an instant.
type holder struct {
	Holder

	places int
	until  int64
}

const (
	// shortestLease leaves enough time for a renewal.
	shortestLease = 10 * time.Millisecond
	// longestLease is how long a lease may be, since it is how long a dead process keeps others out.
	longestLease = 10 * time.Minute
	// remembered is how long a state is remembered after a lease that begins now has ended. So no holder with a longer
	// lease is forgotten, and no token is repeated unless the clock steps back further.
	remembered = int64(longestLease / time.Microsecond)
)

func (concurrent) units(p *Params) (Units, error) {
	if p.Capacity > mostLogged {
		return Units{}, fmt.Errorf("%d places for each key are more than %d", p.Capacity, mostLogged)
	}
	if p.Period < shortestLease || p.Period > longestLease {
		return Units{}, fmt.Errorf("lease is not from %v to %v", shortestLease, longestLease)
	}
	return windowUnits(p, time.Microsecond)
}

func (concurrent) numbers(*Units) []int64 { return nil } // each holder has its own end

// Token returns the token of places that are taken after a usage at an instant: it is greater than all before it. It is 0 if the
// limit has no places.
func (s *Spec) Token(u Usage, now int64) int64 {
	if !s.Algorithm.Holds() {
		return 0
	}
	return max(u.Fourth+1, now)
}

func (concurrent) observe(s *Spec, st *State, now int64, cost int) (u Usage, repair bool) {
	if st.spec == nil {
		return Usage{}, false
	}
	u.Fourth = st.at
	all := st.holders()
	held := all[ended(all, now):]
	for i := range held {
		u.Used += int64(held[i].places)
	}
	repair = len(held) < len(all)
	if len(held) == 0 {
		return u, repair
	}
	u.Second = freeAfter(held, u.Used-s.Full+1, now) // the limit may have been made smaller
	if missing := u.Used + int64(cost) - s.Full; cost > 0 && missing > 0 {
		if cost <= s.Capacity {
			u.Third = freeAfter(held, missing, now)
		}
		repair = repair || held[len(held)-1].until > now+remembered
	}
	return u, repair
}

// freeAfter returns the wait until the leases of this many places have ended, or of one if they are fewer.
func freeAfter(held []holder, places, now int64) int64 {
	i := 0
	for places -= int64(held[0].places); places > 0; places -= int64(held[i].places) {
		i++
	}
	return min(held[i].until-now, remembered)
}

// Held is a holder with its places, and when its lease ends, in microseconds since 1970.
type Held struct {
	Holder Holder
	Places int
	Until  int64
}

// Held returns the holders of places of a concurrent limit at an instant, in the order in which their leases end.
func (st *State) Held(now int64) []Held {
	all := st.holders()
	all = all[ended(all, now):]
	list := make([]Held, 0, len(all))
	for _, h := range all {
		list = append(list, Held{h.Holder, h.places, h.until})
	}
	return list
}

// ended returns how many holders have none of their lease left.
func ended(all []holder, now int64) int {
	return sort.Search(len(all), func(i int) bool { return all[i].until > now })
}

func (concurrent) store(s *Spec, st *State, u Usage, now int64, cost int, h Holder) {
	all := st.holders()
	all = slices.Delete(all, 0, ended(all, now))
	for i := len(all) - 1; cost == 0 && i >= 0 && all[i].until > now+remembered; i-- { // the check is denied
		all[i].until = now + remembered
	}
	if cost > 0 {
		st.at = s.Token(u, now)
		all = insertHolder(all, holder{h, cost, now + s.Window})
	}
	st.setHolders(all)
}

// insertHolder inserts a holder behind those with leases that do not end later.
func insertHolder(all []holder, h holder) []holder {
	place := sort.Search(len(all), func(i int) bool { return all[i].until > h.until })
	return slices.Insert(all, place, h)
}

func (concurrent) settle(s *Spec, st *State, now int64, c *Correction) bool {
	all := st.holders()
	if c.Oldest {
		left, given := giveBackOldest(all, now, -c.Events)
		if given {
			st.setHolders(left)
		}
		return given
	}
	place := slices.IndexFunc(all, func(h holder) bool { return h.Holder == c.Holder })
	if c.Renew {
		if c.Lost = place < 0 || all[place].until <= now; c.Lost {
			return false
		}
		renewed := all[place]
		renewed.until = now + s.Window
		st.setHolders(insertHolder(slices.Delete(all, place, place+1), renewed))
		return true
	}
	if c.Events >= 0 || place < 0 {
		return false
	}
	st.setHolders(slices.Delete(all, place, place+1))
	return true
}

// giveBackOldest gives back a number of places that are held, the ones with leases that end first. It reports whether there were any; if
// not, the list is as it was.
func giveBackOldest(all []holder, now int64, places int) (left []holder, given bool) {
	first := ended(all, now)
	last := first
	for ; last < len(all) && places >= all[last].places; last++ {
		places -= all[last].places
	}
	if last < len(all) && places > 0 {
		all[last].places -= places
		all[last].Holder = Holder{} // no holder renews the rest
		given = true
	}
	return slices.Delete(all, first, last), given || last > first
}

func (concurrent) fits(s *Spec, u Usage, cost int) bool {
	return int64(cost) <= s.Full-u.Used
}

func (concurrent) wait(_ *Spec, u Usage, _ int) int64 { return u.Third }

func (concurrent) longer(*Spec, int, int) (int64, bool) { return 0, false }

func (concurrent) charged(s *Spec, u Usage, cost int) Usage {
	u.Used, u.Second = u.Used+int64(cost), s.Window
	return u
}

func (c concurrent) left(s *Spec, u Usage) (remaining int, next, reset int64) {
	next = u.Second
	if u.Used > 0 && u.Second == 0 {
		next = s.Window
	}
	return int(max(0, s.Full-u.Used)), next, c.reset(s, u)
}

// reset returns the lease, since no place that is held now is held longer without being renewed, unless
// the lease of a named limit was longer before.
func (concurrent) reset(s *Spec, u Usage) int64 {
	if u.Used == 0 {
		return 0
	}
	return max(s.Window, u.Second, u.Third)
}

// writtenHolders returns holders as numbers: the two of a Holder, its places, and when its lease ends.
func writtenHolders(all []holder) [][4]int64 {
	list := make([][4]int64, 0, len(all))
	for _, h := range all {
		list = append(list, [4]int64{h.Holder[0], h.Holder[1], int64(h.places), h.until})
	}
	return list
}

// readHolders reads the output of writtenHolders.
func readHolders(list [][4]int64) []holder {
	all := make([]holder, 0, len(list))
	for _, h := range list {
		all = append(all, holder{Holder{h[0], h[1]}, int(h[2]), h[3]})
	}
	return all
}
