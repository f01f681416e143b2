package exact

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

// logged is the arithmetic of a log of instants.
//
// Its Usage is the events in the window, and three waits in microseconds: until
// the oldest of them leaves it, until enough of them have left it for the cost
// that was observed, and until the newest leaves it.
type logged struct{}

func (logged) units(p *Params) (Units, error) {
	if p.Capacity > mostLogged {
		return Units{}, fmt.Errorf("a log of %d instants for each key is larger than %d: take a sliding window", p.Capacity, mostLogged)
	}
	return windowUnits(p, time.Microsecond)
}

func (logged) numbers(u *Units) []int64 { return []int64{u.Window} }

func (logged) observe(s *Spec, st *State, now int64, cost int) (Usage, bool) {
	log := st.instants()
	length := len(log)
	first := sort.Search(length, func(i int) bool { return log[i] > now-s.Window })
	if first == length {
		return Usage{}, false
	}
	repair := log[length-1] > now
	if excess := length - first - s.Capacity; excess > 0 {
		first += excess
		repair = true
	}
	left := func(i int) int64 { return min(log[i], now) + s.Window - now }
	u := Usage{int64(length - first), left(first), 0, left(length - 1)}
	if missing := length - first + cost - s.Capacity; missing > 0 && cost <= s.Capacity {
		u.Third = left(first + missing - 1)
	}
	return u, repair
}

func (logged) store(_ *Spec, st *State, u Usage, now int64, cost int, _ Holder) {
	log := st.instants()
	log = log[len(log)-int(u.Used):]
	for i := len(log) - 1; i >= 0 && log[i] > now; i-- { // from the future
		log[i] = now
	}
	for range cost {
		log = append(log, now)
	}
	st.setInstants(log)
}

func (logged) settle(s *Spec, st *State, now int64, c *Correction) bool {
	log := st.instants()
	first := sort.Search(len(log), func(i int) bool { return log[i] > now-s.Window })
	before := len(log)
	change, at := countChange(s, int64(len(log)-first), c), c.At.At
	if c.Events < 0 {
		change = int64(c.Events)
	}
	switch {
	case change > 0:
		if at == 0 {
			at = now
		}
		if at <= now-s.Window {
			return false
		}
		log, before = log[first:], before-first
		place := sort.Search(len(log), func(i int) bool { return log[i] > at })
		log = slices.Insert(log, place, slices.Repeat([]int64{at}, int(change))...)
	case change < 0 && at == 0:
		log = log[:max(0, len(log)+int(change))]
	case change < 0:
		end := sort.Search(len(log), func(i int) bool { return log[i] > at })
		begin := sort.Search(len(log), func(i int) bool { return log[i] >= at })
		log = slices.Delete(log, max(begin, end+int(change)), end)
	}
	if len(log) == before {
		return false
	}
	st.setInstants(log)
	return true
}

func (logged) fits(s *Spec, u Usage, cost int) bool {
	return int64(cost) <= s.Full-u.Used
}

func (logged) wait(_ *Spec, u Usage, _ int) int64 { return u.Third }

func (logged) longer(*Spec, int, int) (int64, bool) { return 0, false }

func (logged) charged(s *Spec, u Usage, cost int) Usage {
	if u.Used == 0 {
		u.Second = s.Window
	}
	return Usage{u.Used + int64(cost), u.Second, u.Third, s.Window}
}

func (logged) left(s *Spec, u Usage) (remaining int, next, reset int64) {
	return int(s.Full - u.Used), u.Second, u.Fourth
}

func (logged) reset(_ *Spec, u Usage) int64 { return u.Fourth }
