package exact

import (
	"strconv"
	"strings"
)

// arguments are the arguments of scripts for checks under a spec. They are made once, and of the type in which a client
// takes them, so that no check has to make its own.
type arguments struct {
	limits [4]any  // texts, see LimitArgument
	words  [6]any  // see CheckWords
	notes  [4]any  // texts, see NoteArgument
	heeds  *[4]any // texts, see HeedArgument; nil: it is no ban
}

func newArguments(s *Spec) arguments {
	var scratch [128]byte
	var a arguments
	for i := range a.limits {
		a.limits[i] = string(s.appendArgument(scratch[:0], i&charges != 0, i&goesOn != 0, Alone, 0))
	}
	capacity := strconv.FormatInt(s.Full, 10)
	ceiling := strconv.FormatInt(s.Full-s.Weigh(s.Owed), 10)
	a.words = [...]any{"0", capacity, ceiling, strconv.FormatInt(s.Drain+s.Window, 10), strconv.FormatInt(s.Tick, 10), ""}
	if s.Name != "" {
		a.words[5] = strings.TrimPrefix(string(appendSpaced(scratch[:0], s.arithmetic.numbers(&s.Units)...)), " ")
	}
	if s.Algorithm.Noted() {
		for _, more := range []bool{false, true} {
			a.notes[argumentOf(false, more)] = string(s.appendArgumentOf(scratch[:0], "note", more, Alone, 0))
		}
	}
	if !s.Algorithm.Bans() {
		return a
	}
	a.heeds = new([4]any)
	for i := range a.heeds {
		b := s.appendArgument(scratch[:0], false, i&goesOn != 0, Alone, 0)
		if i&charges != 0 {
			b = append(b, " strike"...)
		} else {
			b = append(b, " heed"...)
		}
		a.heeds[i] = string(b)
	}
	return a
}

// The bits of a place among the arguments.
const (
	charges = 1 << iota
	goesOn
)

// argumentOf returns the place among the arguments for a check that charges or strikes, or does not, in a call that goes
// on, or ends.
func argumentOf(charged, more bool) (place int) {
	if charged {
		place |= charges
	}
	if more {
		place |= goesOn
	}
	return place
}

// Among says where a check stands among alternatives, of which the first that fits is charged.
type Among uint8

const (
	// Alone is a check that has no alternative.
	Alone Among = iota
	// Followed is a check before an alternative of it in the call.
	Followed
	// Last is the last of some alternatives.
	Last
)

// LimitArgument returns the text that limit.lua takes apart: the spec, whether the check is charged or only asked,
// whether the next check belongs to the same call, where the check stands among alternatives, and how many events have to
// stay free beside the check's: no more than the capacity. clock returns the time in microseconds, as far as it is known
// here; for a limit with windows of a calendar, the text has the windows around that time.
func (s *Spec) LimitArgument(charged, more bool, among Among, headroom int, clock func() int64) any {
	if s.calendar != nil {
		return s.datedArgument(charged, more, among, headroom, clock())
	}
	if headroom > 0 || among != Alone {
		var scratch [128]byte
		return string(s.appendArgument(scratch[:0], charged, more, among, headroom))
	}
	return s.arguments.limits[argumentOf(charged, more)]
}

// charged is the first of the CheckWords of a check that is charged.
var charged any = "1"

// CheckWords returns the arguments for a check in its algorithm's script: whether it is charged ("1" or "0"), the
// capacity, the capacity less the headroom, the units that drain in a tick or the ticks of a window, the length of a tick
// in microseconds, and the numbers that a named limit leaves beside its states, or the windows that a calendar cuts
// around the time of the clock. All of them are texts, except the third, which may be a number.
func (s *Spec) CheckWords(charges bool, headroom int, clock func() int64) [6]any {
	words := s.arguments.words
	if charges {
		words[0] = charged
	}
	if headroom > 0 {
		words[2] = s.Full - s.Weigh(headroom+s.Owed)
	}
	if s.calendar != nil {
		words[5] = s.around(clock()).numbers
	}
	return words
}

// NoteArgument is the LimitArgument of a check that is charged and noted, so that it can be settled: each time that it is
// asked on its own, or all of them as one.
func (s *Spec) NoteArgument(asOne, more bool, among Among, headroom int) any {
	if headroom == 0 && among == Alone && !asOne {
		return s.arguments.notes[argumentOf(false, more)]
	}
	mode := "note"
	if asOne {
		mode = "sum"
	}
	var scratch [128]byte
	return string(s.appendArgumentOf(scratch[:0], mode, more, among, headroom))
}

// HeedArgument is the LimitArgument of a check that heeds a ban, and writes only if the ban has to be mended
// or, where it strikes, if its call is denied.
func (s *Spec) HeedArgument(strikes, more bool) any {
	return s.arguments.heeds[argumentOf(strikes, more)]
}

// appendArgument appends the text of LimitArgument.
func (s *Spec) appendArgument(b []byte, charged, more bool, among Among, headroom int) []byte {
	if charged {
		return s.appendArgumentOf(b, "take", more, among, headroom)
	}
	return s.appendArgumentOf(b, "ask", more, among, headroom)
}

// appendArgumentOf is appendArgument for a check with a given first word.
func (s *Spec) appendArgumentOf(b []byte, mode string, more bool, among Among, headroom int) []byte {
	b = append(b, mode...)
	switch {
	case among == Followed:
		b = append(b, '|')
	case among == Last && more:
		b = append(b, '/', '+')
	case among == Last:
		b = append(b, '/')
	case more:
		b = append(b, '+')
	}
	b = append(b, ' ')
	b = append(b, s.Algorithm.String()...)
	b = appendSpaced(b, s.Full)
	if headroom += s.Owed; headroom > 0 { // checks leave the debt to settlements
		b = append(b, '-')
		b = strconv.AppendInt(b, s.Weigh(headroom), 10)
	}
	if s.Each > 0 {
		b = strconv.AppendInt(append(b, '/'), s.Each, 10)
	}
	b = appendSpaced(b, s.Drain+s.Window, s.Tick) // drain or window is 0
	if s.Algorithm.Bans() {
		return s.Ban.append(b)
	}
	if s.Algorithm.Shares() {
		b = appendSpaced(b, int64(s.fairTerms().Weight))
	}
	if s.Name == "" { // its states have no other numbers
		return b
	}
	return appendSpaced(b, s.arithmetic.numbers(&s.Units)...)
}

// appendSpaced appends numbers, each after a space.
func appendSpaced(b []byte, numbers ...int64) []byte {
	for _, number := range numbers {
		b = append(b, ' ')
		b = strconv.AppendInt(b, number, 10)
	}
	return b
}
