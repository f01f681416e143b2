package arrival

import (
	"cmp"
	"errors"
	"slices"
	"time"
	"unsafe"
)

// A timeline puts arrivals into the order of time. It waits for those that stand behind younger ones, second by second.
type timeline struct {
	sink  Sink
	slots []slot // a ring: that of a second is at its remainder
	base  int64  // the second of the oldest open slot
	begun bool
	late  int64
	worst int64 // by how many seconds the furthest of them stood behind
	count map[uint64]spread

	waiting, most int // bytes of all slots, and how many these may be
}

const (
	// MostWaiting is how many bytes the requests may take that wait for those before them: those of Options.Late.
	MostWaiting = 1 << 30
	// mostSpare is for how many requests of a second space is kept for the next one.
	mostSpare = 4096
)

// ErrCrowded is the error of logs that have more requests within Options.Late than there is room for.
var ErrCrowded = errors.New("arrival: the requests within -late take more than 1 GiB of memory")

// A slot is a second that is still open.
type slot struct {
	arrivals    []Arrival
	texts       texts
	exact, some bool // whether one of them has an exact instant, and whether there is any
	size        int  // of what it keeps, in bytes
}

// spread is how many requests a key has in a second, and how many of them have got their instant.
type spread struct{ all, given int64 }

func newTimeline(sink Sink, late time.Duration) *timeline {
	if late <= 0 {
		late = 10 * time.Second
	}
	return &timeline{sink: sink, slots: make([]slot, late/time.Second+1), count: make(map[uint64]spread), most: MostWaiting}
}

// add takes an arrival. It copies its text. The error is ErrCrowded.
func (t *timeline) add(a *Arrival) error {
	second := a.Instant / Second
	if !t.begun {
		t.begun, t.base = true, second-int64(len(t.slots))+1
	}
	if second >= t.base+int64(len(t.slots)) {
		t.closeBefore(second - int64(len(t.slots)) + 1)
	}
	taken := *a
	if second < t.base {
		t.late++
		t.worst = max(t.worst, t.base+int64(len(t.slots))-1-second)
		second = t.base
		taken.Instant = t.base * Second
	}
	s := &t.slots[t.at(second)]
	s.some = true
	s.exact = s.exact || !taken.Whole
	taken.Key = s.texts.keep(a.Key)
	taken.Agent = s.texts.keep(a.Agent)
	s.arrivals = append(s.arrivals, taken)
	size := sizeOf(a)
	s.size += size
	if t.waiting += size; t.waiting > t.most {
		return ErrCrowded
	}
	return nil
}

// sizeOf returns about how many bytes an arrival takes that waits.
func sizeOf(a *Arrival) int {
	size := 2*int(unsafe.Sizeof(*a)) + len(a.Key) + len(a.Agent) // twice, since the slice grows
	if r := a.Request; r != nil {
		size += int(unsafe.Sizeof(*r)) + len(r.Method) + len(r.Host) + len(r.Path) + len(r.Address)
		for i := range r.Header {
			size += int(unsafe.Sizeof(r.Header[i])) + len(r.Header[i].Value)
		}
		for _, value := range r.Values {
			size += int(unsafe.Sizeof(value)) + len(value)
		}
	}
	return size
}

func (t *timeline) at(second int64) int {
	n := int64(len(t.slots))
	return int(((second % n) + n) % n)
}

// closeBefore hands over what came before the given second, which becomes the oldest that is open.
func (t *timeline) closeBefore(second int64) {
	for last := min(second, t.base+int64(len(t.slots))); t.base < last; t.base++ {
		t.hand(&t.slots[t.at(t.base)])
	}
	t.base = second
}

// end hands over the rest.
func (t *timeline) end() {
	if t.begun {
		t.closeBefore(t.base + int64(len(t.slots)))
	}
}

// hand gives a second to the sink. A request whose second alone is known gets an instant: k requests of a key have those that part
// the second into k.
func (t *timeline) hand(s *slot) {
	if !s.some {
		return
	}
	clear(t.count)
	for i := range s.arrivals {
		if a := &s.arrivals[i]; a.Whole {
			c := t.count[a.Hash]
			c.all++
			t.count[a.Hash] = c
		}
	}
	for i := range s.arrivals {
		a := &s.arrivals[i]
		if !a.Whole {
			continue
		}
		c := t.count[a.Hash]
		if c.all == 1 {
			continue
		}
		a.Instant += c.given * Second / c.all
		c.given++
		t.count[a.Hash] = c
	}
	if s.exact {
		slices.SortStableFunc(s.arrivals, func(a, b Arrival) int { return cmp.Compare(a.Instant, b.Instant) })
	}
	t.sink.Second(s.arrivals)
	t.waiting -= s.size
	s.texts.forget()
	clear(s.arrivals) // they may refer to requests
	if cap(s.arrivals) > mostSpare {
		s.arrivals = nil
	}
	*s = slot{arrivals: s.arrivals[:0], texts: s.texts}
}
