package denials

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/internal/bounded"
)

// leaky is a limit of 10 that drains one a second.
var leaky = exact.Params{Algorithm: exact.Leaky, Capacity: 10, Events: 1, Period: time.Second}

// at returns denials with a clock that stands at a number of microseconds.
func at(now *int64) *Denials {
	d := New(bounded.New[exact.Key, *Entry](20), func() int64 { return 0 })
	d.Follow(func() int64 { return *now })
	return d
}

// A denial is repeated until its RetryAfter, counted from when it was sent, to whoever needs as much or more.
func TestADenialIsRepeatedWhileItHolds(t *testing.T) {
	now := int64(1_000_000)
	d, spec := at(&now), exact.SpecOf(leaky)
	asked := Check{Key: "key", Spec: spec, Units: 2}
	told := Denial{Remaining: 1, RetryAfter: 900 * time.Millisecond, NextAfter: 900 * time.Millisecond, ResetAfter: 9 * time.Second}
	d.begin(&asked)
	d.remember(&asked, told, now, now+100)
	now += 100
	for _, c := range []struct {
		units, headroom int
		after           int64
		want            time.Duration // 0: it is not repeated
	}{
		{2, 0, 0, 900 * time.Millisecond},
		{1, 1, 0, 900 * time.Millisecond},
		{1, 0, 0, 0},
		{3, 0, 0, 1900 * time.Millisecond},
		{2, 0, 400_000, 500 * time.Millisecond},
		{9, 2, 0, Never},
		{2, 0, 899_899, 900*time.Millisecond - 899_899*time.Microsecond},
		{2, 0, 899_900, 0},
	} {
		own := Check{Key: "key", Spec: spec, Units: c.units, Headroom: c.headroom}
		repeated, got := d.repeat(&own, now+c.after), time.Duration(0)
		if repeated {
			got = own.Repeated().RetryAfter
		}
		if repeated != (c.want != 0) || got != c.want {
			t.Errorf("%d units with %d to leave, %d µs later: %v, %t, want %v", c.units, c.headroom, c.after, got, repeated, c.want)
		}
	}
	if d.repeat(&Check{Key: "other", Spec: spec, Units: 2}, now) {
		t.Error("the denial of one key is repeated to another one")
	}
	d.Now()
	now--
	if d.Now(); d.kept.(*bounded.Map[exact.Key, *Entry]).Len() != 0 {
		t.Error("a denial is kept when the clock has been turned back")
	}
}

// What changes while a check is in flight, or after its denial, ends the denial.
func TestADenialEndsWithWhatItIsDueTo(t *testing.T) {
	named := leaky
	named.Name = "plan"
	spec := exact.SpecOf(named)
	larger := named
	larger.Capacity = 20
	for name, change := range map[string]func(d *Denials){
		"it is forgotten":       func(d *Denials) { d.Forget("key", spec) },
		"it has other numbers":  func(d *Denials) { d.noticeNumbers(&Check{Key: "key", Spec: exact.SpecOf(larger)}) },
		"less has been charged": func(d *Denials) { d.noticeCharge(&Check{Key: "key", Spec: spec, Units: 1}) },
	} {
		for _, inFlight := range []bool{true, false} {
			now := int64(1_000_000)
			d, asked := at(&now), Check{Key: "key", Spec: spec, Units: 2}
			d.noticeNumbers(&asked)
			d.begin(&asked)
			if inFlight {
				change(d)
			}
			d.remember(&asked, Denial{Remaining: 1, RetryAfter: time.Second, NextAfter: time.Second}, now, now)
			if !inFlight {
				if !d.repeat(&asked, now) {
					t.Fatal("the denial is not repeated")
				}
				change(d)
			}
			if d.repeat(&asked, now) {
				t.Errorf("%s, in flight: %t, and the denial is repeated", name, inFlight)
			}
		}
	}
}
