package core

import "strconv"

// phrase is what a script can be told of a check but for its cost.
type phrase struct {
	limit Limit
	// charge says that the check is not only asked, and more that the next one belongs
	// to the same question.
	charge, more bool
}

// words are the arguments for a check that costs one event.
type words struct{ limit, cost any }

func (p *phrase) words() words {
	return words{limit: string(p.append(nil)), cost: p.limit.units.weight}
}

// appendWords appends what check.lua expects to be told of an ask.
func (r *Redis) appendWords(arguments []any, a *ask, more bool) []any {
	p := phrase{limit: a.check.Limit, charge: a.charge, more: more}
	w, ok := r.words.find(&p)
	if !ok {
		w = r.words.add(p, p.words())
	}
	if units := a.unitsAsked(); units != a.check.Limit.units.weight {
		return append(arguments, w.limit, units)
	}
	return append(arguments, w.limit, w.cost)
}

// append appends the text that check.lua takes apart.
func (p *phrase) append(b []byte) []byte {
	mode := "ask"
	if p.charge {
		mode = "take"
	}
	b = append(b, mode...)
	if p.more {
		b = append(b, '+')
	}
	b = append(b, ' ')
	b = append(b, p.limit.algorithm.String()...)
	u := &p.limit.units
	b = appendSpaced(b, u.capacity, u.drain+u.window, u.tick) // drain or window is 0
	return p.limit.appendNumbers(b)
}

// appendNumbers appends what a named limit leaves beside its state, so that the
// state can be understood after the numbers have changed. The state of an unnamed
// limit has no need of it, and neither have the instants of a log.
func (l *Limit) appendNumbers(b []byte) []byte {
	if l.name == "" {
		return b
	}
	u := &l.units
	switch l.algorithm { //nolint:exhaustive // the others are meters
	case fixedWindow:
		return appendSpaced(b, u.window)
	case slidingWindow:
		return appendSpaced(b, u.window, u.tick)
	case slidingLog:
		return b
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

// unitsAsked returns the cost in the limit's units, or one more than the capacity
// if the cost exceeds it. A check that costs nothing has nothing to fit.
func (a *ask) unitsAsked() int64 {
	l := &a.check.Limit
	if a.check.Cost == 0 {
		return 0
	}
	if a.cost > l.capacity {
		return l.units.capacity + 1
	}
	return int64(a.cost) * l.units.weight
}
