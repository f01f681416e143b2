package core_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// at is a clock that shows what it is set to.
type at struct{ microseconds atomic.Int64 }

func (a *at) set(t rapid.TB, zone, local string) time.Time {
	t.Helper()
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	now, err := time.ParseInLocation("2006-01-02 15:04:05", local, location)
	if err != nil {
		t.Fatal(err)
	}
	a.microseconds.Store(now.UnixMicro())
	return now
}

func (a *at) Now() time.Time { return time.UnixMicro(a.microseconds.Load()) }

// stores are a store of each kind, with a clock.
func stores(t *testing.T, clock func() time.Time) map[string]*core.Limiter {
	client := redistest.Shared(t).Client(t)
	return map[string]*core.Limiter{
		"memory": core.New(core.NewMemory(core.WithClock(clock))),
		"redis":  core.New(core.NewRedis(client, core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient), core.WithClock(clock))),
	}
}

func mustAllow(t *testing.T, limiter *core.Limiter, key string, l core.Quota, n int) core.Decision {
	t.Helper()
	d, err := limiter.AllowN(t.Context(), key, l, n)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// ResetAfter is the time until the window ends on its zone's clocks, whatever these do meanwhile, and then
// all of the limit is there again.
func TestCalendarEndsOnTheZonesClocks(t *testing.T) {
	for _, test := range []struct {
		period         core.Period
		zone, now, end string
		after          time.Duration
	}{
		{core.Daily("Europe/Berlin"), "Europe/Berlin", "2026-03-29 00:00:00", "2026-03-30 00:00:00", 23 * time.Hour},
		{core.Daily("Europe/Berlin"), "Europe/Berlin", "2026-10-25 00:00:00", "2026-10-26 00:00:00", 25 * time.Hour},
		{core.Daily("America/Sao_Paulo"), "America/Sao_Paulo", "2018-11-03 23:59:59", "2018-11-04 01:00:00", time.Second},
		{core.Monthly("Europe/Berlin").From(31), "Europe/Berlin", "2026-02-27 12:00:00", "2026-02-28 00:00:00", 12 * time.Hour},
		{core.Every(6 * time.Hour), "UTC", "2026-02-27 11:00:00", "2026-02-27 12:00:00", time.Hour},
		{core.MonthlySince(time.Date(2020, time.May, 31, 8, 30, 0, 0, time.FixedZone("", 3600))), "UTC", "2026-02-28 07:29:59", "2026-02-28 07:30:00", time.Second},
		{core.Yearly("UTC", time.February).From(30), "UTC", "2027-02-27 00:00:00", "2027-02-28 00:00:00", 24 * time.Hour},
		{core.Yearly("UTC", time.June).From(31), "UTC", "2026-06-29 00:00:00", "2026-06-30 00:00:00", 24 * time.Hour},
		{core.Yearly("UTC", time.February).From(29), "UTC", "2026-02-27 00:00:00", "2026-02-28 00:00:00", 24 * time.Hour},
	} {
		var clock at
		for name, limiter := range stores(t, clock.Now) {
			l := core.Calendar(10, test.period)
			clock.set(t, test.zone, test.now)
			mustAllow(t, limiter, "key", l, 9)
			d := mustAllow(t, limiter, "key", l, 2)
			if d.Allowed || d.Remaining != 1 || d.ResetAfter != test.after || d.RetryAfter != test.after || d.NextAfter != test.after {
				t.Errorf("%s, %s at %s: %+v, want an end after %v", name, test.period, test.now, d, test.after)
			}
			end := clock.set(t, test.zone, test.end)
			clock.microseconds.Add(-1)
			if d := mustAllow(t, limiter, "key", l, 2); d.Allowed || d.RetryAfter != time.Microsecond {
				t.Errorf("%s, %s a microsecond before its end: %+v", name, test.period, d)
			}
			clock.microseconds.Store(end.UnixMicro())
			if d := mustAllow(t, limiter, "key", l, 10); !d.Allowed || d.Remaining != 0 {
				t.Errorf("%s, %s at its end: %+v", name, test.period, d)
			}
		}
	}
}

// Redis' clock chooses the window. The clock that the store injects is read by the caller first, and then for
// the script: so the caller's may be years off.
func TestCalendarHasTheServersWindow(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	server := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
	for _, off := range []time.Duration{0, 20 * time.Hour, -20 * time.Hour, 40 * time.Hour, -40 * time.Hour, 90 * 24 * time.Hour, -3000 * 24 * time.Hour} {
		var reads atomic.Int64 // in turn by the caller and for the script
		clock := func() time.Time {
			if reads.Add(1) == 1 {
				return server.Add(off)
			}
			return server
		}
		prefix := redistest.Prefix(t)
		limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient), core.WithClock(clock)))
		daily, other := core.Calendar(10, core.Daily("Europe/Berlin")), core.Leaky(100, core.PerHour(1))
		decisions, err := limiter.AllowAll(t.Context(),
			core.Check{Key: "key", Limit: daily, Cost: 3}, core.Check{Key: "key", Limit: other, Cost: 5}, core.Check{Key: "key", Limit: other, Cost: 7, Shadow: true})
		if err != nil {
			t.Fatal(err)
		}
		if d := decisions[0]; !d.Allowed || d.Remaining != 7 || d.ResetAfter != 11*time.Hour {
			t.Errorf("a caller who is off by %v: %+v", off, d)
		}
		if !decisions[1].Allowed || decisions[1].Remaining != 95 || decisions[2].Remaining != 93 {
			t.Errorf("a caller who is off by %v: the other checks are %+v", off, decisions[1:])
		}
		after, err := limiter.AllowAll(t.Context(), core.Check{Key: "key", Limit: daily, Mode: core.Look},
			core.Check{Key: "key", Limit: other, Mode: core.Look}, core.Check{Key: "key", Limit: other, Shadow: true, Mode: core.Look})
		if err != nil || after[0].Remaining != 7 || after[1].Remaining != 95 || after[2].Remaining != 93 {
			t.Errorf("a caller who is off by %v: afterwards %+v, %v", off, after, err)
		}
	}
}

// Refunds, charges and settlements find the server's window, too, and those of a window that has closed
// leave the next one alone.
func TestCalendarIsSettledInItsWindow(t *testing.T) {
	var clock at
	for name, limiter := range stores(t, clock.Now) {
		l := core.Calendar(10, core.Daily("Europe/Berlin"))
		clock.set(t, "Europe/Berlin", "2026-11-21 23:59:59")
		reserve := func() *core.Reservation {
			r, err := limiter.Reserve(t.Context(), core.Check{Key: "key", Limit: l, Cost: 4})
			if err != nil || !r.Allowed() {
				t.Fatalf("%s: %v", name, err)
			}
			return r
		}
		before, after := reserve(), reserve()
		if err := before.Settle(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if d := mustAllow(t, limiter, "key", l, 0); d.Remaining != 5 {
			t.Errorf("%s: 1 and 4 of 10 are used, and %d remain", name, d.Remaining)
		}
		clock.set(t, "Europe/Berlin", "2026-11-22 00:00:00")
		mustAllow(t, limiter, "key", l, 6)
		if err := after.Settle(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if d := mustAllow(t, limiter, "key", l, 0); d.Remaining != 4 {
			t.Errorf("%s: what was given back into yesterday leaves %d of today, want 4", name, d.Remaining)
		}
		for _, months := range []int{0, 3} { // so that the windows that were sent last do not suit
			clock.microseconds.Store(clock.Now().AddDate(0, months, 0).UnixMicro())
			if d, err := limiter.Charge(t.Context(), "other", l, 3); err != nil || d.Remaining != 7 {
				t.Errorf("%s: 3 charged: %+v, %v", name, d, err)
			}
			if d, err := limiter.Refund(t.Context(), "other", l, 2); err != nil || d.Remaining != 9 {
				t.Errorf("%s: 2 refunded: %+v, %v", name, d, err)
			}
		}
	}
}

// Settlements of a caller whose clock is off find the server's window.
func TestCalendarIsSettledByTheServersClock(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	now := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
	var off atomic.Int64
	var reads atomic.Int64
	clock := func() time.Time {
		if reads.Add(1) == 1 {
			return now.Add(time.Duration(off.Load()))
		}
		return now
	}
	limiter := core.New(core.NewRedis(client, core.WithPrefix(redistest.Prefix(t)), core.WithBudget(patient), core.WithClock(clock)))
	l := core.Calendar(10, core.Daily("UTC"))
	used := 0
	for i, days := range []int{0, 30, -30, 1000} {
		off.Store(int64(days) * int64(24*time.Hour))
		reads.Store(0)
		d, err := limiter.Charge(t.Context(), "key", l, 2)
		if used += 2; err != nil || d.Remaining != 10-used || d.ResetAfter != 12*time.Hour {
			t.Errorf("%d: charged by a clock that is off by %d days: %+v, %v", i, days, d, err)
		}
		reads.Store(0)
		if d, err = limiter.Refund(t.Context(), "key", l, 1); err != nil || d.Remaining != 10-used+1 {
			t.Errorf("%d: refunded by a clock that is off by %d days: %+v, %v", i, days, d, err)
		}
		used--
	}
	reads.Store(0)
	if err := limiter.Reset(t.Context(), "key", l); err != nil {
		t.Error(err)
	}
	if d := mustAllow(t, limiter, "key", l, 0); d.Remaining != 10 {
		t.Errorf("%d of 10 remain after a reset", d.Remaining)
	}
}

// Jitter moves the windows of each key by a time of its own, which is the same in every store.
func TestJitter(t *testing.T) {
	const most = 10 * time.Minute
	var clock at
	begins := make(map[string]time.Duration)
	for name, limiter := range stores(t, clock.Now) {
		midnight := clock.set(t, "Europe/Berlin", "2026-11-21 00:00:00")
		clock.microseconds.Add(time.Hour.Microseconds())
		l := core.Calendar(3, core.Daily("Europe/Berlin").Jitter(most))
		var offsets []time.Duration
		for i := range 200 {
			key := fmt.Sprintf("user:%d", i)
			d := mustAllow(t, limiter, key, l, 1)
			offset := clock.Now().Add(d.ResetAfter).Sub(midnight) - 24*time.Hour
			if offset < 0 || offset >= most {
				t.Fatalf("%s: the windows of %s begin %v later", name, key, offset)
			}
			if known, ok := begins[key]; ok && known != offset {
				t.Errorf("the windows of %s begin %v later, and by the other store %v", key, offset, known)
			}
			begins[key] = offset
			offsets = append(offsets, offset)
			if d := mustAllow(t, limiter, key, l, 2); !d.Allowed || d.Remaining != 0 {
				t.Errorf("%s: %s has %+v", name, key, d)
			}
			if d, err := limiter.AllowAll(t.Context(), core.Check{Key: key, Limit: l, Shadow: true}); err != nil || clock.Now().Add(d[0].ResetAfter).Sub(midnight)-24*time.Hour != offset {
				t.Errorf("%s: the shadow of %s has other windows: %+v, %v", name, key, d, err)
			}
		}
		slices.Sort(offsets)
		for i, want := range []time.Duration{most / 4, most / 2, most * 3 / 4} {
			if got := offsets[50*(i+1)]; got < want-most/10 || got > want+most/10 {
				t.Errorf("%s: quarter %d of the keys begin by %v, want about %v", name, i+1, got, want)
			}
		}
		last := offsets[len(offsets)-1]
		if len(slices.Compact(offsets)) != 32 {
			t.Errorf("%s: 200 keys have only %d beginnings up to %v", name, len(offsets), last)
		}
	}
	// Processes of two versions would disagree if these changed.
	for key, want := range map[string]time.Duration{"user:0": 0, "user:1": 75 * time.Second} {
		if got := begins[key]; got != want {
			t.Errorf("the windows of %s begin %v later, want %v", key, got, want)
		}
	}
}

// The key lives as long as its window, and no more than an eighth of it longer.
func TestCalendarKeysDie(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	for _, test := range []struct {
		period  core.Period
		lingers time.Duration
	}{
		{core.Every(time.Hour), time.Hour / 8},
		{core.Daily("Europe/Berlin"), 3 * time.Hour},
		{core.Monthly("UTC").Jitter(time.Hour), 3 * time.Hour},
		{core.Yearly("UTC", time.January), 3 * time.Hour},
	} {
		prefix := redistest.Prefix(t)
		limiter := core.New(core.NewRedis(client, core.WithPrefix(prefix), core.WithBudget(patient)))
		l := core.Calendar(10, test.period)
		for _, n := range []int{1, 1, 20, 3} {
			d := mustAllow(t, limiter, "key", l, n)
			ttl := client.PTTL(t.Context(), onlyKey(t, client, prefix)).Val()
			if ttl < d.ResetAfter || ttl > d.ResetAfter+test.lingers+3*time.Second {
				t.Errorf("%s: the key lives for %v, and the window for %v", l, ttl, d.ResetAfter)
			}
		}
	}
}

// A limit of a period that makes no sense is not valid, and says what to do.
func TestCalendarWithoutSense(t *testing.T) {
	for want, l := range map[string]core.Quota{
		"use a constructor such as core.Daily": core.Calendar(10, core.Period{}),
		`import _ "time/tzdata"`:               core.Calendar(10, core.Daily("Europe/Atlantis")),
		"not the same everywhere":              core.Calendar(10, core.Daily("Local")),
		"leave From out":                       core.Calendar(10, core.Daily("UTC").From(3)),
		"from 1s to 366 days":                  core.Calendar(10, core.Every(time.Millisecond)),
		"capacity 0 is less than 1":            core.Calendar(0, core.Daily("UTC")),
		"day 0 is not from 1 to 31":            core.Calendar(10, core.Monthly("UTC").From(0)),
	} {
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", l, err, want)
		}
		if _, err := core.New(core.NewMemory()).Allow(t.Context(), "key", l); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s is asked: %v", l, err)
		}
	}
	a, b := core.Calendar(10, core.Daily("UTC")).Named("plan"), core.Calendar(10, core.Daily("Europe/London")).Named("plan")
	if _, err := core.New(core.NewMemory()).AllowAll(t.Context(), core.Check{Key: "key", Limit: a}, core.Check{Key: "key", Limit: b}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("one key under %s and %s: %v", a, b, err)
	}
}

// The parts of a calendar limit have its windows.
func TestCalendarIsShared(t *testing.T) {
	l := core.Calendar(10, core.Monthly("UTC").From(15)).Named("plan")
	if got, want := l.Share(3), core.Calendar(4, core.Monthly("UTC").From(15)).Named("plan"); got != want {
		t.Errorf("a third is %s, want %s", got, want)
	}
}

// MonthlySince takes a zone that is the same everywhere.
func TestMonthlySinceZones(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	anchor := time.Date(2026, time.January, 31, 23, 30, 15, 1_999, time.UTC)
	for want, at := range map[string]time.Time{
		"month@31T23:30:15.000001 UTC":          anchor,
		"month@1T00:30:15.000001 Europe/Berlin": anchor.In(berlin),
		"month@31T23:30:15 UTC":                 anchor.Truncate(time.Second).In(time.FixedZone("UTC", 3600)),
		"month@31T23:30 UTC":                    anchor.Truncate(time.Minute).In(time.Local), //nolint:gosmopolitan // it is what callers have
	} {
		if got := core.MonthlySince(at).String(); got != want {
			t.Errorf("%s is %s, want %s", at, got, want)
		}
	}
}

// A year may begin on any day up to the 31st, as text, too.
func TestYearsFromADayThatAMonthLacks(t *testing.T) {
	for text, want := range map[string]core.Period{
		"calendar 10, year@02-30 UTC": core.Yearly("UTC", time.February).From(30),
		"calendar 10, year@06-31 UTC": core.Yearly("UTC", time.June).From(31),
	} {
		l, err := core.ParseLimit(text)
		if err != nil || l != core.Calendar(10, want) || l.String() != text || l.Validate() != nil {
			t.Errorf("%s is read as %s, %v, want %s", text, l, err, want)
		}
	}
	for _, text := range []string{"calendar 1, year@02-32 UTC", "calendar 1, year@13-01 UTC", "calendar 1, year@00-10 UTC", "calendar 1, year@2-3 UTC", "calendar 1, year@02 UTC", "calendar 1, year@02-03-04 UTC"} {
		if l, err := core.ParseLimit(text); err == nil {
			t.Errorf("%q is read as %s", text, l)
		}
	}
}
