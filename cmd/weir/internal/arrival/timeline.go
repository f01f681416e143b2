package arrival

import (
	"cmp"
	"slices"
	"time"
	"unsafe"
)

// A timeline puts arrivals into the order of time. It waits for arrivals that stand behind younger ones, second by second.
type timeline struct {
	sink    Sink
	slots   []slot // a ring: that of a second is at its remainder
	base    int64  // the second of the oldest open slot
	begun   bool
	front   int64 // the youngest second
	late    int64
	worst   int64 // by how many seconds the furthest of them stood behind
	spreads spreads

	waiting, most int  // bytes of all slots, and how many these may be
	crowded       bool // whether they were more
}

const (
	// MostWaiting is how many bytes the requests may take that wait for those before them: those of Options.Late.
	MostWaiting = 1 << 30
	// mostSpare is for how many requests of a second space is kept for the next one.
	mostSpare = 4096
)

// A slot is a second that is still open.
type slot struct {
	arrivals    []Arrival
	texts       texts
	exact, some bool // whether one of them has an exact instant, and whether there is any
	size        int  // of its requests, in bytes

	from int64 // how much of the second was handed over already, in microseconds
}

// spread is how many requests a key has in a second, and how many of them have got their instant.
type spread struct{ all, given int64 }

// spreads are those of the keys of a second.
type spreads struct {
	places map[uint64]int32 // of the keys, by their hashes
	keys   []spread
	of     []int32 // the place of the key of each request
}

// count counts the requests of a second that have no instant yet.
func (s *spreads) count(arrivals []Arrival) {
	clear(s.places)
	s.keys, s.of = s.keys[:0], s.of[:0]
	for i := range arrivals {
		var place int32
		if a := &arrivals[i]; a.Whole {
			var known bool
			if place, known = s.places[a.Hash]; !known {
				place = int32(len(s.keys))
				s.places[a.Hash], s.keys = place, append(s.keys, spread{})
			}
			s.keys[place].all++
		}
		s.of = append(s.of, place)
	}
}

// forget gives the space of a second with many requests back.
func (s *spreads) forget() {
	if cap(s.of) > mostSpare {
		s.keys, s.of = nil, nil
	}
}

func newTimeline(sink Sink, late time.Duration) *timeline {
	if late <= 0 {
		late = 10 * time.Second
	}
	return &timeline{sink: sink, slots: make([]slot, late/time.Second+1), spreads: spreads{places: make(map[uint64]int32)}, most: MostWaiting}
}

// add takes an arrival. It copies its key.
func (t *timeline) add(a *Arrival) {
	second := a.Instant / Second
	if !t.begun {
		t.begun, t.base, t.front = true, second-int64(len(t.slots))+1, second
	}
	t.front = max(t.front, second)
	if second >= t.base+int64(len(t.slots)) {
		t.closeBefore(second - int64(len(t.slots)) + 1)
	}
	if a.passing {
		return
	}
	taken := *a
	if second < t.base {
		t.late++
		t.worst = max(t.worst, t.front-second)
		second = t.base
		taken.Instant = t.base*Second + t.slots[t.at(t.base)].from
	}
	s := &t.slots[t.at(second)]
	s.some = true
	s.exact = s.exact || !taken.Whole
	taken.Key = s.texts.keep(a.Key)
	s.arrivals = append(s.arrivals, taken)
	size := sizeOf(a)
	s.size += size
	if t.waiting += size; t.waiting > t.most {
		t.crowded = true
		t.makeRoom()
	}
}

// makeRoom hands over the oldest half of the requests that wait, before their time. If one second takes all the room, it hands over the first
// part of that second.
func (t *timeline) makeRoom() {
	for t.waiting > t.most/2 {
		if s := &t.slots[t.at(t.base)]; s.size == t.waiting {
			t.hand(s, s.from+(Second-s.from)/2)
			return
		}
		t.closeBefore(t.base + 1)
	}
}

// sizeOf returns about how many bytes an arrival takes that waits.
func sizeOf(a *Arrival) int {
	size := 2*int(unsafe.Sizeof(*a)) + len(a.Key) + len(a.Agent) // twice, since the slice grows
	if a.Request != nil {
		size += a.Request.Size()
	}
	return size
}

func (t *timeline) at(second int64) int {
	n := int64(len(t.slots))
	return int(((second % n) + n) % n)
}

// closeBefore hands over the requests before the given second, which becomes the oldest that is open.
func (t *timeline) closeBefore(second int64) {
	for last := min(second, t.base+int64(len(t.slots))); t.base < last; t.base++ {
		s := &t.slots[t.at(t.base)]
		t.hand(s, Second)
		s.from = 0
	}
	t.base = second
}

// end hands over the rest.
func (t *timeline) end() {
	if t.begun {
		t.closeBefore(t.base + int64(len(t.slots)))
	}
}

// hand gives a second to the sink, or the rest of it. A request that has a whole second only gets an instant: k requests of a key divide
// the time from s.from to the given end into k equal parts.
func (t *timeline) hand(s *slot, end int64) {
	if !s.some {
		return
	}
	t.spreads.count(s.arrivals)
	begin := s.arrivals[0].Instant / Second * Second
	last := begin + s.from
	for i := range s.arrivals {
		a := &s.arrivals[i]
		switch {
		case a.Whole:
			c := &t.spreads.keys[t.spreads.of[i]]
			a.Instant = begin + s.from + c.given*(end-s.from)/c.all
			c.given++
		case a.Instant < begin+s.from:
			a.Instant = begin + s.from
			t.late++
		}
		last = max(last, a.Instant)
	}
	if s.exact {
		slices.SortStableFunc(s.arrivals, func(a, b Arrival) int { return cmp.Compare(a.Instant, b.Instant) })
	}
	t.spreads.forget()
	t.sink.Second(s.arrivals)
	t.waiting -= s.size
	s.texts.forget()
	clear(s.arrivals) // they may refer to requests
	if cap(s.arrivals) > mostSpare {
		s.arrivals = nil
	}
	*s = slot{arrivals: s.arrivals[:0], texts: s.texts, from: last - begin}
}
