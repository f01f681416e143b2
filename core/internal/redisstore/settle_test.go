package redisstore

import (
	"errors"
	"slices"
	"strconv"
	"strings"
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
		q.SetCorrections(wanting(c.wanted...), nil, prefix)
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

// What is added to a log, before all that it has or behind, never leaves its key without an element, and so does a check after the
// clock has stepped back: the key could not be made again while its slot is being moved, and would lose its time to live.
func TestALogThatChangesIsNeverEmpty(t *testing.T) {
	client := redistest.Start(t, "--notify-keyspace-events", "Eg").Client(t)
	first := int64(1763683200_123_457)
	now := first
	r := newStore(client, func(c *Config) { c.Clock = func() int64 { return now } })
	t.Cleanup(func() { _ = r.Close() })
	const deletions = "__keyevent@0__:del"
	deleted := client.Subscribe(t.Context(), deletions)
	t.Cleanup(func() { _ = deleted.Close() })
	if _, err := deleted.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	plan := exact.NewSpec(exact.Params{Algorithm: exact.SlidingLog, Name: "plan", Capacity: 10, Events: 10, Period: time.Minute}, nil)
	allow := func(key string, units int) {
		if _, err := decide(t.Context(), r, call.Check{Key: key, Spec: plan, Units: units}); err != nil {
			t.Fatal(err)
		}
	}
	const second, minute = time.Second, time.Minute
	for name, c := range map[string]struct {
		later   time.Duration // after the first charge, and a second one a second later
		charged time.Duration // two units are added to a charge of then, or one is charged now if this is 0
		want    []time.Duration
	}{
		"before all":                {second, -second, []time.Duration{-second, -second, 0, 0, 0, second}},
		"in between":                {second, 1, []time.Duration{0, 0, 0, 1, 1, second}},
		"behind":                    {second, second, []time.Duration{0, 0, 0, second, second, second}},
		"behind what has left":      {3 * minute, 2*minute + second, []time.Duration{2*minute + second, 2*minute + second}},
		"after all of it":           {3 * minute, 0, []time.Duration{3 * minute}},
		"before a part of it":       {0, 0, []time.Duration{0, 0, 0, 0, 0}},
		"before all of it":          {-second, 0, []time.Duration{-second, -second, -second, -second, -second}},
		"before what is added then": {-second, -2 * second, []time.Duration{-2 * second, -2 * second, 0, 0, 0, second}},
	} {
		for _, plainly := range []bool{true, false} {
			key := strings.ReplaceAll(name, " ", "-") + strconv.FormatBool(plainly)
			now = first
			allow(key, 3)
			now += second.Microseconds()
			allow(key, 1)
			now = first + c.later.Microseconds()
			if c.charged == 0 {
				asked := callOf(call.Check{Key: key, Spec: plan, Units: 1})
				answerTo(t, r, asked.Groups, 1, plainly)
			} else {
				at := exact.Charge{At: first + c.charged.Microseconds()}
				settleBy(t, r, call.Correction{Key: key, Spec: plan, Correction: exact.Correction{Events: 2, At: at}}, plainly)
			}
			want := make([]string, len(c.want))
			for i, at := range c.want {
				want[i] = strconv.FormatInt(first+at.Microseconds(), 10)
			}
			if got := client.LRange(t.Context(), r.Name(key, plan), 0, -1).Val(); !slices.Equal(got, want) {
				t.Errorf("%s (plainly: %v): the log has %v, want %v", name, plainly, got, want)
			}
			if err := client.Publish(t.Context(), deletions, name).Err(); err != nil {
				t.Fatal(err)
			}
			for {
				told, err := deleted.ReceiveMessage(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if told.Payload == name {
					break
				}
				t.Errorf("%s (plainly: %v): %s was empty", name, plainly, told.Payload)
			}
		}
	}
}
