package exact

import "strconv"

// arguments are what a script is told of checks under a spec. They are made once, and of the type
// in which a client takes them, so that no check has to make its own.
type arguments struct {
	limits [4]any  // texts, see LimitArgument
	cost   any     // of one event, a number
	heeds  *[4]any // texts, see HeedArgument; nil: it is no ban
}

func newArguments(s *Spec) arguments {
	var scratch [128]byte
	a := arguments{cost: s.Weight}
	for i := range a.limits {
		a.limits[i] = string(s.appendArgument(scratch[:0], i&charges != 0, i&goesOn != 0, Alone, 0))
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

// argumentOf returns the place among the arguments of a check that charges, or strikes, and whose call goes on or not.
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
	// Followed is a check whose next one in the call is an alternative of it.
	Followed
	// Last is the last of some alternatives.
	Last
)

// LimitArgument returns the text that limit.lua takes apart: the spec, whether the check is charged
// or only asked, whether the next check belongs to the same call, where the check stands among
// alternatives, and how many events have to stay free beside the check's: no more than the capacity. clock
// returns the time in microseconds, as far as it is known here: of a limit whose windows a calendar cuts, the
// script is told those around that.
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

// HeedArgument is the LimitArgument of a check that heeds a ban, and writes only if the ban has to be mended
// or, where it strikes, if its call is denied.
func (s *Spec) HeedArgument(strikes, more bool) any {
	return s.arguments.heeds[argumentOf(strikes, more)]
}

// UnitArgument returns the Weight as an argument of a script: the cost of one event.
func (s *Spec) UnitArgument() any { return s.arguments.cost }

// appendArgument appends what LimitArgument returns.
func (s *Spec) appendArgument(b []byte, charged, more bool, among Among, headroom int) []byte {
	mode := "ask"
	if charged {
		mode = "take"
	}
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
	if headroom > 0 {
		b = append(b, '-')
		b = strconv.AppendInt(b, s.Weigh(headroom), 10)
	}
	b = appendSpaced(b, s.Drain+s.Window, s.Tick) // drain or window is 0
	if s.Algorithm.Bans() {
		return s.Ban.append(b)
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
