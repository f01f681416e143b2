package core_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// noStore fails the test when it is asked anything but to be closed.
type noStore struct {
	core.Store

	t *testing.T
}

func (s noStore) Close() error { return nil }

// Every verb allows what is unlimited, and asks the store nothing about it.
func TestUnlimitedAsksNothing(t *testing.T) {
	l := core.New(noStore{t: t}) // which panics when it is asked
	defer l.Close()
	unlimited := core.Unlimited.Named("plan")
	want := core.Decision{Allowed: true, Limit: core.Unlimited, Remaining: math.MaxInt}
	one := func(d core.Decision, err error) {
		t.Helper()
		if err != nil || d != want {
			t.Errorf("got %+v, %v, want %+v", d, err, want)
		}
	}
	all := func(d []core.Decision, err error) {
		t.Helper()
		if err != nil || len(d) != 2 || d[0] != want || d[1] != want {
			t.Errorf("got %+v, %v, want twice %+v", d, err, want)
		}
	}
	checks := []core.Check{{Key: "staff", Limit: unlimited, Cost: math.MaxInt}, {Key: "staff", Limit: unlimited, Shadow: true}}
	one(l.Allow(t.Context(), "staff", unlimited))
	one(l.AllowN(t.Context(), "staff", unlimited, math.MaxInt))
	one(l.Peek(t.Context(), "staff", unlimited))
	all(l.AllowAll(t.Context(), checks...))
	all(l.PeekAll(t.Context(), checks...))
	r, err := l.Reserve(t.Context(), checks...)
	all(r.Decisions(), err)
	one(l.Refund(t.Context(), "staff", unlimited, 7))
	one(l.Charge(t.Context(), "staff", unlimited, 7))
	for name, err := range map[string]error{
		"Reservation.Wait":   r.Wait(t.Context()),
		"Reservation.Settle": r.Settle(t.Context(), 7, 0),
		"Wait":               l.Wait(t.Context(), "staff", unlimited, core.WithHoldBack(), core.WithLongestWait(0)),
		"Do":                 l.Do(t.Context(), "staff", unlimited, func(context.Context) error { return nil }),
		"Reset":              l.Reset(t.Context(), "staff", unlimited),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := l.Allow(t.Context(), "", unlimited); err == nil {
		t.Error("an empty key is no error")
	}
}

// Unlimited checks do not change the decisions about the others of a call.
func TestUnlimitedAmongOthers(t *testing.T) {
	l := core.New(core.NewMemory())
	defer l.Close()
	two := core.FixedWindow(2, time.Hour)
	checks := []core.Check{{Key: "a", Limit: core.Unlimited}, {Key: "a", Limit: two, Cost: 2}, {Key: "b", Limit: core.Unlimited}, {Key: "b", Limit: two}}
	r, err := l.Reserve(t.Context(), checks...)
	if err != nil || !r.Allowed() {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, want := range []int{math.MaxInt, 0, math.MaxInt, 1} {
		if d := r.Decisions()[i]; d.Remaining != want || d.Limit != checks[i].Limit {
			t.Errorf("check %d: %+v, want %d remaining", i, d, want)
		}
	}
	if err := r.Settle(t.Context(), 5, 1, 5, 0); err != nil {
		t.Fatal(err)
	}
	decisions, err := l.AllowAll(t.Context(), checks...)
	if err != nil || !decisions[0].Allowed || decisions[1].Allowed || !decisions[2].Allowed || !decisions[3].Allowed {
		t.Fatalf("%+v, %v, want the second alone denied", decisions, err)
	}
	if decisions[1].Remaining != 1 || decisions[3].Remaining != 2 {
		t.Errorf("%+v: want 1 and 2 remaining of what was settled", decisions)
	}
	if err := l.Reset(t.Context(), "a", core.Unlimited, two); err != nil {
		t.Fatal(err)
	}
	if d, err := l.Peek(t.Context(), "a", two); err != nil || d.Remaining != 2 {
		t.Errorf("after a reset: %+v, %v", d, err)
	}
}

// Unlimited is written and read as text, has one name, and is not the zero Limit.
func TestUnlimitedIsALimit(t *testing.T) {
	for _, text := range []string{"unlimited", " unlimited ", "plan: unlimited"} {
		if l, err := core.ParseLimit(text); err != nil || l != core.Unlimited {
			t.Errorf("%q is %v, %v", text, l, err)
		}
	}
	if text, err := core.Unlimited.MarshalText(); err != nil || string(text) != "unlimited" {
		t.Errorf("written as %q, %v", text, err)
	}
	l := core.Unlimited
	if l.Validate() != nil || l.Name() != "unlimited" || l.Identity() != l || l.Capacity() != math.MaxInt || l.Share(7) != l || l == (core.Quota{}) ||
		l.Algorithm() != "" || l.Rate() != (core.Rate{}) || l.Identity() == (core.Quota{}).Identity() {
		t.Errorf("%+v", l)
	}
}
