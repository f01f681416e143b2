package script

import "strconv"

// Rows puts the limits and the costs of checks into the words of a script call, as cost.lua reads them:
// once for each row of checks that share their limit, their cost and how often they are asked. Holders stand
// behind the words of their row.
type Rows struct {
	// Words are the words in front, and then all.
	Words []any

	last row
}

// row is checks in a row.
type row struct {
	limit, cost   any
	times, checks int
	costAt        int // the place of the cost among the words
}

// Add adds the checks of a request that is asked so many times.
func (r *Rows) Add(q *Request, times int) {
	times = max(times, q.Times)
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
	r.endRow()
	return r.Words
}

// endRow writes how often the checks of the last row are asked and how many they are behind their cost,
// unless it is one check that is asked once or has a cost for each time.
func (r *Rows) endRow() {
	units, ok := r.last.cost.(int64)
	if !ok || r.last.times == 1 && r.last.checks == 1 {
		return
	}
	cost := strconv.FormatInt(units, 10) + " " + strconv.Itoa(r.last.times)
	if r.last.checks > 1 {
		cost += " " + strconv.Itoa(r.last.checks)
	}
	r.Words[r.last.costAt] = cost
}
