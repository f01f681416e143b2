package script

import (
	"fmt"

	"github.com/weir-go/ratelimit/core/internal/call"
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
	if r.last == nil || c.Spec != r.last.Spec || c.Wanted != r.last.Wanted || c.Reserved != r.last.Reserved {
		words, asked, reserved := c.Spec.CheckWords(false, 0, nil), any(""), any("0")
		if c.Wanted {
			asked = "?"
		}
		if c.Reserved {
			reserved = "1"
		}
		r.Words = append(r.Words, words[1], words[3], words[4], words[5], asked, 0, reserved)
		r.rowAt, r.settled = len(r.Words)-2, 0
	}
	r.last = c
	r.settled++
	r.Words[r.rowAt] = r.settled
	r.addCharge(c)
	if c.Reserved {
		r.Words = append(r.Words, q.Reserving[0].words[0])
	}
}

// addCharge adds what is to be added to a charge or given back of it, and where it is found.
func (r *SettleRows) addCharge(c *call.Correction) {
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
