package script

import (
	"fmt"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// SettleRows puts plain corrections into the words of a script call, as those in lua/settle read them: the words of the
// limit once for each row of corrections that share it.
type SettleRows struct {
	// Words are the words in front, and then all.
	Words []any

	last    *call.Correction
	rowAt   int // the place of the number of the row's corrections
	settled int // how many the row has
}

// Add adds the correction of a plain request.
func (r *SettleRows) Add(q *Request) {
	c := q.settled
	if r.last == nil || c.Spec != r.last.Spec || c.Wanted != r.last.Wanted {
		words, asked := c.Spec.CheckWords(false, 0, nil), any("")
		if c.Wanted {
			asked = "?"
		}
		r.Words = append(r.Words, words[1], words[3], words[4], words[5], asked, 0)
		r.rowAt, r.settled = len(r.Words)-1, 0
	}
	r.last = c
	r.settled++
	r.Words[r.rowAt] = r.settled
	if adjusts[c.Spec.Algorithm] == byInstant {
		r.Words = append(r.Words, unitsOf(c), c.At.At)
		return
	}
	r.Words = append(r.Words, unitsOf(c), c.At.Order, fmt.Sprintf("n%016d", c.At.Order/slotsOfText))
	if c.Spec.Delayed {
		r.Words = append(r.Words, c.At.At)
		if c.Firm {
			r.Words = append(r.Words, "")
		} else {
			r.Words = append(r.Words, c.At.Used)
		}
	}
}

// slotsOfText is how many numbers of reservations share a text: see notes.lua.
const slotsOfText = 52

// adjustment tells by what the script of the task [Adjust] finds the charges of an algorithm.
type adjustment uint8

const (
	unadjusted adjustment = iota // there is no such script
	byNumber                     // by their numbers, in the notes of the state
	byInstant
)

var adjusts = [exact.Count + 1]adjustment{
	exact.Leaky: byNumber, exact.TokenBucket: byNumber, exact.GCRA: byNumber, exact.Shaping: byNumber,
	exact.FixedWindow: byInstant, exact.SlidingWindow: byInstant,
}

// Adjusts reports whether there is a script of the task [Adjust] for an algorithm.
func Adjusts(of exact.Algorithm) bool { return adjusts[of] != unadjusted }

// isPlainSettlement reports whether the script of the task [Adjust] knows such a correction.
func isPlainSettlement(c *call.Correction) bool {
	if c.Events == 0 || c.Raise || c.Reset || c.Renew || c.Reserved || c.Length > 0 || c.Leaves != nil {
		return false
	}
	switch adjusts[c.Spec.Algorithm] {
	case byNumber:
		return c.At.Order > 0
	case byInstant:
		return c.At.At > 0
	case unadjusted:
	}
	return false
}
