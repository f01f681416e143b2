package script

import (
	"strconv"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/holder"
	"github.com/weir-go/ratelimit/core/internal/keyspace"
)

// Reserving is what a script is told besides of a check that reserves for a time, or of its settlement.
type Reserving struct {
	place int // of the check or correction in its request, from 0
	keys  [2]any
	words [3]any
}

// reserve tells that the check that was added last reserves.
func (r *Request) reserve(c *call.Check) {
	key := r.Keys[len(r.Keys)-1].(string) //nolint:forcetypeassert // they are strings
	r.Reserving = append(r.Reserving, Reserving{
		place: len(r.Keys) - 1,
		keys:  [2]any{key + keyspace.Past, key + keyspace.Reserved},
		words: [3]any{c.Spec.LimitArgument(false, false, exact.Alone, 0, nil), holder.Name(c.Holder), c.ReserveFor},
	})
}

// close tells that the correction that was added last is of a reservation.
func (r *Request) close(c *call.Correction) {
	key := r.Keys[len(r.Keys)-2].(string)                                     //nolint:forcetypeassert // they are strings
	limit := c.Spec.LimitArgument(false, false, exact.Alone, 0, nil).(string) //nolint:forcetypeassert // it is a text
	member := []byte(holder.Name(c.Holder))
	for _, number := range [...]int64{c.At.At, c.At.Used, c.Spec.Weigh(c.Charged)} {
		member = strconv.AppendInt(append(member, ' '), number, 10)
	}
	member = append(append(member, ' '), limit...)
	r.Reserving = append(r.Reserving, Reserving{
		place: len(r.Keys)/2 - 1,
		keys:  [2]any{key + keyspace.Reserved},
		words: [3]any{string(member), c.Spec.Weigh(c.Instead)},
	})
}

// AppendReserving turns the words of a script that decides into those of one that also reserves. The words from first
// on are those for the checks, behind their keys. It returns them without the number of keys, which it counts up.
func AppendReserving(words []any, first int, requests []*Request) (all []any, keys int) {
	return appendReserving(words, first, requests, 2, 3, true)
}

// AppendClosing is AppendReserving for a script that settles.
func AppendClosing(words []any, first int, requests []*Request) (all []any, keys int) {
	return appendReserving(words, first, requests, 1, 2, false)
}

func appendReserving(words []any, first int, requests []*Request, keysOfEach, wordsOfEach int, counts bool) (all []any, keys int) {
	var own, behind []any
	reserving, before := 0, 0
	for _, q := range requests {
		for i := range q.Reserving {
			one := &q.Reserving[i]
			own = append(own, one.keys[:keysOfEach]...)
			behind = append(append(behind, int64(before+one.place+1)), one.words[:wordsOfEach]...)
			reserving++
		}
		before += q.checks
	}
	all = append(append([]any(nil), words[:first]...), own...)
	all = append(all, int64(reserving))
	if counts {
		all = append(all, int64(len(words)-first))
	}
	return append(append(all, words[first:]...), behind...), len(own)
}
