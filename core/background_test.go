package core

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"
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
	bubbletest.Run(t, func(t *testing.T) {
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
	l.background.drain()
	if n := used(t, l, limit); n != 3 {
		t.Errorf("%d are used, want 3", n)
	}
}

// writtenLog is a log that is read while others write to it.
type writtenLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *writtenLog) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *writtenLog) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// lostIn returns how many settlements are lost, as a log says.
func lostIn(t *testing.T, log string) (lost int) {
	t.Helper()
	for _, line := range regexp.MustCompile(`could not be settled.* lost=(\d+) perhaps_settled=0 `).FindAllStringSubmatch(log, -1) {
		n, err := strconv.Atoi(line[1])
		if err != nil {
			t.Fatal(err)
		}
		lost += n
	}
	return lost
}

// A server that stays away makes no queue that grows for as long as it does: what was tried for two seconds in vain is given up,
// and logged with its number. What was not tried yet has its own two seconds.
func TestSettlementsInTheBackgroundAreGivenUp(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		var log writtenLog
		s := &deaf{slow: &slow{Store: NewMemory()}, refuses: 1 << 30}
		l, limit := New(s, WithLogger(slog.New(slog.NewTextHandler(&log, nil)))), FixedWindow(1000, time.Hour)
		defer l.Close()
		for _, r := range reservedBy(t, l, limit, 600) {
			if err := r.SettleLater(0); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(longestWork - workPause/2)
		synctest.Wait()
		if log.String() != "" {
			t.Error("given up before its time:", log.String())
		}
		time.Sleep(3 * workPause)
		s.hear()
		time.Sleep(2 * quietLosses)
		synctest.Wait()
		lost := lostIn(t, log.String())
		if n := used(t, l, limit); n != lost || lost == 0 || lost == 600 {
			t.Errorf("%d are used, and %d given up, want the same, and that what was not tried is settled: %s", n, lost, log.String())
		}
		if lines := strings.Count(log.String(), "could not be settled"); lines > 2 {
			t.Errorf("logged %d times: %s", lines, log.String())
		}
	})
}

// What Close has no time for is logged with its number.
func TestSettlementsInTheBackgroundAreDrained(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		for refuses, want := range map[int]int{5: 0, 1 << 30: 600} {
			var log writtenLog
			s := &deaf{slow: &slow{Store: NewMemory()}, refuses: refuses}
			l, limit := New(s, WithLogger(slog.New(slog.NewTextHandler(&log, nil)))), FixedWindow(1000, time.Hour)
			for _, r := range reservedBy(t, l, limit, 600) {
				if err := r.SettleLater(0); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if lost := lostIn(t, log.String()); lost != want {
				t.Errorf("%d are lost, want %d: %s", lost, want, log.String())
			}
			time.Sleep(time.Second)
		}
	})
}

// Where as many wait as may, a reservation is not settled later, and can be settled at once.
func TestSettlementsForWhichTheBackgroundHasNoRoom(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		s := &deaf{slow: &slow{Store: NewMemory()}, refuses: 1 << 30}
		l, limit := New(s, WithLogger(slog.New(slog.DiscardHandler))), FixedWindow(1_000_000, time.Hour)
		defer l.Close()
		reserved := reservedBy(t, l, limit, 2)
		first, last := reserved[0], reserved[1]
		if err := first.SettleLater(0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it was refused, and nothing is tried before the clock goes on
		full := []Check{{Key: "full", Limit: limit, Cost: 1}}
		for l.background.add(laterSettlement{of: l.reservationFor(full), costs: []int{1}}) {
		}
		err := last.SettleLater(0)
		if FailureOf(err) != Overloaded || !errors.Is(err, ErrNotDone) {
			t.Errorf("%v, want that there is no room", err)
		}
		s.hear()
		if err := last.Settle(t.Context(), 0); err != nil {
			t.Error(err)
		}
		if n := used(t, l, limit); n != 1 {
			t.Errorf("%d are used, want 1", n)
		}
	})
}

// Places that are given back wait for no settlement of anything else.
func TestPlacesInTheBackgroundWaitForNobody(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		s := &stuck{Store: NewMemory(), free: make(chan struct{})}
		l := New(s, WithLogger(slog.New(slog.DiscardHandler)))
		defer l.Close()
		limit, places := FixedWindow(10_000, time.Hour), Concurrent(1, time.Minute)
		for _, r := range reservedBy(t, l, limit, 3*mostAtOnce*goesAtOnce) {
			if err := r.SettleLater(0); err != nil {
				t.Fatal(err)
			}
		}
		held := reservedBy(t, l, places, 1)[0]
		if err := held.SettleLater(0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := used(t, l, places); n != 0 {
			t.Error("the place is not given back while others are settled")
		}
		close(s.free)
		synctest.Wait()
		if n := used(t, l, limit); n != 0 {
			t.Errorf("%d are used", n)
		}
	})
}

// stuck is a store that settles what is no place when it is let free.
type stuck struct {
	Store

	free chan struct{}
}

func (s *stuck) Settle(ctx context.Context, list []Settlement) error {
	if !list[0].Check.holds() {
		<-s.free
	}
	return s.Store.Settle(ctx, list)
}

// Nothing is tried again when the store is closed: the goroutine ends at once.
func TestSettlementsInTheBackgroundEndWithTheStore(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
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
		l.background.drain()
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
	bubbletest.Run(t, func(t *testing.T) {
		var log writtenLog
		l := New(fragile{NewMemory()}, WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		for _, r := range reservedBy(t, l, FixedWindow(10, time.Hour), 2) {
			if err := r.SettleLater(0); err != nil {
				t.Fatal(err)
			}
			l.background.drain()
		}
		if !strings.Contains(log.String(), "the store panicked: out of order") {
			t.Errorf("logged %q", log.String())
		}
	})
}
