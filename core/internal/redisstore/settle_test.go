package redisstore

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/script"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// wanting returns corrections of one key each, and asks what is left of some of them.
func wanting(wanted ...bool) []call.Correction {
	list := make([]call.Correction, 0, len(wanted))
	for i, want := range wanted {
		c := correction("key:"+string(rune('a'+i)), hourly, 1)[0]
		c.Of, c.Wanted = []int{i}, want
		list = append(list, c)
	}
	return list
}

// What a reply says of corrections is read. Where it lacks what was asked for, the settlement may have
// been carried out.
func TestRepliesToSettlements(t *testing.T) {
	const none = -1
	for _, c := range []struct {
		name, reply string
		wanted      []bool
		want        []int64 // used of each, or none
		undone      []int
		kind        call.Failure
	}{
		{name: "nobody asks", reply: "0 0", wanted: []bool{false, false}, want: []int64{none, none}},
		{name: "one asks", reply: "0 0,7", wanted: []bool{false, true}, want: []int64{none, 7}},
		{name: "both ask", reply: "0,5 0,7", wanted: []bool{true, true}, want: []int64{5, 7}},
		{name: "one is refused", reply: "0,5 1\nREADONLY", wanted: []bool{true, true}, want: []int64{5, none}, undone: []int{1}, kind: call.ReadOnly},
		{name: "one fails", reply: "0,5 1\nOOM command not allowed", wanted: []bool{true, true}, want: []int64{5, none}, kind: call.OutOfMemory},
		{name: "all are refused", reply: "1 1\nOOM command not allowed", wanted: []bool{true, true}, want: []int64{none, none}, kind: call.OutOfMemory},
		{name: "no number", reply: "0,5 0", wanted: []bool{true, true}, want: []int64{5, none}, kind: call.Garbled},
		{name: "too many numbers", reply: "0,5,6 0,7", wanted: []bool{true, true}, want: []int64{none, none}, kind: call.Garbled},
		{name: "a number below 0", reply: "0,-5 0,7", wanted: []bool{true, true}, want: []int64{none, none}, kind: call.Garbled},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := wired(t, func(redis.Cmder) (string, error) { return c.reply, nil })
			list := wanting(c.wanted...)
			err := r.Settle(t.Context(), list)
			if call.FailureOf(err) != c.kind || c.kind == call.Garbled && errors.Is(err, call.ErrNotDone) {
				t.Errorf("%v, want the kind %q", err, c.kind)
			}
			var undone []int
			if partly, ok := errors.AsType[*call.PartlySettledError](err); ok {
				undone = partly.NotDone
			}
			if !slices.Equal(undone, c.undone) {
				t.Errorf("%v are not settled, want %v", undone, c.undone)
			}
			for i, want := range c.want {
				if got := list[i]; got.Observed != (want != none) || got.Observed && got.Usage.Used != want {
					t.Errorf("of correction %d %v is observed (%t), want %d", i, got.Usage, got.Observed, want)
				}
			}
		})
	}
}

// A settlement that is not asked what is left has the words and the reply of one digit that it always had.
func TestASettlementThatIsNotAskedCostsNoMore(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	const event = int64(3600000000)
	for _, c := range []struct {
		wanted []bool
		words  []any
		reply  string
	}{
		{[]bool{false, false}, []any{"settle", "settle"}, "0 0"},
		{[]bool{false, true}, []any{"settle", "settle?"}, "0 0,3600000000"},
		{[]bool{true, false}, []any{"settle?", "settle"}, "0,3600000000 0"},
	} {
		prefix := redistest.Prefix(t)
		var q script.Request
		q.SetCorrections(wanting(c.wanted...), nil, func(key string, _ *exact.Spec) string { return prefix + key })
		var want []any
		for _, how := range c.words {
			want = append(want, "ask leaky 36000000000 1 1", event, int64(0), int64(0), how)
		}
		if !slices.Equal(q.Arguments, want) {
			t.Errorf("%v is sent, want %v", q.Arguments, want)
		}
		settle := script.New(script.Settle, script.Mixed, true)
		words := slices.Concat([]any{"eval", settle.Source, len(q.Keys)}, q.Keys, q.Arguments, []any{time.Now().UnixMicro()})
		if reply, err := client.Do(t.Context(), words...).Text(); err != nil || reply != c.reply {
			t.Errorf("%v are told %q, %v, want %q", c.wanted, reply, err, c.reply)
		}
	}
}
