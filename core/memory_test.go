package core_test

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
)

// ask returns a function that asks for n units of a key and fails the test on an
// error.
func ask(t *testing.T, limiter *core.Limiter) func(key string, l core.Quota, n int) core.Decision {
	return func(key string, l core.Quota, n int) core.Decision {
		t.Helper()
		d, err := limiter.AllowN(t.Context(), key, l, n)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

// Without an injected clock it is the system's that counts, and synctest's here.
func TestMemoryOnItsOwnClock(t *testing.T) {
	for name, limit := range hourly {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				store := core.NewMemory()
				allow, l := ask(t, core.New(store)), limit(2)
				allow("key", l, 2)
				d := allow("key", l, 1)
				if d.Allowed {
					t.Fatalf("three of two: %+v", d)
				}
				time.Sleep(d.RetryAfter - time.Microsecond)
				if d := allow("key", l, 1); d.Allowed || d.RetryAfter != time.Microsecond {
					t.Errorf("too early: %+v", d)
				}
				time.Sleep(time.Microsecond)
				if d := allow("key", l, 1); !d.Allowed {
					t.Errorf("at RetryAfter: %+v", d)
				}
			})
		})
	}
}

// A key that is as good as new vanishes by itself.
func TestMemoryForgetsWhatIsAsGoodAsNew(t *testing.T) {
	for name, limit := range hourly {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				store := core.NewMemory()
				allow, l := ask(t, core.New(store)), limit(2)
				d := allow("key", l, 1)
				allow("key", l, 0)
				if keysIn(store) != 1 {
					t.Fatalf("%d keys, want 1", keysIn(store))
				}
				time.Sleep(d.ResetAfter - time.Microsecond)
				if allow("key", l, 0); keysIn(store) != 1 {
					t.Errorf("%d keys just before the key is as good as new, want 1", keysIn(store))
				}
				time.Sleep(time.Microsecond)
				if allow("key", l, 0); keysIn(store) != 0 {
					t.Errorf("%d keys when the key is as good as new, want none", keysIn(store))
				}
			})
		})
	}
}

// Keys vanish each in its time, whichever was asked first or last.
func TestMemoryForgetsEachKeyInItsTime(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		store := core.NewMemory(core.WithMaxKeys(100))
		allow, l := ask(t, core.New(store)), core.Leaky(10, core.PerMinute(1))
		for _, n := range []int{5, 1, 4, 2, 3} {
			allow(fmt.Sprint("key", n), l, n)
		}
		allow("key1", l, 5) // and so it vanishes last
		for _, want := range []int{5, 4, 3, 2, 1, 0} {
			time.Sleep(time.Minute)
			if allow("other", l, 0); keysIn(store) != want {
				t.Errorf("%d keys, want %d", keysIn(store), want)
			}
		}
	})
}

func TestMemoryHoldsNoTraceOfPeeksAndDenials(t *testing.T) {
	store := core.NewMemory()
	limiter := core.New(store)
	for name, limit := range hourly {
		allow := ask(t, limiter)
		allow(name, limit(2), 0)
		allow(name, limit(2), 3)
		if _, err := limiter.Peek(t.Context(), name, limit(2)); err != nil {
			t.Fatal(err)
		}
		if _, err := limiter.AllowAll(t.Context(),
			core.Check{Key: name, Limit: limit(2), Cost: 1},
			core.Check{Key: name, Limit: limit(3), Cost: 4}); err != nil {
			t.Fatal(err)
		}
	}
	if keysIn(store) != 0 {
		t.Errorf("%d keys, want none", keysIn(store))
	}
}

// At the bound the least harmful key goes: the one that would vanish soonest among
// those that admit requests, and never one that still denies.
func TestMemoryAtItsBound(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		store := core.NewMemory(core.WithMaxKeys(3))
		limiter := core.New(store)
		allow := ask(t, limiter)
		l := core.Leaky(3, core.PerHour(1))
		allow("full", l, 3)
		allow("two", l, 2)
		allow("one", l, 1)
		allow("new", l, 2)
		if keysIn(store) != 3 {
			t.Fatalf("%d keys at a bound of 3", keysIn(store))
		}
		for key, remaining := range map[string]int{"full": 0, "two": 1, "one": 3, "new": 1} {
			if d := allow(key, l, 0); d.Remaining != remaining {
				t.Errorf("%s has %d remaining, want %d", key, d.Remaining, remaining)
			}
		}
		// Fixed windows that deny, though they would vanish sooner.
		window := core.FixedWindow(1, time.Minute)
		allow("window", window, 1) // in the place of two or new
		allow("another", window, 1)
		if keysIn(store) != 3 || allow("window", window, 1).Allowed || allow("another", window, 1).Allowed || allow("full", l, 1).Allowed {
			t.Error("a key that denies was given up")
		}
		_, err := limiter.Allow(t.Context(), "more", l)
		if err == nil || !strings.Contains(err.Error(), "bound of 3 keys") {
			t.Errorf("with no key to give up: %v, want an error with the bound", err)
		}
		// It does not do half of a call either.
		_, err = limiter.AllowAll(t.Context(), core.Check{Key: "more", Limit: l, Cost: 1}, core.Check{Key: "and more", Limit: l, Cost: 1})
		if err == nil || keysIn(store) != 3 {
			t.Errorf("%v, and %d keys", err, keysIn(store))
		}
		// Keys that are there are answered, and those that vanish make room.
		if d := allow("full", l, 0); d.Remaining != 0 {
			t.Errorf("%+v", d)
		}
		time.Sleep(time.Minute)
		allow("more", l, 1)
		allow("and more", l, 1)
	})
}

func TestMemoryStaysWithinItsBound(t *testing.T) {
	const bound = 10_000
	store := core.NewMemory(core.WithMaxKeys(bound))
	allow := ask(t, core.New(store))
	l := core.Leaky(3, core.PerHour(1))
	for i := range 3 * bound {
		allow(fmt.Sprint("key", i), l, 1)
	}
	if n := keysIn(store); n > bound+64 || n < bound*9/10 {
		t.Errorf("%d keys at a bound of %d", n, bound)
	}
}

// Many goroutines ask, peek and reset many keys in many shards, in calls whose
// keys come in any order: nothing is locked for ever and nothing races.
func TestMemoryIsSafeForManyGoroutines(t *testing.T) {
	store := core.NewMemory(core.WithMaxKeys(1 << 16))
	limiter := core.New(store)
	l := core.GCRA(1000, core.PerHour(1))
	var wait sync.WaitGroup
	for i := range 16 {
		wait.Go(func() {
			for j := range 200 {
				a, b := fmt.Sprint("key", (i+j)%7), fmt.Sprint("key", (i*j)%7)
				_, err := limiter.AllowAll(t.Context(), core.Check{Key: a, Limit: l, Cost: 1}, core.Check{Key: b, Limit: l, Cost: 1})
				if err != nil {
					t.Error(err)
				}
				if _, err := limiter.Peek(t.Context(), b, l); err != nil {
					t.Error(err)
				}
				if j%50 == 0 {
					if err := limiter.Reset(t.Context(), a, l); err != nil {
						t.Error(err)
					}
				}
				keysIn(store)
			}
		})
	}
	wait.Wait()
}

func TestMemoryAfterClose(t *testing.T) {
	store := core.NewMemory()
	limiter := core.New(store)
	l := core.Leaky(3, core.PerHour(1))
	ask(t, limiter)("key", l, 1)
	if err := limiter.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := limiter.Allow(t.Context(), "key", l); err == nil {
		t.Error("a call after Close is no error")
	}
	if limiter.Ping(t.Context()) == nil || limiter.Reset(t.Context(), "key", l) == nil || keysIn(store) != 0 {
		t.Error("a closed store still answers, or holds keys")
	}
}

// A key whose limit has become shorter expires when the new limit says.
func TestMemoryForgetsByTheNewNumbers(t *testing.T) {
	now := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
	store := core.NewMemory(core.WithClock(func() time.Time { return now }))
	limiter := core.New(store)
	for _, window := range []time.Duration{365 * 24 * time.Hour, time.Millisecond} {
		for i := range 100 {
			if _, err := limiter.Allow(t.Context(), strconv.Itoa(i), core.FixedWindow(10, window).Named("window")); err != nil {
				t.Fatal(err)
			}
		}
	}
	now = now.Add(2 * time.Hour) // with a clock of its own, a store keeps keys for an hour longer
	for i := range 5000 {
		if _, err := limiter.Peek(t.Context(), strconv.Itoa(i), core.Leaky(1, core.PerSecond(1))); err != nil {
			t.Fatal(err)
		}
	}
	if n := keysIn(store); n != 0 {
		t.Errorf("%d keys are left, want none", n)
	}
}

// However long a caller's key is, it costs little, and is not taken for another.
func TestMemoryHoldsLongKeysShort(t *testing.T) {
	limiter := core.New(core.NewMemory())
	l := core.Leaky(1, core.PerHour(1))
	var before, after runtime.MemStats
	long := strings.Repeat("k", 1<<20)
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 64 {
		if d, err := limiter.Allow(t.Context(), long+strconv.Itoa(i), l); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8<<20 {
		t.Errorf("64 keys of a megabyte hold %d bytes", grown)
	}
	if d, err := limiter.Allow(t.Context(), long+"0", l); err != nil || d.Allowed {
		t.Errorf("%+v, %v, want the key to be known", d, err)
	}
	runtime.KeepAlive(limiter)
}

func TestMemoryHoldsExactlyItsBound(t *testing.T) {
	store := core.NewMemory(core.WithMaxKeys(2049))
	limiter := core.New(store)
	for i := range 10_000 {
		if _, err := limiter.Allow(t.Context(), strconv.Itoa(i), core.Leaky(2, core.PerHour(1))); err != nil {
			t.Fatal(err)
		}
	}
	if n := keysIn(store); n != 2049 {
		t.Errorf("%d keys, want 2049", n)
	}
}

// At the bound, settlements of several keys are all carried out or none, so that they can be tried again.
func TestMemoryWithoutRoomSettlesNothing(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		limiter := core.New(core.NewMemory(core.WithMaxKeys(2)))
		allow := ask(t, limiter)
		slow, fast := core.Leaky(10, core.PerDay(1)), core.Leaky(10, core.PerSecond(1))
		r, err := limiter.Reserve(t.Context(), core.Check{Key: "slow", Limit: slow, Cost: 5}, core.Check{Key: "fast", Limit: fast, Cost: 1})
		if err != nil {
			t.Fatal(err)
		}
		allow("slow", slow, 4)
		time.Sleep(time.Minute)
		allow("other", slow, 10) // in the place of fast, which is as good as new
		err = r.Settle(t.Context(), 6, 10)
		if core.FailureOf(err) != "full" || !errors.Is(err, core.ErrNotDone) {
			t.Errorf("%v, want that the store is full and nothing was done", err)
		}
		if d := allow("slow", slow, 0); d.Remaining != 1 {
			t.Errorf("%d left of the key that has room, want 1 as before", d.Remaining)
		}
		if err := limiter.Reset(t.Context(), "other", slow); err != nil {
			t.Fatal(err)
		}
		if err := r.Settle(t.Context(), 6, 10); err != nil {
			t.Fatal(err)
		}
		if slow, fast := allow("slow", slow, 0), allow("fast", fast, 0); slow.Remaining != 0 || fast.Remaining != 1 {
			t.Errorf("%d and %d left once there is room, want 0 and 1", slow.Remaining, fast.Remaining)
		}
	})
}
