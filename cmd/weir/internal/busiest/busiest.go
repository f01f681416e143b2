// Package busiest finds the keys that have used most of their limits: all of them a part at a time, and the fullest again each time.
package busiest

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/admin"
)

// atOnce is how many keys one call peeks at.
const atOnce = 100

// Options are how a Sampler samples.
type Options struct {
	// Prefix limits the page to keys that start with it.
	Prefix string
	// Limits are the limits with names of their own: the store does not have their numbers.
	Limits []core.Limit
	// Rows is how many keys are kept in view.
	Rows int
	// Pages is how many pages of keys a sample lists, of some 500 keys of the database each.
	Pages int
}

// A Sampler looks at a store again and again. It is for one goroutine.
type Sampler struct {
	limiter *core.Limiter
	options Options
	known   Known

	cursor  string
	passing map[admin.Entry]bool // those of the pass over all keys that is under way
	sums    map[string]*Sum      // of the same
	page    Page
	rows    map[admin.Entry]Row
}

// Known are limits with names of their own: the store does not have their numbers.
type Known map[identity]core.Limit

// NewKnown returns these limits. Of several with the same name and algorithm the last counts.
func NewKnown(limits ...core.Limit) Known {
	known := make(Known, len(limits))
	for _, limit := range limits {
		known[identity{limit.Algorithm(), limit.Name()}] = limit
	}
	return known
}

// LimitOf returns the limit of an entry, if its numbers are known or in the store.
func (k Known) LimitOf(entry admin.Entry) (core.Limit, bool) {
	if limit, ok := entry.ParseLimit(); ok {
		return limit, true
	}
	limit, ok := k[identity{entry.Algorithm, entry.Limit}]
	return limit, ok && entry.Named
}

// identity is a limit with a name of its own, as its keys tell of it.
type identity struct{ algorithm, name string }

// Page has the keys that a sample has found.
type Page struct {
	// Rows are the keys that have used most of their limits, the fullest first.
	Rows []Row
	// Sums tell of all keys under each limit, as they were in the last whole pass. It is nil before the first one has ended.
	Sums []Sum
	// Passes is how many passes over all keys have ended, and Listed how many keys the one that is under way has found.
	Passes, Listed int
}

// Row is how a key stands under a limit.
type Row struct {
	admin.Entry

	// Decision is the answer that a request of cost 1 would get now.
	Decision core.Decision
	// Change is by how many units the use has grown since the sample before, and Again whether there was one.
	Change int
	Again  bool
}

// Used is how many units are used.
func (r *Row) Used() int { return r.Decision.Limit.Capacity() - r.Decision.Remaining }

// share is the part of the limit that is used.
func (r *Row) share() float64 { return float64(r.Used()) / float64(r.Decision.Limit.Capacity()) }

// Sum is how all keys stand under a limit.
type Sum struct {
	// Limit is its name, and Algorithm the name of its algorithm.
	Limit, Algorithm string
	Shadow           bool
	// Keys is how many have a state.
	Keys int
	// Known says that the limit's numbers are known, and so Denied: how many would be denied a request that costs one.
	Known  bool
	Denied int
}

// New returns a Sampler of a limiter's store.
func New(limiter *core.Limiter, options Options) *Sampler {
	s := &Sampler{limiter: limiter, options: options, known: NewKnown(options.Limits...), rows: make(map[admin.Entry]Row)}
	s.begin()
	return s
}

// begin begins a pass over all keys.
func (s *Sampler) begin() {
	s.cursor, s.passing, s.sums = "", make(map[admin.Entry]bool), make(map[string]*Sum)
}

// Sample goes on with the pass over all keys, and looks again at those in view. After an error it goes on where it was.
func (s *Sampler) Sample(ctx context.Context) (Page, error) {
	seen := make(map[admin.Entry]bool)
	for range s.options.Pages {
		found, next, err := admin.List(ctx, s.limiter, s.options.Prefix, s.cursor)
		if err != nil {
			return Page{}, err
		}
		found = slices.DeleteFunc(found, func(entry admin.Entry) bool { return s.passing[entry] })
		rows, err := s.peek(ctx, found)
		if err != nil {
			return Page{}, err
		}
		for _, row := range rows {
			s.passing[row.Entry], seen[row.Entry] = true, true
			s.count(row)
			s.keep(row)
		}
		s.page.Listed = len(s.passing)
		if s.cursor = next; next == "" {
			s.end()
			break
		}
	}
	again := slices.DeleteFunc(slices.Collect(maps.Keys(s.rows)), func(entry admin.Entry) bool { return seen[entry] })
	rows, err := s.peek(ctx, again)
	if err != nil {
		return Page{}, err
	}
	for _, row := range rows {
		s.keep(row)
	}
	return s.view(), nil
}

// peek returns how entries stand. If the numbers of its limit are not known, the decision is zero.
func (s *Sampler) peek(ctx context.Context, entries []admin.Entry) ([]Row, error) {
	rows := make([]Row, 0, len(entries))
	for part := range slices.Chunk(entries, atOnce) {
		var checks []core.Check
		var places []int
		for _, entry := range part {
			rows = append(rows, Row{Entry: entry})
			if limit, ok := s.known.LimitOf(entry); ok && !entry.Hashed {
				checks = append(checks, core.Check{Key: entry.Key, Limit: limit, Shadow: entry.Shadow})
				places = append(places, len(rows)-1)
			}
		}
		if len(checks) == 0 {
			continue
		}
		decisions, err := s.limiter.PeekAll(ctx, checks...)
		if err != nil {
			return nil, err
		}
		for i, d := range decisions {
			rows[places[i]].Decision = d
		}
	}
	return rows, nil
}

// count adds a row to the sums of the pass.
func (s *Sampler) count(row Row) {
	of := row.Algorithm + "=" + row.Limit
	if row.Shadow {
		of += "=shadow"
	}
	sum := s.sums[of]
	if sum == nil {
		sum = &Sum{Limit: row.Limit, Algorithm: row.Algorithm, Shadow: row.Shadow}
		s.sums[of] = sum
	}
	sum.Keys++
	if row.Decision.Limit != (core.Limit{}) {
		sum.Known = true
		if !row.Decision.Allowed {
			sum.Denied++
		}
	}
}

// keep keeps a row in view, unless nothing is used.
func (s *Sampler) keep(row Row) {
	before, known := s.rows[row.Entry]
	if row.Decision.Limit == (core.Limit{}) || row.Used() == 0 {
		delete(s.rows, row.Entry)
		return
	}
	row.Again = known
	if known {
		row.Change = row.Used() - before.Used()
	}
	s.rows[row.Entry] = row
}

// end ends a pass, and begins the next one.
func (s *Sampler) end() {
	s.page.Sums = make([]Sum, 0, len(s.sums))
	for _, sum := range s.sums {
		s.page.Sums = append(s.page.Sums, *sum)
	}
	slices.SortFunc(s.page.Sums, func(a, b Sum) int {
		return cmp.Or(b.Denied-a.Denied, b.Keys-a.Keys, cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Algorithm, b.Algorithm))
	})
	s.page.Passes++
	s.begin()
}

// view returns the page, and drops the rows that are not on it.
func (s *Sampler) view() Page {
	rows := slices.Collect(maps.Values(s.rows))
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.share(), a.share()), cmp.Compare(b.Used(), a.Used()), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Limit, b.Limit))
	})
	if len(rows) > s.options.Rows {
		for _, row := range rows[s.options.Rows:] {
			delete(s.rows, row.Entry)
		}
		rows = rows[:s.options.Rows]
	}
	page := s.page
	page.Rows = rows
	return page
}
