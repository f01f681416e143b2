package script

// CheckRows puts plain checks into the words of a script call, as those in lua/check read them: once for each row of checks
// that share their limit, their cost and how often they are asked.
type CheckRows struct {
	// Words are the words in front, and then all.
	Words []any

	last          *plainCheck // of the last row
	times, checks int
}

// Add adds the check of a request that is asked times times.
func (r *CheckRows) Add(q *Request, times int) {
	times = max(times, q.Times)
	p := &q.plain
	if r.checks == 0 || times != r.times || p.words != r.last.words || p.cost != r.last.cost {
		r.endRow()
		r.last, r.times = p, times
		r.Words = append(append(r.Words, p.words[:]...), p.cost, times, 1)
	}
	r.checks++
}

// End returns all words.
func (r *CheckRows) End() []any {
	r.endRow()
	return r.Words
}

// endRow writes how many checks the last row has.
func (r *CheckRows) endRow() {
	if r.checks > 1 {
		r.Words[len(r.Words)-1] = r.checks
	}
	r.checks = 0
}
