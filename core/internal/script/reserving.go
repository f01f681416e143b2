package script

import (
	"fmt"
	"iter"
	"strconv"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Reserving has the further arguments for a check that reserves for a time, or for its settlement.
type Reserving struct {
	Key any // of the open reservations

	place int    // of the check or correction in its request, from 0
	words [2]any // who reserves; of a settlement its words

	// The limit of a check that reserves, and for how many microseconds it does.
	limit string
	lasts int64
}

// reserve notes that the check added last reserves for a time.
func (r *Request) reserve(c *call.Check) {
	key := r.Keys[len(r.Keys)-1].(string)                                     //nolint:forcetypeassert // they are strings
	limit := c.Spec.LimitArgument(false, false, exact.Alone, 0, nil).(string) //nolint:forcetypeassert // it is a text
	r.Reserving = append(r.Reserving, Reserving{
		place: len(r.Keys) - 1,
		Key:   key + call.ReservedSuffix,
		words: [2]any{call.HolderName(c.Holder)},
		limit: limit,
		lasts: c.ReserveFor,
	})
}

// close notes that the correction added last is of a reservation.
func (r *Request) close(c *call.Correction) {
	key := r.Keys[len(r.Keys)-1].(string) //nolint:forcetypeassert // they are strings
	r.Reserving = append(r.Reserving, Reserving{
		place: len(r.Keys) - 1,
		Key:   key + call.ReservedSuffix,
		words: [2]any{Member(c.Holder, c.At, c.Charged, c.Spec), c.Spec.Weigh(c.Instead)},
	})
}

// Member returns the member of the sorted set of a state for an open reservation of events: see reserve.lua.
func Member(h exact.Holder, charged exact.Charge, events int, spec *exact.Spec) string {
	member := []byte(call.HolderName(h))
	order := charged.Order
	if !spec.Noted {
		order = 0
	}
	for _, number := range [...]int64{charged.At, charged.Used, order, spec.Weigh(events)} {
		member = strconv.AppendInt(append(member, ' '), number, 10)
	}
	limit := spec.LimitArgument(false, false, exact.Alone, 0, nil).(string) //nolint:forcetypeassert // it is a text
	return string(append(append(member, ' '), limit...))
}

// AppendReserving turns the words of a script that decides into those of one that also reserves. The words from first
// on are those for the checks, behind their keys. It returns them without the number of keys, which it counts up.
func AppendReserving(words []any, first int, requests []*Request) (all []any, keys int) {
	var own, behind []any
	var row []place
	endRow := func() {
		if len(row) == 0 {
			return
		}
		one := row[0].Reserving
		behind = append(behind, fmt.Sprintf("%d %d %d %s", row[0].at, len(row), one.lasts, one.limit))
		for _, p := range row {
			behind = append(behind, p.words[0])
		}
		row = row[:0]
	}
	for p := range places(requests) {
		own = append(own, p.Key)
		if last := len(row) - 1; last >= 0 && (p.at != row[last].at+1 || p.lasts != row[last].lasts || p.limit != row[last].limit) {
			endRow()
		}
		row = append(row, p)
	}
	endRow()
	all = append(append([]any(nil), words[:first]...), own...)
	all = append(all, int64(len(own)), int64(len(words)-first))
	return append(append(all, words[first:]...), behind...), len(own)
}

// AppendClosing is AppendReserving for a script that settles.
func AppendClosing(words []any, first int, requests []*Request) (all []any, keys int) {
	var own, behind []any
	for p := range places(requests) {
		own = append(own, p.Key)
		behind = append(behind, p.at, p.words[0], p.words[1])
	}
	all = append(append([]any(nil), words[:first]...), own...)
	all = append(all, int64(len(own)))
	return append(append(all, words[first:]...), behind...), len(own)
}

// place is a check that reserves, or its settlement, and its place among all of some requests, from 1.
type place struct {
	*Reserving

	at int64
}

// places returns those of requests, in their order.
func places(requests []*Request) iter.Seq[place] {
	return func(yield func(place) bool) {
		before := 0
		for _, q := range requests {
			for i := range q.Reserving {
				if !yield(place{&q.Reserving[i], int64(before + q.Reserving[i].place + 1)}) {
					return
				}
			}
			before += q.checks
		}
	}
}
