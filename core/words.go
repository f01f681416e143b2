package core

import "strconv"

// phrase tells what a script can be told of a check but for its cost.
type phrase uint8

const (
	charging phrase      = 1 << iota // the check is not only asked
	going                            // the next check belongs to the same question
	phrases  = 1 << iota             // how many there are
)

// words are what a script is told of checks under a limit, worked out once.
type words struct {
	phrases [phrases]any // texts
	cost    any          // that of one event, a number
}

func newWords(r *rule) words {
	var scratch [128]byte
	w := words{cost: r.units.weight}
	for p := range phrase(phrases) {
		w.phrases[p] = string(r.appendPhrase(scratch[:0], p))
	}
	return w
}

// appendWords appends what check.lua expects to be told of an ask.
func appendWords(arguments []any, a *ask, more bool) []any {
	var p phrase
	if a.charge {
		p |= charging
	}
	if more {
		p |= going
	}
	w := &a.check.Limit.words
	if a.costs != nil {
		return append(arguments, w.phrases[p], a.listedCosts())
	}
	if units := a.unitsAsked(); units != a.check.Limit.units.weight {
		return append(arguments, w.phrases[p], units)
	}
	return append(arguments, w.phrases[p], w.cost)
}

// appendPhrase appends the text that limit.lua takes apart.
func (r *rule) appendPhrase(b []byte, p phrase) []byte {
	mode := "ask"
	if p&charging != 0 {
		mode = "take"
	}
	b = append(b, mode...)
	if p&going != 0 {
		b = append(b, '+')
	}
	b = append(b, ' ')
	b = append(b, r.algorithm.String()...)
	u := &r.units
	b = appendSpaced(b, u.capacity, u.drain+u.window, u.tick) // drain or window is 0
	return r.appendNumbers(b)
}

// appendNumbers appends what a named limit leaves beside its state, so that the
// state can be understood after the numbers have changed. The state of an unnamed
// limit has no need of it, and neither have the instants of a log: its numbers only say
// that they may have changed.
func (r *rule) appendNumbers(b []byte) []byte {
	if r.name == "" {
		return b
	}
	u := &r.units
	switch r.algorithm { //nolint:exhaustive // the others are meters
	case fixedWindow:
		return appendSpaced(b, u.window)
	case slidingWindow:
		return appendSpaced(b, u.window, u.tick, u.capacity)
	case slidingLog:
		return appendSpaced(b, u.window)
	}
	return appendSpaced(b, u.capacity, u.weight, u.drain, u.tick)
}

// appendSpaced appends numbers, each after a space.
func appendSpaced(b []byte, numbers ...int64) []byte {
	for _, number := range numbers {
		b = append(b, ' ')
		b = strconv.AppendInt(b, number, 10)
	}
	return b
}

// listedCosts returns the costs in the limit's units, with commas in between.
func (a *ask) listedCosts() string {
	b := make([]byte, 0, 16*len(a.costs))
	for i, cost := range a.costs {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(cost)*a.check.Limit.units.weight, 10)
	}
	return string(b)
}

// unitsAsked returns the cost in the limit's units, or one more than the capacity
// if the cost exceeds it. A check that costs nothing has nothing to fit.
func (a *ask) unitsAsked() int64 {
	l := &a.check.Limit
	if a.check.Mode == Look {
		return 0
	}
	if a.cost > l.capacity {
		return l.units.capacity + 1
	}
	return int64(a.cost) * l.units.weight
}
