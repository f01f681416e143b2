package redisstore

import (
	"context"
	"slices"
	"sync"

	"github.com/weir-go/ratelimit/core/internal/call"
)

// choice is alternatives that are in several parts of a call. The first of them is asked with the other
// checks of its part, and charged if it fits; those behind it in that part, too. The parts of the others are
// only asked whether they would fit. If none of the first fits, the next one that would is charged in a
// round trip of its own, and if it does not fit any more, the one behind it.
type choice struct {
	of []*part // of each alternative
	at []int   // its place there
	// asked are the alternatives as the call has them.
	asked []call.Check
}

// choicesOf finds the alternatives of a group that are in several parts, and changes their copies there.
func choicesOf(group []call.Check, parts []*part, by parting) (choices []*choice) {
	for first := 0; first < len(group); first = call.EndOf(group, first) {
		if either := group[first:call.EndOf(group, first)]; by.several(either) {
			choices = append(choices, newChoice(either, parts, by))
		}
	}
	return choices
}

// newChoice changes the copies of alternatives in parts: there, each part's own are alternatives of each
// other and of a check that looks, so that no part denies the call for them.
func newChoice(either []call.Check, parts []*part, by parting) *choice {
	c := &choice{asked: either}
	charged := true // all before it have been in the part of the first
	for i := range either {
		a := &either[i]
		p := parts[slices.IndexFunc(parts, func(p *part) bool { return by(&p.groups[0][0]) == by(a) })]
		at := slices.IndexFunc(p.groups[0], func(own call.Check) bool { return own.Index == a.Index })
		own := &p.groups[0][at]
		own.Or = slices.Contains(c.of, p)
		if charged = charged && by(a) == by(&either[0]); !charged {
			own.Charge, own.Condition = false, a.Units > 0
		}
		c.of, c.at = append(c.of, p), append(c.at, at)
	}
	for i := range either { // from the last one, since places behind it move
		last := len(either) - 1 - i
		p, at := c.of[last], c.at[last]
		if slices.Contains(c.of[last+1:], p) {
			continue
		}
		look := call.Check{Key: either[last].Key, Spec: either[last].Spec, Index: -1, Or: true, Either: true}
		p.groups[0] = slices.Insert(p.groups[0], at+1, look)
	}
	return c
}

// chosen returns the first alternative that fits as far as is known, or -1, and whether it still has to be
// charged.
func (c *choice) chosen() (place int, uncharged bool) {
	for i, p := range c.of {
		if own := &p.groups[0][c.at[i]]; p.err == nil && own.Fits {
			return i, c.asked[i].Charge && !own.Charge
		}
	}
	return -1, false
}

// choose charges one alternative of each choice, if the parts have let the call pass. It returns all parts: each
// alternative that it has asked about is one more. denied says that no alternative fits.
func (r *Store) choose(ctx context.Context, parts []*part, choices []*choice) (all []*part, denied bool) {
	if len(choices) == 0 || slices.ContainsFunc(parts, func(p *part) bool { return p.gated && !p.pass }) {
		return parts, false
	}
	for _, c := range choices {
		if place, _ := c.chosen(); place < 0 {
			return parts, true
		}
	}
	more := make([][]*part, len(choices))
	var waiting sync.WaitGroup
	for i, c := range choices {
		waiting.Go(func() { more[i] = r.charge(ctx, c) })
	}
	waiting.Wait()
	return append(parts, slices.Concat(more...)...), false
}

// charge charges the first alternative of a choice that fits, and returns a part for each that it has asked about.
// The call depends on the last of them alone.
func (r *Store) charge(ctx context.Context, c *choice) (asked []*part) {
	for {
		place, uncharged := c.chosen()
		if place < 0 {
			return asked
		}
		for _, p := range asked {
			p.gated = false
		}
		if !uncharged {
			return asked
		}
		own := c.asked[place]
		own.Or, own.Either = false, false
		p := &part{groups: [][]call.Check{{own}}, gated: true}
		asked = append(asked, p)
		if p.err = r.askServer(ctx, p.groups, true); p.err != nil {
			return asked
		}
		p.pass = call.Decide(p.groups[0])
		if p.pass {
			return asked
		}
		c.of[place].groups[0][c.at[place]].Fits = false
	}
}
