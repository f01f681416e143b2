package script

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core/internal/calendar"
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Whatever a server replies, the questions of a batch get an error, or the numbers that
// each expects.
func FuzzReply(f *testing.F) {
	f.Add("1 2! 3 4", uint8(0), uint8(2), false)
	f.Add("1 2 3 1763683200123456", uint8(1), uint8(0), true)
	f.Add("1 2 3", uint8(0), uint8(0), false)
	f.Add("1 2 3 4", uint8(0), uint8(0), true)
	f.Add("", uint8(0), uint8(0), false)
	f.Add("-9223372036854775808 9223372036854775807 9223372036854775808", uint8(0), uint8(1), false)
	f.Add("  1", uint8(0), uint8(0), true)
	f.Fuzz(func(t *testing.T, reply string, first, second uint8, instant bool) {
		numbers := []int{1 + int(first%4), 1 + int(second%4)}
		reader := Reader{Rest: reply}
		shares := []string{reader.Cut(numbers[0]), reader.Cut(numbers[1])}
		if _, ok := reader.End(instant); !ok {
			return
		}
		var joined strings.Builder
		for i, share := range shares {
			joined.WriteString(share + " ")
			if n := strings.Count(share, " ") + 1; n > numbers[i] {
				t.Errorf("%q of %q has %d numbers, want %d", share, reply, n, numbers[i])
			}
		}
		if !strings.HasPrefix(reply, strings.TrimRight(joined.String(), " ")) { // what is missing shows when it is read
			t.Errorf("%q are not what %q starts with", shares, reply)
		}
		if rest := strings.Fields(strings.TrimPrefix(reply, joined.String())); len(reply) > joined.Len() && (len(rest) > 1 || len(rest) > 0 && !instant) {
			t.Errorf("%q is left of %q, which is an answer to another call", rest, reply)
		}
	})
}

// A reply that says more than was asked is none: it may be the answer to another call.
func TestRepliesOfTheWrongLength(t *testing.T) {
	for reply, ok := range map[string]bool{
		"1 2 3": true, "1 2! 3": true, "1 2 3 4": false, "1 2 3 ": true, "1 2 3  ": false, "1": false, "": false, "x 2 3": false,
	} {
		reader := Reader{Rest: reply}
		reader.Cut(1)
		reader.Cut(2)
		if _, got := reader.End(false); got != ok {
			t.Errorf("%q: %v, want %v", reply, got, ok)
		}
	}
}

// Whatever numbers a server replies, there is an answer, or an error.
func FuzzUsage(f *testing.F) {
	f.Add(int64(0), int64(0), int64(0), int64(0), 1)
	f.Add(int64(-1), int64(1)<<62, int64(-1)<<63, int64(1), 0)
	f.Add(int64(1)<<53, int64(1)<<53, int64(1)<<53, int64(1)<<53, 10)
	f.Fuzz(func(_ *testing.T, a, b, c, d int64, cost int) {
		for algorithm := range exact.All() {
			p := exact.Params{Algorithm: algorithm, Capacity: 10, Events: 10, Period: 7 * time.Second}
			if algorithm.Dated() {
				p = exact.CalendarParams(10, calendar.Period{Unit: calendar.Day, Zone: "UTC"})
			}
			if algorithm.Shares() {
				p.Algorithm = exact.Leaky
				p = exact.FairParams(p, "acme", 2)
			}
			if algorithm.Prepaid() {
				p = exact.BalanceParams()
			}
			spec := exact.NewSpec(p, nil)
			words := make([]string, 0, 4)
			for _, n := range []int64{a, b, c, d}[:spec.Observed] {
				words = append(words, strconv.FormatInt(n, 10))
			}
			for _, condition := range []bool{false, true} {
				var asked call.Call
				asked.Set(1, func(_ int, own *call.Check) {
					*own = call.Check{Key: "key", Spec: spec, Units: max(0, cost), Condition: condition}
				})
				ignore := func(*call.Check, Mark) {}
				if err := Observe(asked.Groups, strings.Join(words, " "), int(uint16(a)), ignore); err == nil {
					asked.Checks[0].Answer(call.Decide(asked.Groups[0]), condition)
				}
			}
		}
	})
}
