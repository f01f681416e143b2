package script

import (
	"fmt"
	"strconv"

	"github.com/weir-go/ratelimit/core/internal/call"
)

// Rows puts the limits and the costs of checks into the words of a script call, as calls.lua reads them:
// once for each row of checks that share their limit, their cost and how often they are asked, and once for
// requests in a row of several checks that share these. Holders stand behind the words of their row.
type Rows struct {
	// Words are the words in front, and then all.
	Words []any

	last row
	same sameRequests
}

// row is checks in a row.
type row struct {
	limit, cost   any
	times, checks int
	costAt        int // the place of the cost among the words
}

// sameRequests are requests in a row with words that are not written yet.
type sameRequests struct {
	first           *Request // nil: there are none
	times, requests int
}

// Add adds the checks of a request that is asked times times.
func (r *Rows) Add(q *Request, times int) {
	times = max(times, q.Times)
	if r.same.first != nil {
		if times == r.same.times && sameWords(r.same.first, q) {
			r.same.requests++
			return
		}
		r.endSame()
	}
	if len(q.Arguments) > wordsOfCheck && q.takesTurns() {
		r.same = sameRequests{first: q, times: times, requests: 1}
	} else {
		r.addChecks(q, times)
	}
}

// takesTurns reports whether the checks of a request have words that may stand for those of others.
func (r *Request) takesTurns() bool {
	for i := 0; i < len(r.Arguments); i += wordsOfCheck {
		if _, listed := r.Arguments[i+1].(string); listed || r.Arguments[i+2] != nil {
			return false
		}
	}
	return true
}

// sameWords reports whether the checks of a request have the words of another one's.
func sameWords(a, b *Request) bool {
	if len(a.Arguments) != len(b.Arguments) {
		return false
	}
	for i := range a.Arguments {
		if a.Arguments[i] != b.Arguments[i] {
			return false
		}
	}
	return true
}

// addChecks adds the checks of a request one by one.
func (r *Rows) addChecks(q *Request, times int) {
	for i := 0; i < len(q.Arguments); i += wordsOfCheck {
		limit, cost, holder := q.Arguments[i], q.Arguments[i+1], q.Arguments[i+2]
		if _, listed := cost.(string); listed || limit != r.last.limit || cost != r.last.cost || times != r.last.times {
			r.endRow()
			r.last = row{limit: limit, cost: cost, times: times, costAt: len(r.Words) + 1}
			r.Words = append(r.Words, limit, cost)
		}
		r.last.checks++
		if holder != nil {
			r.Words = append(r.Words, holder)
		}
	}
}

// End returns all words.
func (r *Rows) End() []any {
	if r.same.first != nil {
		r.endSame()
	}
	r.endRow()
	return r.Words
}

// endSame writes the words of requests in a row that share them.
func (r *Rows) endSame() {
	s := r.same
	r.same = sameRequests{}
	if s.requests == 1 {
		r.addChecks(s.first, s.times)
		return
	}
	r.endRow()
	r.last = row{}
	words := s.first.Arguments
	for i := 0; i < len(words); i += wordsOfCheck {
		cost, units := words[i+1], words[i+1].(int64) //nolint:forcetypeassert // takesTurns has looked
		if i == 0 {
			cost = costWord(units, s.times, s.requests, len(words)/wordsOfCheck)
		} else if s.times > 1 {
			cost = costWord(units, s.times)
		}
		r.Words = append(r.Words, words[i], cost)
	}
}

// endRow writes how often the checks of the last row are asked and how many they are behind their cost,
// unless it is one check that is asked once or has a cost for each time.
func (r *Rows) endRow() {
	units, ok := r.last.cost.(int64)
	switch {
	case !ok || r.last.times == 1 && r.last.checks == 1:
	case r.last.checks > 1:
		r.Words[r.last.costAt] = costWord(units, r.last.times, r.last.checks)
	default:
		r.Words[r.last.costAt] = costWord(units, r.last.times)
	}
}

// costWord returns a cost with numbers behind it.
func costWord(units int64, numbers ...int) string {
	var scratch [64]byte
	word := strconv.AppendInt(scratch[:0], units, 10)
	for _, number := range numbers {
		word = strconv.AppendInt(append(word, ' '), int64(number), 10)
	}
	return string(word)
}

// CheckRows puts plain checks into the words of a script call, as those in lua/check read them, or if Reserves is set those in
// lua/reserve: once for each row of checks that share their limit, their cost, how often they are asked, and for how long they
// reserve.
type CheckRows struct {
	Reserves bool
	// Words are the words in front, and then all.
	Words []any

	last          *plainCheck // of the last row
	times, checks int
	checksAt      int   // the place of the number of the row's checks among the words
	lasts         int64 // for how many microseconds the row reserves
}

// Add adds the check of a request that is asked times times.
func (r *CheckRows) Add(q *Request, times int) {
	times = max(times, q.Times)
	p, lasts := &q.plain, int64(0)
	if len(q.Reserving) > 0 {
		lasts = q.Reserving[0].lasts
	}
	if r.checks == 0 || times != r.times || lasts != r.lasts || p.words != r.last.words || p.cost != r.last.cost {
		r.last, r.times, r.lasts, r.checks = p, times, lasts, 0
		r.Words = append(append(r.Words, p.words[:]...), p.cost, times, nil)
		r.checksAt = len(r.Words) - 1
		if r.Reserves {
			r.Words = append(r.Words, lasts)
		}
		if lasts > 0 {
			r.Words = append(r.Words, q.Reserving[0].limit)
		}
	}
	r.checks++
	r.Words[r.checksAt] = r.checks
	if lasts > 0 {
		r.Words = append(r.Words, q.Reserving[0].words[0])
	}
}

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

// addCharge adds how many units are added to a charge, or given back of it, and where the charge is found.
func (r *SettleRows) addCharge(c *call.Correction) {
	if ownSettlements[c.Spec.Algorithm] == byInstant {
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
