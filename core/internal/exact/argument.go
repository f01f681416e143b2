package exact

import "strconv"

// arguments are what a script is told of checks under a spec. They are made once, and of the type
// in which a client takes them, so that no check has to make its own.
type arguments struct {
	limits [4]any // texts, see limitArgument
	cost   any    // of one event, a number
}

func newArguments(s *Spec) arguments {
	var scratch [128]byte
	a := arguments{cost: s.Weight}
	for i := range a.limits {
		a.limits[i] = string(s.appendArgument(scratch[:0], i&charges != 0, i&goesOn != 0, 0))
	}
	return a
}

// The bits of a place among the arguments.
const (
	charges = 1 << iota
	goesOn
)

// LimitArgument returns the text that limit.lua takes apart: the spec, whether the check is charged
// or only asked, whether the next check belongs to the same call, and how many events have to stay free
// beside the check's: no more than the capacity. clock returns the time in microseconds, as far as it is
// known here: of a limit whose windows a calendar cuts, the script is told those around that.
func (s *Spec) LimitArgument(charged, more bool, headroom int, clock func() int64) any {
	if headroom > 0 && s.calendar == nil {
		var scratch [128]byte
		return string(s.appendArgument(scratch[:0], charged, more, headroom))
	}
	place := 0
	if charged {
		place |= charges
	}
	if more {
		place |= goesOn
	}
	if s.calendar != nil {
		return s.datedArgument(place, headroom, clock())
	}
	return s.arguments.limits[place]
}

// UnitArgument returns the Weight as an argument of a script: the cost of one event.
func (s *Spec) UnitArgument() any { return s.arguments.cost }

// appendArgument appends what LimitArgument returns.
func (s *Spec) appendArgument(b []byte, charged, more bool, headroom int) []byte {
	mode := "ask"
	if charged {
		mode = "take"
	}
	b = append(b, mode...)
	if more {
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
	if s.Name == "" {                             // its states have no other numbers
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
