package exact

import (
	"strconv"
	"sync/atomic"
)

// eras are the arguments of scripts for checks under a spec with windows of a calendar: the windows around an instant.
// They are made anew when a window has ended.
type eras struct{ latest atomic.Pointer[era] }

type era struct {
	from, until int64
	windows     []byte
	limits      [4]any // see arguments
	numbers     any    // the windows, as one of the CheckWords
}

// around returns the era of an instant.
func (s *Spec) around(instant int64) *era {
	if e := s.eras.latest.Load(); e != nil && e.from <= instant && instant < e.until {
		return e
	}
	from, until := s.calendar.Window(instant)
	e := &era{from: from, until: until, windows: s.appendWindows(nil, instant)}
	e.numbers = string(e.windows[1:])
	for i := range e.limits {
		e.limits[i] = string(append(s.appendArgument(nil, i&charges != 0, i&goesOn != 0, Alone, 0), e.windows...))
	}
	s.eras.latest.Store(e)
	return e
}

// appendWindows appends the beginnings, each after a space, of the window before that of an instant and of
// the four that follow it. A script that finds itself in one of the first three knows the one behind it, too. For a limit with debt there is one
// more at each end, since a window pays the debt of the one before it, and is followed by one that pays its own.
func (s *Spec) appendWindows(b []byte, instant int64) []byte {
	start, _ := s.calendar.Window(instant)
	start, end := s.calendar.Window(start - 1)
	following := 4
	if s.Each > 0 {
		start, end = s.calendar.Window(start - 1)
		following += 2
	}
	b = strconv.AppendInt(append(b, ' '), max(0, start), 10)
	for range following {
		b = strconv.AppendInt(append(b, ' '), end, 10)
		_, end = s.calendar.Window(end)
	}
	return b
}

// datedArgument returns the argument of a limit with windows of a calendar: see [Spec.LimitArgument].
func (s *Spec) datedArgument(charged, more bool, among Among, headroom int, instant int64) any {
	e := s.around(instant)
	if headroom > 0 || among != Alone {
		return string(append(s.appendArgument(nil, charged, more, among, headroom), e.windows...))
	}
	return e.limits[argumentOf(charged, more)]
}

// offsets are the specs of keys with windows that begin later: see [Spec.For].
type offsets [mostOffsets]atomic.Pointer[Spec]

// mostOffsets is how many offsets keys have: enough that few windows begin at once, and so few that the keys of a batch
// share the arguments of their scripts.
const mostOffsets = 1 << offsetBits

const offsetBits = 5

// offsetFor is For under a limit with jitter.
func (s *Spec) offsetFor(key string) *Spec {
	place := placeOf(key)
	slot := &s.offsets[place]
	if own := slot.Load(); own != nil {
		return own
	}
	jitter := s.Calendar.Value().Jitter.Microseconds()
	own := &Spec{
		Params: s.Params, Units: s.Units, Traits: s.Traits, problem: s.problem, arithmetic: s.arithmetic, arguments: s.arguments,
		identity: s.identity, shadowOf: s.shadowOf, calendar: s.calendar.Shifted(jitter * int64(place) / mostOffsets),
	}
	if slot.CompareAndSwap(nil, own) {
		return own
	}
	return slot.Load()
}

// placeOf returns the place of a key among the offsets, by the hash FNV-1a, of which the high bits are mixed
// into the low ones.
func placeOf(key string) int {
	hash := uint64(14695981039346656037)
	for i := range len(key) {
		hash = (hash ^ uint64(key[i])) * 1099511628211
	}
	hash ^= hash >> 32
	hash *= 0x9e3779b97f4a7c15
	return int(hash >> (64 - offsetBits))
}
