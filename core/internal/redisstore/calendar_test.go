package redisstore

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core/internal/calendar"
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// A store whose clock is off asks twice, and then knows by how much.
func TestAStoreLearnsTheServersClock(t *testing.T) {
	server := redistest.Start(t)
	runs := func() int64 { return int64(server.Calls(t, "evalsha") + server.Calls(t, "eval")) }
	r := newStore(server.Client(t), func(*Config) {})
	r.only.clock = func() int64 { return time.Now().Add(-1000*24*time.Hour).UnixMicro() + r.only.ahead.Load() }
	year := exact.NewSpec(exact.CalendarParams(100, calendar.Period{Unit: calendar.Year, Zone: "UTC", Month: time.January, Day: 1}), nil)
	ask := func(units int) call.Answer {
		c := callOf(call.Check{Key: "key", Spec: year, Units: units})
		if _, err := r.Decide(t.Context(), []*call.Call{c}); err != nil {
			t.Fatal(err)
		}
		return c.Checks[0].Answer(true, false)
	}
	ask(1)
	first := runs()
	if first < 2 {
		t.Errorf("a clock that is off by years took %d script runs", first)
	}
	for range 10 {
		ask(1)
	}
	if more := runs() - first; more != 10 {
		t.Errorf("10 calls took %d script runs", more)
	}
	if a := ask(0); a.Remaining != 89 {
		t.Errorf("%d of 100 remain, want 89", a.Remaining)
	}
}

// A store whose clock is off by up to a window asks once: the windows beside its own are sent, too.
func TestAClockThatIsOneWindowOff(t *testing.T) {
	server := redistest.Start(t)
	runs := func() int64 { return int64(server.Calls(t, "evalsha") + server.Calls(t, "eval")) }
	year := exact.NewSpec(exact.CalendarParams(100, calendar.Period{Unit: calendar.Year, Zone: "UTC", Month: time.January, Day: 1}), nil)
	for _, test := range []struct{ years, runs int }{{0, 1}, {1, 1}, {-1, 1}, {2, 2}, {-2, 2}} {
		r := newStore(server.Client(t), func(*Config) {})
		ask := func() {
			if _, err := r.Decide(t.Context(), []*call.Call{callOf(call.Check{Key: "key", Spec: year, Units: 1})}); err != nil {
				t.Fatal(err)
			}
		}
		ask() // the server has the script now
		r.only.clock = func() int64 { return time.Now().AddDate(test.years, 0, 0).UnixMicro() + r.only.ahead.Load() }
		before := runs()
		ask()
		if more := runs() - before; more != int64(test.runs) {
			t.Errorf("a clock that is off by %d years took %d script runs, want %d", test.years, more, test.runs)
		}
	}
}

// A server whose clock jumps each time it is asked is an error that has charged nothing.
func TestAClockThatAlwaysJumps(t *testing.T) {
	reads := int64(0)
	r := newStore(redistest.Shared(t).Client(t), func(c *Config) {
		c.Prefix = redistest.Prefix(t)
		c.Clock = func() int64 {
			reads++
			return reads * 10 * 86400e6
		}
	})
	day := exact.NewSpec(exact.CalendarParams(100, calendar.Period{Unit: calendar.Day, Zone: "UTC"}), nil)
	c := callOf(call.Check{Key: "key", Spec: day, Units: 1})
	if _, err := r.Decide(t.Context(), []*call.Call{c}); err == nil {
		t.Error("it is no error")
	}
	if err := r.Settle(t.Context(), []call.Correction{{Correction: exact.Correction{Events: 3}, Key: "key", Spec: day}}); err == nil {
		t.Error("it is no error of a settlement")
	}
	if n := r.Topology().Single.Exists(t.Context(), r.Name("key", day)).Val(); n != 0 {
		t.Error("something was charged")
	}
}
