package core_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
)

// inLeased runs a test with a limiter that leases, and with a limit of 1,000 a second whose "key" is leased already.
func inLeased(t *testing.T, test func(t *testing.T, l *core.Limiter, store core.Store, hot core.Quota)) {
	t.Helper()
	bubbletest.Run(t, func(t *testing.T) {
		store, limit := core.NewMemory(), core.Leaky(1000, core.PerSecond(1000))
		l := core.New(core.Lease(store, core.Tolerance{Over: 0.2}))
		defer func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}()
		warm(t, l, "key", limit)
		test(t, l, store, limit)
	})
}

// warm asks for a key until it is leased.
func warm(t *testing.T, l *core.Limiter, key string, limit core.Quota) {
	t.Helper()
	for range 20 {
		mustAllow(t, l, key, limit, 1)
		synctest.Wait()
	}
	if !mustAllow(t, l, key, limit, 1).Leased {
		t.Fatalf("%q is not leased under %s", key, limit)
	}
}

// A lease ends with its window, whoever cuts it: a calendar without and with jitter, in months of several lengths.
func TestLeaseEndsWithTheCalendarsWindow(t *testing.T) {
	for name, limit := range map[string]core.Quota{
		"a second":    core.Calendar(1000, core.Every(time.Second)),
		"with jitter": core.Calendar(1000, core.Every(time.Second).Jitter(900*time.Millisecond)),
		"a day":       core.Calendar(10_000_000, core.Daily("Europe/Berlin")),
		"a month":     core.Calendar(50_000_000, core.Monthly("America/New_York")).Named("plan"),
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				l := core.New(core.Lease(core.NewMemory(), core.Tolerance{Over: 1}))
				defer l.Close()
				first := mustAllow(t, l, "key", limit, 1)
				time.Sleep(first.ResetAfter - 20*time.Millisecond) // just before the window ends
				warm(t, l, "key", limit)
				d := mustAllow(t, l, "key", limit, 1)
				time.Sleep(d.ResetAfter)
				synctest.Wait()
				if d := mustAllow(t, l, "key", limit, 1); d.Leased || d.Remaining != limit.Capacity()-1 {
					t.Errorf("in the next window: %+v, want an exact answer with %d left", d, limit.Capacity()-1)
				}
			})
		})
	}
}

// A calendar of few units stays exact: fewer than two of them flow in the time of a lease.
func TestCalendarOfFewUnitsStaysExact(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		l, limit := core.New(core.Lease(core.NewMemory(), core.Tolerance{Over: 1})), core.Calendar(10_000, core.Monthly("UTC"))
		defer l.Close()
		for range 100 {
			if d := mustAllow(t, l, "key", limit, 1); d.Leased {
				t.Fatalf("leased: %+v", d)
			}
			synctest.Wait()
		}
	})
}

// Alternatives are asked of the store, which alone decides which of them is charged.
func TestAlternativesAreNotLeased(t *testing.T) {
	inLeased(t, func(t *testing.T, l *core.Limiter, _ core.Store, hot core.Quota) {
		warm(t, l, "credits", hot)
		for range 20 {
			decisions, err := l.AllowAll(t.Context(), core.FirstOf(core.Check{Key: "key", Limit: hot}, core.Check{Key: "credits", Limit: hot})...)
			if err != nil {
				t.Fatal(err)
			}
			if decisions[0].Leased || decisions[1].Leased || decisions[0].Waived || !decisions[1].Waived {
				t.Fatalf("%+v", decisions)
			}
			synctest.Wait()
		}
	})
}

// A ban that is asked about beside a hot key is asked of the store each time, and one that begins is in force at once. What
// strikes is a denial of the store's.
func TestBansAreNotLeased(t *testing.T) {
	inLeased(t, func(t *testing.T, l *core.Limiter, store core.Store, hot core.Quota) {
		brute := core.Ban{Strikes: core.SlidingLog(1000, time.Minute), First: time.Minute}
		ban := brute.Limit()
		rate := core.Check{Key: "key", Limit: hot}
		for _, mode := range []core.Mode{core.Condition, core.OnDenial} {
			for range 20 {
				decisions, err := l.AllowAll(t.Context(), core.Check{Key: "key", Limit: ban, Mode: mode}, rate)
				if err != nil || !decisions[1].Allowed || decisions[1].Leased {
					t.Fatalf("%s: %+v, %v", mode, decisions, err)
				}
				synctest.Wait()
			}
		}
		for range 20 { // strikes are charged one by one
			if d := mustStrike(t, l, "key", brute); d.Leased {
				t.Fatalf("a strike was leased: %+v", d)
			}
			synctest.Wait()
		}
		if err := core.New(store).Ban(t.Context(), "key", brute, time.Minute, "by hand"); err != nil {
			t.Fatal(err)
		}
		decisions, err := l.AllowAll(t.Context(), core.Check{Key: "key", Limit: ban, Mode: core.Condition}, rate)
		if err != nil || decisions[0].Allowed {
			t.Errorf("banned, and passed: %+v, %v", decisions, err)
		}
	})
}

// Places beside a hot key are taken in the store, with all that belongs to the call.
func TestPlacesAreNotLeased(t *testing.T) {
	inLeased(t, func(t *testing.T, l *core.Limiter, _ core.Store, hot core.Quota) {
		places := core.Concurrent(2, time.Minute)
		for range 20 {
			r, err := l.Reserve(t.Context(), core.Check{Key: "key", Limit: places}, core.Check{Key: "key", Limit: hot})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range r.Decisions() {
				if d.Leased || !d.Allowed {
					t.Fatalf("%+v", r.Decisions())
				}
			}
			r.Permit(t.Context()).Release()
			synctest.Wait()
		}
	})
}

// What is reserved, for good or for a time, grows and is settled in the store: nothing of it comes from a lease, and nothing
// is given back twice.
func TestReservationsAreNotLeased(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		store, limit := core.NewMemory(), core.FixedWindow(100_000, time.Hour)
		l := core.New(core.Lease(store, core.Tolerance{Over: 0.1}))
		warm(t, l, "key", limit)
		for _, reserveFor := range []time.Duration{0, time.Minute} {
			r, err := l.Reserve(t.Context(), core.Check{Key: "key", Limit: limit, Cost: 10, ReserveFor: reserveFor})
			if err != nil || r.Decisions()[0].Leased {
				t.Fatalf("%+v, %v", r.Decisions(), err)
			}
			if d, err := r.Grow(t.Context(), 30); err != nil || d[0].Leased {
				t.Fatalf("grown: %+v, %v", d, err)
			}
			if err := r.Settle(t.Context(), 5); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Second) // the leases lapse
		synctest.Wait()
		d, err := core.New(store).Peek(t.Context(), "key", limit)
		if want := 100_000 - 21 - 2*5; err != nil || d.Remaining != want {
			t.Errorf("%d are left, want %d: %v", d.Remaining, want, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// The limit that is Exact asks the store, and leaves what is leased of its twin as it is: their numbers are the same.
func TestExactTwinLeavesLeases(t *testing.T) {
	inLeased(t, func(t *testing.T, l *core.Limiter, _ core.Store, _ core.Quota) {
		limit := core.GCRA(1000, core.PerSecond(1000)).Named("calls")
		warm(t, l, "key", limit)
		if d := mustAllow(t, l, "key", limit.Exact(), 1); d.Leased {
			t.Errorf("exact, and leased: %+v", d)
		}
		if d := mustAllow(t, l, "key", limit, 1); !d.Leased {
			t.Errorf("the lease ended with an exact check: %+v", d)
		}
	})
}

// A call of which only a part is leased asks the store about all of it, and spends nothing of the leases.
func TestCallLeasedInPartSpendsNothing(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		b, limit := new(book), core.FixedWindow(100_000, time.Hour)
		l := core.New(core.Lease(core.NewMemory(), core.Tolerance{Over: 0.1}, b.trace()))
		leased := 0
		for range 20 {
			if mustAllow(t, l, "key", limit, 1).Leased {
				leased++
			}
			synctest.Wait()
		}
		for range 5 {
			decisions, err := l.AllowAll(t.Context(), core.Check{Key: "key", Limit: limit}, core.Check{Key: "other", Limit: limit.Exact()})
			if err != nil || decisions[0].Leased || !decisions[0].Allowed {
				t.Fatalf("%+v, %v", decisions, err)
			}
			synctest.Wait()
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if sum := b.sum(t); leased == 0 || sum.Spent != leased {
			t.Errorf("%d checks were leased: %+v", leased, sum)
		}
	})
}

// askedFor is a store that remembers the checks of the leases that it was asked for.
type askedFor struct {
	core.Store

	mu     sync.Mutex
	leases [][]core.Check
}

func (a *askedFor) Decide(ctx context.Context, calls []core.Call) (int, error) {
	if calls[0].Receipts != nil {
		a.mu.Lock()
		a.leases = append(a.leases, slices.Clone(calls[0].Checks))
		a.mu.Unlock()
	}
	return a.Store.Decide(ctx, calls)
}

// Each lease of a sliding limit is charged to its meter, too, which holds half of what is tolerated. Others have no meter.
func TestLeasesOfSlidingLimitsAreMetered(t *testing.T) {
	for _, limit := range []core.Quota{
		core.SlidingLog(10_000, time.Second), core.SlidingWindow(10_000, time.Second), core.GCRA(10_000, core.PerSecond(10_000)),
	} {
		bubbletest.Run(t, func(t *testing.T) {
			store := &askedFor{Store: core.NewMemory()}
			l := core.New(core.Lease(store, core.Tolerance{Over: 0.1}))
			warm(t, l, "key", limit)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if len(store.leases) == 0 {
				t.Fatal("no lease was asked for")
			}
			for _, checks := range store.leases {
				metered := len(checks) == 2 && checks[1].Key == "key" && checks[1].Limit.Capacity() == 500 && checks[1].Limit.Algorithm() == "leaky"
				if slides := limit.Algorithm() != "gcra"; slides != metered || !slides && len(checks) != 1 {
					t.Errorf("%s: leased with %+v", limit, checks)
				}
			}
		})
	}
}

func mustStrike(t *testing.T, l *core.Limiter, key string, ban core.Ban) core.Decision {
	t.Helper()
	decisions, err := l.AllowAll(t.Context(), core.Check{Key: key, Limit: ban.Limit()})
	if err != nil {
		t.Fatal(err)
	}
	return decisions[0]
}
