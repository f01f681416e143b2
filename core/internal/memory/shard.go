package memory

import (
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// shard holds a part of the keys under a lock of its own.
type shard struct {
	mu      sync.Mutex
	entries entries
	leaving departures
	bound   int // of entries
	pasts   exact.Pasts
	open    map[exact.Key]*exact.Reservations // of the entries that have some; nil: none has
	most    int                               // entries since the map was made

	_ [192 - 8 - 24 - 24 - 8 - 56 - 8 - 8]byte // no cache line has two shards
}

// entry is a state on its way out.
type entry struct {
	subject string // of the state's key
	state   exact.State
	full    int64 // when the state is as good as new
	due     int64 // that of its departure, at hand
	place   int   // in the shard's departures; -1: it is not there yet
}

const (
	// mostForgotten bounds how long a call is held up by keys that vanish. It adds one key for each
	// check at most.
	mostForgotten = 2
	// mostSwept is the same for the shard that a call sweeps besides, once in sweepEvery calls.
	mostSwept, sweepEvery = 32, 8
	// mostMoved bounds how many keys move at once into a smaller map.
	mostMoved = 4096
	// mostSpared bounds the search for a key that can be given up, among the soonest and then among
	// the others.
	mostSpared = 64
)

// empty forgets every key.
func (s *shard) empty(seed maphash.Seed, slack int64) {
	s.entries, s.leaving, s.pasts, s.open = newEntries(seed, 0), nil, exact.NewPasts(s.bound, slack), nil
	s.most = 0
}

// add adds an entry, which has to be scheduled.
func (s *shard) add(key exact.Key) *entry {
	key.Subject = strings.Clone(key.Subject) // it may be a part of a whole request
	e := &entry{subject: key.Subject, place: -1}
	s.entries.add(key, e)
	s.most = max(s.most, s.entries.len())
	return e
}

// schedule notes when the state of an entry will be as good as new. An entry that is used does not
// move, unless a named limit has become shorter.
func (s *shard) schedule(e *entry, full int64) {
	if len(s.open) > 0 {
		full = max(full, s.open[e.key()].Until())
	}
	e.full = full
	switch {
	case e.place < 0:
		s.leaving = append(s.leaving, departure{})
		s.leaving.put(e, len(s.leaving)-1)
	case full < e.due:
		s.leaving.put(e, e.place)
	}
}

// sweep forgets some of the keys that were as good as new at an instant, and gives back the room that is not needed any
// more.
func (s *shard) sweep(now int64) {
	s.forget(now, mostSwept)
	s.pasts.Forget(now, mostSwept)
	if len(s.open) == 0 {
		s.open = nil
	}
	if left := s.entries.len(); left > mostMoved || left > s.most/4 || s.most <= mostSwept {
		return
	}
	// A map keeps the room of its deleted entries.
	kept := newEntries(s.entries.seed, s.entries.len())
	for e := range s.entries.all() {
		kept.add(e.key(), e)
	}
	s.entries, s.leaving, s.most = kept, slices.Clone(s.leaving), kept.len()
}

// forget drops up to most keys that were as good as new at an instant. To use a key does not move its entry: forget puts
// the keys that have been used since it last looked at them where they belong now.
func (s *shard) forget(now int64, most int) {
	for range most {
		if len(s.leaving) == 0 || s.leaving[0].due > now {
			return
		}
		if e := s.leaving[0].entry; e.full > now {
			s.leaving.put(e, 0)
		} else {
			s.remove(e)
		}
	}
}

// giveUp drops a key that still admits a unit, and reports whether it found one. Of the
// keys that it looks at first, it drops the one that would expire soonest. Departures are
// ordered as a heap, so these are about the soonest of all. If they all deny, it looks at a
// bounded number of others. It spares the keys of the call at hand.
func (s *shard) giveUp(now int64, spared []call.Check) bool {
	if len(s.leaving) == 0 {
		return false
	}
	for range mostSpared { // keys that have been used since stand too far in front
		first := s.leaving[0].entry
		if first.due == first.full {
			break
		}
		s.leaving.put(first, 0)
	}
	var soonest *entry
	for _, d := range s.leaving[:min(len(s.leaving), mostSpared+len(spared))] {
		if e := d.entry; (soonest == nil || e.full < soonest.full) && e.givesWay(now, spared) {
			soonest = e
		}
	}
	for range mostSpared {
		if soonest != nil {
			s.remove(soonest)
			return true
		}
		if e := s.leaving[rand.IntN(len(s.leaving))].entry; e.givesWay(now, spared) {
			soonest = e
		}
	}
	return false
}

// givesWay reports whether a key may be given up.
func (e *entry) givesWay(now int64, spared []call.Check) bool {
	key, spec := e.key(), e.state.Spec()
	if slices.ContainsFunc(spared, func(c call.Check) bool { return c.StateKey() == key }) {
		return false
	}
	u, _ := spec.Observe(&e.state, now, 1)
	return spec.GivesWay(u, now)
}

// key returns the key of an entry's state.
func (e *entry) key() exact.Key {
	return exact.Key{Subject: e.subject, Identity: e.state.Spec().Identity()}
}

func (s *shard) remove(e *entry) {
	s.leaving.remove(e.place)
	s.entries.remove(e)
	delete(s.open, e.key())
}

// departure is an entry, and when to look whether its state is as good as new: when it will be, or before.
type departure struct {
	due   int64
	entry *entry
}

// departures is a heap of entries, the one that is due soonest first: none is due before its parent. The entries lie anywhere in memory, and each
// one that moves is written to. So a departure has many children, and the heap few levels.
type departures []departure

// children is how many children a departure has.
const children = 4

// put puts an entry where it belongs, given a place that is free: that one, or one on the way to the first or to the last. It is due when its state
// is as good as new.
func (d departures) put(e *entry, place int) {
	e.due = e.full
	for place > 0 && e.due < d[(place-1)/children].due {
		parent := (place - 1) / children
		d.set(place, d[parent])
		place = parent
	}
	for children*place+1 < len(d) {
		first := children*place + 1
		soonest, end := first, min(first+children, len(d))
		for child := first + 1; child < end; child++ {
			if d[child].due < d[soonest].due {
				soonest = child
			}
		}
		if e.due <= d[soonest].due {
			break
		}
		d.set(place, d[soonest])
		place = soonest
	}
	d.set(place, departure{e.due, e})
}

func (d departures) set(place int, one departure) {
	d[place] = one
	one.entry.place = place
}

// remove removes the departure at a place. The last one takes its place, or one that suits it better.
func (d *departures) remove(place int) {
	last := len(*d) - 1
	other := (*d)[last].entry
	(*d)[last] = departure{}
	if *d = (*d)[:last]; place < last {
		d.put(other, place)
	}
}
