package core

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/core/internal/background"
)

// reservedBy returns reservations of a unit each.
func reservedBy(t *testing.T, l *Limiter, limit Limit, n int) []*Reservation {
	t.Helper()
	list := make([]*Reservation, n)
	for i := range list {
		r, err := l.Reserve(t.Context(), Check{Key: "key", Limit: limit})
		if err != nil || !r.Allowed() {
			t.Fatal(r, err)
		}
		list[i] = r
	}
	return list
}

// A short outage loses no settlement in the background.
func TestSettlementsInTheBackgroundAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &deaf{slow: &slow{Store: NewMemory()}, refuses: 15} // for a second and a half
		l, limit := New(s, WithLogger(slog.New(slog.DiscardHandler))), FixedWindow(1000, time.Hour)
		defer l.Close()
		list := reservedBy(t, l, limit, 300) // more than fit into one call
		for i, r := range list {
			if err := r.SettleLater(i % 3); err != nil {
				t.Fatal(err)
			}
			if err := r.SettleLater(0); !errors.Is(err, ErrSettled) {
				t.Errorf("settled twice: %v", err)
			}
		}
		time.Sleep(2 * time.Second)
		if n := used(t, l, limit); n != 300 { // 0, 1 and 2 each a hundred times
			t.Errorf("%d are used, want 300", n)
		}
	})
}

// Costs that make no sense are errors, and the reservation can still be settled.
func TestSettlementsInTheBackgroundThatMakeNoSense(t *testing.T) {
	l, limit := New(NewMemory()), FixedWindow(10, time.Hour)
	r := reservedBy(t, l, limit, 1)[0]
	for _, costs := range [][]int{nil, {1, 2}, {-1}} {
		if err := r.SettleLater(costs...); err == nil {
			t.Errorf("costs %v are no error", costs)
		}
	}
	if err := r.SettleLater(3); err != nil {
		t.Fatal(err)
	}
	l.background.Drain()
	if n := used(t, l, limit); n != 3 {
		t.Errorf("%d are used, want 3", n)
	}
}

// A server that stays away makes no queue that grows for as long as it does: what was not settled
// within two seconds is given up and logged, and what comes later has its own two seconds.
func TestSettlementsInTheBackgroundAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &deaf{slow: &slow{Store: NewMemory()}, refuses: 1 << 30}
		l, limit := New(s, WithLogger(slog.New(slog.NewTextHandler(&log, nil)))), FixedWindow(1000, time.Hour)
		defer l.Close()
		early, late := reservedBy(t, l, limit, 600), reservedBy(t, l, limit, 1)[0]
		for _, r := range early {
			if err := r.SettleLater(0); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(background.Longest - background.Pause/2)
		synctest.Wait()
		if log.Len() > 0 {
			t.Error("given up before its time:", log.String())
		}
		if err := late.SettleLater(0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * background.Pause)
		synctest.Wait()
		if n := strings.Count(log.String(), "could not be settled"); n != 1 {
			t.Errorf("logged %d times, want once: %s", n, log.String())
		}
		s.hear()
		time.Sleep(2 * background.Pause)
		if n := used(t, l, limit); n != 600 {
			t.Errorf("%d are used, want 600: what came late is settled, what was given up is not", n)
		}
	})
}

// Nothing is tried again when the store is closed: the goroutine ends at once.
func TestSettlementsInTheBackgroundEndWithTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := NewMemory()
		l := New(memory, WithLogger(slog.New(slog.DiscardHandler)))
		r := reservedBy(t, l, FixedWindow(10, time.Hour), 1)[0]
		if err := memory.Close(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := r.SettleLater(0); err != nil {
			t.Fatal(err)
		}
		l.background.Drain()
		if took := time.Since(start); took > 0 {
			t.Errorf("took %v, want no time", took)
		}
	})
}

// fragile is a store that panics when it settles.
type fragile struct{ Store }

func (fragile) Settle(context.Context, []Settlement) error { panic("out of order") }

// A store that panics in the background does not end the process: what it was to settle is given up and
// logged, and others are settled.
func TestStoresThatPanicInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := New(fragile{NewMemory()}, WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		for _, r := range reservedBy(t, l, FixedWindow(10, time.Hour), 2) {
			if err := r.SettleLater(0); err != nil {
				t.Fatal(err)
			}
			l.background.Drain()
		}
		if !strings.Contains(log.String(), "the store panicked: out of order") {
			t.Errorf("logged %q", log.String())
		}
	})
}
