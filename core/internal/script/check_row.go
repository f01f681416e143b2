package script

// CheckRows puts plain checks into the words of a script call, as those in lua/check read them, or if Books is set those in
// lua/reserve: once for each row of checks that share their limit, their cost, how often they are asked, and for how long they
// reserve.
type CheckRows struct {
	Books bool
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
		r.endRow()
		r.last, r.times, r.lasts = p, times, lasts
		r.Words = append(append(r.Words, p.words[:]...), p.cost, times, 1)
		r.checksAt = len(r.Words) - 1
		if r.Books {
			r.Words = append(r.Words, lasts)
		}
		if lasts > 0 {
			r.Words = append(r.Words, q.Reserving[0].limit)
		}
	}
	if lasts > 0 {
		r.Words = append(r.Words, q.Reserving[0].words[0])
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
		r.Words[r.checksAt] = r.checks
	}
	r.checks = 0
}
