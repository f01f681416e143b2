package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
)

// A key that is used up is denied from memory. What is denied there would be denied by the store at that instant, too, with the same
// numbers, however the limit drains.
func TestLeaseRemembersDenials(t *testing.T) {
	for limit, most := range map[core.Quota]int{ // calls of the store in three seconds
		core.Leaky(1000, core.PerSecond(100)): 1000, core.TokenBucket(1000, core.PerSecond(100)): 1000, core.GCRA(1000, core.PerSecond(100)): 1000,
		core.FixedWindow(1000, 2*time.Second): 30, core.Calendar(1000, core.Every(2*time.Second)): 30,
		core.SlidingWindow(1000, 10*time.Second): 1000, core.SlidingLog(1000, 10*time.Second): 30,
	} {
		t.Run(limit.Algorithm(), func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				store, repeated := &asks{Store: core.NewMemory()}, 0
				direct := core.New(store.Store)
				l := core.New(core.Lease(store, core.Tolerance{Over: 0.2}, core.WithTrace(core.Trace{Repeated: func() { repeated++ }})))
				if _, err := direct.AllowN(t.Context(), "key", limit, 1000); err != nil {
					t.Fatal(err)
				}
				denied := 0
				for range 3000 {
					earlier := repeated
					d := mustAllow(t, l, "key", limit, 1)
					if !d.Allowed {
						denied++
					}
					if repeated > earlier {
						own, err := direct.Allow(t.Context(), "key", limit)
						if own.RetryAfter != d.RetryAfter || own.Allowed || d.Allowed || err != nil {
							t.Fatalf("%+v is repeated, and the store says %+v, %v", d, own, err)
						}
					}
					synctest.Wait()
					time.Sleep(time.Millisecond)
				}
				decided, _ := store.counts()
				if repeated == 0 || decided > most {
					t.Errorf("%d calls of the store for %d denials, of which %d are repeated: want at most %d", decided, denied, repeated, most)
				}
				t.Logf("%d calls of the store for %d denials, of which %d are repeated", decided, denied, repeated)
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// A denial is forgotten when the key is reset, given units back, or asked for under other numbers here.
func TestLeaseForgetsDenials(t *testing.T) {
	limit := core.FixedWindow(1000, time.Hour).Named("plan")
	for name, change := range map[string]func(l *core.Limiter) error{
		"a reset": func(l *core.Limiter) error { return l.Reset(t.Context(), "key", limit) },
		"a refund": func(l *core.Limiter) error {
			_, err := l.Refund(t.Context(), "key", limit, 5)
			return err
		},
		"other numbers": func(l *core.Limiter) error {
			_, err := l.Allow(t.Context(), "key", core.FixedWindow(2000, time.Hour).Named("plan"))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := &asks{Store: core.NewMemory()}
			l := core.New(core.Lease(store, core.Tolerance{Over: 0.1}))
			defer l.Close()
			mustAllow(t, l, "key", limit, 1000)
			for range 2 {
				if d := mustAllow(t, l, "key", limit, 1); d.Allowed {
					t.Fatalf("%+v: want it used up", d)
				}
			}
			before, _ := store.counts()
			if mustAllow(t, l, "key", limit, 1); before != 2 {
				t.Fatalf("%d calls of the store: want the first and a denial", before)
			}
			if err := change(l); err != nil {
				t.Fatal(err)
			}
			asked, _ := store.counts()
			d := mustAllow(t, l, "key", limit, 1)
			if now, _ := store.counts(); now != asked+1 || !d.Allowed && name != "other numbers" {
				t.Errorf("after %s %d calls of the store say %+v: want one, and what is left", name, now-asked, d)
			}
		})
	}
}

// With an Over of 0, and above a store of NewMemory, whose clock may be set, nothing is remembered.
func TestLeaseRemembersNothingWhereThatIsNoGain(t *testing.T) {
	limit := core.FixedWindow(1000, time.Hour)
	store := &asks{Store: core.NewMemory()}
	exact := core.New(core.Lease(store, core.Tolerance{}))
	defer exact.Close()
	mustAllow(t, exact, "key", limit, 1000)
	for range 5 {
		mustAllow(t, exact, "key", limit, 1)
	}
	if decided, _ := store.counts(); decided != 6 {
		t.Errorf("%d calls of the store for 6 checks with nothing leased", decided)
	}
	now := time.Now()
	l := core.New(core.Lease(core.NewMemory(core.WithClock(func() time.Time { return now })), core.Tolerance{Over: 0.1}))
	defer l.Close()
	mustAllow(t, l, "key", limit, 1000)
	if d := mustAllow(t, l, "key", limit, 1); d.Allowed {
		t.Fatalf("%+v: want it used up", d)
	}
	if now = now.Add(time.Hour); !mustAllow(t, l, "key", limit, 1).Allowed {
		t.Error("denied by the clock of the process after the store's was set")
	}
}

// A cache of the user's own beneath is the memory: it repeats as many denials as it was told to.
func TestLeaseUsesTheCacheBeneath(t *testing.T) {
	limit, now := core.FixedWindow(1000, time.Hour), time.Now()
	clock := core.WithClock(func() time.Time { return now })
	store := &asks{Store: core.NewMemory(clock)}
	l := core.New(core.Lease(denialcache.New(store, 10, clock), core.Tolerance{Over: 0.1}))
	defer l.Close()
	mustAllow(t, l, "key", limit, 1000)
	for range 3 {
		mustAllow(t, l, "key", limit, 1)
	}
	if decided, _ := store.counts(); decided != 2 {
		t.Errorf("%d calls of the store: want the first and a denial", decided)
	}
	if now = now.Add(time.Hour); !mustAllow(t, l, "key", limit, 1).Allowed {
		t.Error("a denial is repeated by another clock than the cache's")
	}
}
