package core_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/core/denialcache"
)

// toldOf keeps what a trace was told of decisions.
type toldOf struct {
	mu   sync.Mutex
	list []core.Decided
}

func (o *toldOf) trace() core.Option {
	return core.WithTrace(core.Trace{Decided: func(d core.Decided) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.list = append(o.list, d)
	}})
}

// take returns what was told since the last time.
func (o *toldOf) take() []core.Decided {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.list
	o.list = nil
	return list
}

// A trace is told of each check that was decided, by whichever verb, with its answer.
func TestDecisionsAreTraced(t *testing.T) {
	told := new(toldOf)
	limiter := core.New(denialcache.New(core.NewMemory(), 10), told.trace())
	one, two := core.FixedWindow(1, time.Hour).Named("one"), core.FixedWindow(9, time.Hour).Named("two")
	check := func(what string, want ...core.Decided) {
		t.Helper()
		got := told.take()
		for i := range got {
			got[i].Decision, got[i].Elapsed = core.Decision{Allowed: got[i].Decision.Allowed}, 0
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s is told as %+v, want %+v", what, got, want)
		}
	}
	allowed, denied := core.Decision{Allowed: true}, core.Decision{}
	_, _ = limiter.Allow(t.Context(), "key", one)
	check("what passes", core.Decided{Limit: one, Units: 1, Decision: allowed})
	_, _ = limiter.Peek(t.Context(), "key", two)
	check("a peek", core.Decided{Limit: two, Units: 1, Mode: core.Condition, Decision: allowed})
	_, _ = limiter.AllowAll(t.Context(), core.Check{Key: "key", Limit: two, Cost: 3}, core.Check{Key: "key", Limit: one},
		core.Check{Key: "key", Limit: two, Shadow: true}, core.Check{Key: "key", Limit: core.Unlimited})
	check("a call", core.Decided{Limit: two, Units: 3, Decision: allowed}, core.Decided{Limit: one, Units: 1, Decision: denied},
		core.Decided{Limit: two, Units: 1, Shadow: true, Decision: allowed})
	for _, who := range []string{"a denial", "a denial that is repeated from memory"} {
		_, _ = limiter.Allow(t.Context(), "key", one)
		check(who, core.Decided{Limit: one, Units: 1, Decision: denied})
	}
	if granted, _, err := limiter.AllowAtMost(t.Context(), "key", two, 20); granted != 9 || err != nil {
		t.Errorf("%d were granted, want 9; %v", granted, err)
	}
	check("as many as fit", core.Decided{Limit: two, Units: 9, Decision: allowed})
	_, _ = limiter.Reserve(t.Context(), core.Check{Key: "other", Limit: two, Cost: 2})
	check("a reservation", core.Decided{Limit: two, Units: 2, Decision: allowed})
	if err := limiter.WaitN(t.Context(), "another", two, 4); err != nil {
		t.Fatal(err)
	}
	check("a wait", core.Decided{Limit: two, Units: 4, Decision: allowed})
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err := limiter.Allow(gone, "key", one)
	if got := told.take(); len(got) != 1 || err == nil || !errors.Is(err, got[0].Err) || got[0].Limit != one {
		t.Errorf("a call that fails with %v is told as %+v", err, got)
	}
	_, _ = limiter.Allow(t.Context(), "", one)
	_, _ = limiter.Allow(t.Context(), "key", core.Unlimited)
	check("what is not decided")
}

// A decision that a lease has made is told like all others.
func TestLeasedDecisionsAreTraced(t *testing.T) {
	told := new(toldOf)
	limiter := core.New(core.Lease(core.NewMemory(), core.Tolerance{Over: 0.5}), told.trace())
	defer limiter.Close()
	hot := core.Leaky(10_000, core.PerSecond(10_000))
	for asked, leased := 0, false; !leased; asked++ {
		if asked == 100_000 {
			t.Fatal("the key is not leased")
		}
		d, err := limiter.Allow(t.Context(), "key", hot)
		if err != nil {
			t.Fatal(err)
		}
		if got := told.take(); len(got) != 1 || got[0].Decision != d {
			t.Fatalf("%+v is told as %+v", d, got)
		}
		leased = d.Leased
	}
}

// A trace that the innermost store has is that of all that is around it, and is told once, also if it is given to several parts.
func TestATraceIsGivenOnce(t *testing.T) {
	waits, repeated := 0, 0
	trace := core.WithTrace(core.Trace{Wait: func(core.Wait) { waits++ }, Repeated: func() { repeated++ }})
	for name, limiter := range map[string]*core.Limiter{
		"the innermost store": core.New(core.Lease(denialcache.New(core.NewMemory(trace), 10), core.Tolerance{})),
		"all parts":           core.New(core.Lease(denialcache.New(core.NewMemory(trace), 10, trace), core.Tolerance{}, trace), trace),
	} {
		waits, repeated = 0, 0
		for range 3 {
			_, _ = limiter.Allow(t.Context(), "key", core.FixedWindow(1, time.Hour))
		}
		_ = limiter.Wait(t.Context(), "another", core.FixedWindow(1, time.Hour))
		if waits != 1 || repeated != 1 {
			t.Errorf("given to %s, it was told of %d waits and %d repetitions, want 1 each", name, waits, repeated)
		}
		_ = limiter.Close()
	}
	store, err := core.OpenStore("memory:", trace)
	if err != nil {
		t.Fatal(err)
	}
	waits = 0
	_ = core.New(store, trace).Wait(t.Context(), "key", core.FixedWindow(1, time.Hour))
	if waits != 1 {
		t.Errorf("one list of options for a store and its limiter told of %d waits, want 1", waits)
	}
}
