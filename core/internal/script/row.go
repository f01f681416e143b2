package script

import "strconv"

// Rows puts the limits and the costs of checks into the words of a script call, as cost.lua reads them:
// once for each row of checks that share their limit, their cost and how often they are asked.
type Rows struct {
	// Words are the words in front, and then all.
	Words []any

	last row
}

// row is checks in a row.
type row struct {
	limit, cost   any
	times, checks int
}

// Add adds the checks of a request that is asked so many times.
func (r *Rows) Add(q *Request, times int) {
	times = max(times, q.Times)
	for i := 0; i < len(q.Arguments); i += 2 {
		next := row{q.Arguments[i], q.Arguments[i+1], times, r.last.checks + 1}
		if _, listed := next.cost.(string); listed || next.limit != r.last.limit || next.cost != r.last.cost || times != r.last.times {
			r.Words = r.last.appendTo(r.Words)
			next.checks = 1
		}
		r.last = next
	}
}

// End returns all words.
func (r *Rows) End() []any { return r.last.appendTo(r.Words) }

// appendTo appends the words of a row. How often its checks are asked and how many they are follow
// the cost, unless it is one check that is asked once or has a cost for each time.
func (r row) appendTo(into []any) []any {
	units, ok := r.cost.(int64)
	switch {
	case r.checks == 0:
		return into
	case !ok || r.times == 1 && r.checks == 1:
		return append(into, r.limit, r.cost)
	}
	cost := strconv.FormatInt(units, 10) + " " + strconv.Itoa(r.times)
	if r.checks > 1 {
		cost += " " + strconv.Itoa(r.checks)
	}
	return append(into, r.limit, cost)
}
