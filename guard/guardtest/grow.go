package guardtest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var growCases = []testCase{
	{"a stream reserves more as it goes, and is settled once", testGrow},
	{"a growth that is denied says when, and changes nothing", testGrowDenied},
	{"several limits grow together or not at all", testGrowTogether},
	{"a tenant's share grows with its limit, and bounds the growth", testGrowShare},
	{"a limiter in front grows from inside", testGrowNested},
	{"what this process has decided by itself grows in its share", testGrowFallback},
	{"growth without a reservation is an error", testGrowNothing},
	{"a request is settled before its handler returns, and not again", testSettleNow},
	{"places are held on when a request is settled early", testSettleNowHoldsPlaces},
	{"what a policy reserves for a time is given back, and settled once", testReserveFor},
	{"a time that makes no sense is an error at start-up", testReserveForWithoutSense},
	{"of two policies that are one limit the longer time counts", testReserveForJoined},
	{"the event of a settlement tells what is left", testSettledEvent},
}

// grows calls Grow in a handler, and fails the test if that is an error.
func (f *fixture) grows(ctx context.Context, total int, limits ...core.Limit) core.Decision {
	f.t.Helper()
	d, err := guard.Grow(ctx, total, limits...)
	if err != nil {
		f.t.Errorf("Grow(%d): %v", total, err)
	}
	return d
}

// spentOf is a policy that reserves a cost under a limit, and charges the cost that the handler has told.
func spentOf(limit core.Limit, cost int) guard.Policy {
	return guard.Policy{Limit: limit, By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: spent, First: true}, Cost: func(*http.Request) int { return cost }}
}

func testGrow(t *testing.T, s *suite) {
	f := s.fixture(t)
	h := f.serve(site{around: []middleware{f.limited(spentOf(hundred(), 10))}, handler: func(_ http.ResponseWriter, r *http.Request) {
		for _, total := range []int{30, 30, 5, 50} {
			if d := f.grows(r.Context(), total, hundred()); !d.Allowed || d.Remaining != 100-max(30, total) {
				t.Errorf("grown to %d: %+v", total, d)
			}
			guard.Spend(r.Context(), 10)
		}
		f.expectUsed(hundred(), 50)
		f.expectAsked(3) // and no more
		if _, err := guard.Grow(r.Context(), -1, hundred()); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("a negative total: %v", err)
		}
		if _, err := guard.Grow(r.Context(), 60); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("no limit: %v", err)
		}
	}})
	get(h)
	f.expectUsed(hundred(), 40)
	if e := f.events; len(e) != 2 || e[1].Reserved[0].Cost != 50 || e[1].Outcomes[0].Cost != 40 || e[0].Outcomes[0].Cost != 10 {
		t.Errorf("observed %+v, want 10, and then 40 of 50", e)
	}
	var late context.Context
	get(f.settling(hundred(), 1, func(_ *http.Request, served guard.Served) int { return served.Cost }, func(_ http.ResponseWriter, r *http.Request) {
		late = r.Context() //nolint:fatcontext // it is used when the request has ended
		f.grows(late, 20, hundred())
	}))
	f.expectUsed(hundred(), 60)
	if _, err := guard.Grow(late, 30, hundred()); !errors.Is(err, core.ErrSettled) {
		t.Errorf("grown when the request is settled: %v", err)
	}
	f.expectUsed(hundred(), 60)
}

func testGrowDenied(t *testing.T, s *suite) {
	f := s.fixture(t)
	limit := core.Leaky(100, core.PerSecond(1)).Named("leaky")
	h := f.serve(site{around: []middleware{f.limited(spentOf(limit, 90))}, handler: func(_ http.ResponseWriter, r *http.Request) {
		d := f.grows(r.Context(), 120, limit)
		if d.Allowed || d.RetryAfter != 20*time.Second {
			t.Errorf("grown beyond the limit: %+v", d)
		}
		f.expectUsed(limit, 90)
		if d := f.grows(r.Context(), 191, limit); d.Allowed || d.RetryAfter != core.Never {
			t.Errorf("grown by more than the limit: %+v", d)
		}
		f.clock.advance(d.RetryAfter)
		if d := f.grows(r.Context(), 120, limit); !d.Allowed {
			t.Errorf("at its RetryAfter: %+v", d)
		}
		guard.Spend(r.Context(), 115)
	}})
	get(h)
	f.expectUsed(limit, 95) // 20 have drained
}

func testGrowTogether(t *testing.T, s *suite) {
	f := s.fixture(t)
	day := core.FixedWindow(60, 24*time.Hour).Named("day")
	h := f.serve(site{around: []middleware{f.limited(spentOf(hundred(), 10), spentOf(day, 10))}, handler: func(_ http.ResponseWriter, r *http.Request) {
		if d := f.grows(r.Context(), 50, hundred(), day); !d.Allowed || d.Limit != day || d.Remaining != 10 {
			t.Errorf("both grown: %+v", d)
		}
		if d := f.grows(r.Context(), 70, hundred(), day); d.Allowed || d.Limit != day {
			t.Errorf("beyond one of them: %+v", d)
		}
		f.expectUsed(hundred(), 50)
		f.expectUsed(day, 50)
		f.expectAsked(3)
		guard.Spend(r.Context(), 45)
	}})
	get(h)
	f.expectUsed(hundred(), 45)
	f.expectUsed(day, 45)
}

func testGrowShare(t *testing.T, s *suite) {
	f := s.fixture(t)
	policy := shared()
	policy.Settle = guard.SettlePolicy{Cost: spent, First: true}
	h := f.serve(site{around: []middleware{f.limited(policy)}, handler: func(_ http.ResponseWriter, r *http.Request) {
		if d := f.grows(r.Context(), 6, policy.Limit); !d.Allowed || d.Limit == policy.Limit || d.Remaining != 0 {
			t.Errorf("grown to the share: %+v", d)
		}
		if d := f.grows(r.Context(), 7, policy.Limit); d.Allowed || d.Limit == policy.Limit {
			t.Errorf("grown beyond the share: %+v", d)
		}
		f.expectUsed(policy.Limit, 6)
		guard.Spend(r.Context(), 2)
	}})
	askAs(h, "a")
	f.expectUsed(policy.Limit, 2)
}

func testGrowNested(t *testing.T, s *suite) {
	f := s.fixture(t)
	inner := core.FixedWindow(50, time.Hour).Named("inner")
	h := f.serve(site{
		around: []middleware{f.limited(spentOf(hundred(), 10))},
		inside: []middleware{f.limited(spentOf(hundred(), 10), spentOf(inner, 5))}, // the first is charged outside
		handler: func(_ http.ResponseWriter, r *http.Request) {
			if d := f.grows(r.Context(), 40, hundred(), inner); !d.Allowed || d.Limit != inner || d.Remaining != 10 {
				t.Errorf("%+v", d)
			}
			f.expectUsed(hundred(), 40)
			f.expectUsed(inner, 40)
			guard.Spend(r.Context(), 25)
		},
	})
	get(h)
	f.expectUsed(hundred(), 25)
	f.expectUsed(inner, 25)
}

func testGrowFallback(t *testing.T, s *suite) {
	f := s.fixture(t)
	options := f.options()
	options.OnError, options.Replicas = guard.Fallback, 2
	f.store.failure = errors.New("the store is down")
	h := f.serve(site{around: []middleware{f.new(f.limiter, options, spentOf(hundred(), 10))}, handler: func(_ http.ResponseWriter, r *http.Request) {
		if d := f.grows(r.Context(), 45, hundred()); !d.Allowed || !d.Degraded || d.Remaining != 5 {
			t.Errorf("in its share of 50: %+v", d)
		}
		if d := f.grows(r.Context(), 60, hundred()); d.Allowed || d.RetryAfter == 0 {
			t.Errorf("beyond its share: %+v", d)
		}
		guard.Spend(r.Context(), 20)
	}})
	get(h)
	if e := f.events[1].Outcomes[0].Decision; !e.Degraded || e.Remaining != 30 {
		t.Errorf("settled: %+v, want 30 of 50 left", e)
	}
}

func testGrowNothing(t *testing.T, s *suite) {
	f := s.fixture(t)
	expectNothing := func(ctx context.Context, limit core.Limit) {
		t.Helper()
		if _, err := guard.Grow(ctx, 5, limit); !errors.Is(err, guard.ErrNotReserved) {
			t.Errorf("%s: %v", limit, err)
		}
	}
	unsettled, shadow := core.FixedWindow(9, time.Hour).Named("unsettled"), core.FixedWindow(9, time.Hour).Named("shadow")
	watched := spentOf(shadow, 1)
	watched.Shadow = true
	h := f.serve(site{
		around: []middleware{f.limited(spentOf(hundred(), 1), guard.Policy{Limit: unsettled, By: keyfuncs.Global}, watched)},
		handler: func(_ http.ResponseWriter, r *http.Request) {
			for _, limit := range []core.Limit{unsettled, shadow, one()} {
				expectNothing(r.Context(), limit)
			}
		},
	})
	get(h)
	f.expectUsed(unsettled, 1)
	expectNothing(t.Context(), hundred())
	f.store.failure = errors.New("the store is down")
	get(f.settling(hundred(), 1, spent, func(_ http.ResponseWriter, r *http.Request) { expectNothing(r.Context(), hundred()) }))
}

func testSettleNow(t *testing.T, s *suite) {
	s.need(t, Streaming)
	f := s.fixture(t)
	calls := 0
	settle := func(_ *http.Request, served guard.Served) int {
		calls++
		if served.Bytes != 5 || served.Status != http.StatusOK || served.Panicked {
			t.Errorf("settled by %+v", served)
		}
		return served.Spent
	}
	h := f.settling(hundred(), 40, settle, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello")
		guard.Spend(r.Context(), 7)
		told := guard.Settle(r.Context())
		if len(told) != 1 || told[0].Cost != 7 || told[0].Decision.Remaining != 93 {
			t.Errorf("settled: %+v", told)
		}
		guard.Spend(r.Context(), 20) // too late
		if told := guard.Settle(r.Context()); told != nil {
			t.Errorf("settled again: %+v", told)
		}
		if _, err := guard.Grow(r.Context(), 90, hundred()); !errors.Is(err, core.ErrSettled) {
			t.Errorf("grown when settled: %v", err)
		}
	})
	get(h)
	f.expectUsed(hundred(), 7)
	if calls != 1 || len(f.events) != 2 {
		t.Errorf("settled %d times, with %d events", calls, len(f.events))
	}
	if told := guard.Settle(t.Context()); told != nil {
		t.Errorf("without a limiter: %+v", told)
	}
}

func testSettleNowHoldsPlaces(t *testing.T, s *suite) {
	f := s.fixture(t)
	place := core.Concurrent(1, time.Minute)
	h := f.serve(site{
		around: []middleware{f.limited(spentOf(hundred(), 40), guard.Policy{Limit: place, By: keyfuncs.Global})},
		handler: func(_ http.ResponseWriter, r *http.Request) {
			guard.Settle(r.Context())
			f.expectUsed(hundred(), 0)
			f.expectUsed(place, 1)
		},
	})
	get(h)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		key, _ := keyfuncs.Global(ask(http.MethodGet, "/"))
		if d, err := f.limiter.Peek(t.Context(), key, place); err != nil || d.Remaining == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the place is held for ever")
		}
	}
}

func testSettledEvent(t *testing.T, s *suite) {
	f := s.fixture(t)
	day := core.FixedWindow(60, 24*time.Hour).Named("day")
	same := spentOf(day, 5)
	same.Settle.Cost = func(*http.Request, guard.Served) int { return 5 }
	get(f.serve(site{
		around:  []middleware{f.limited(spentOf(hundred(), 40), same)},
		handler: func(_ http.ResponseWriter, r *http.Request) { guard.Spend(r.Context(), 15) },
	}))
	if len(f.events) != 2 {
		t.Fatalf("observed %+v", f.events)
	}
	for i, want := range []int{85, 55} {
		before, after := f.events[1].Reserved[i].Decision, f.events[1].Outcomes[i].Decision
		if after.Remaining != want || !after.Allowed || before.Remaining != []int{60, 55}[i] {
			t.Errorf("%d remained of policy %d, and then %d, want %d", before.Remaining, i, after.Remaining, want)
		}
	}
}

// reservedFor is spentOf for a time.
func reservedFor(limit core.Limit, cost int, ttl time.Duration) guard.Policy {
	policy := spentOf(limit, cost)
	policy.Settle.ReserveFor = ttl
	return policy
}

func testReserveFor(t *testing.T, s *suite) {
	f := s.fixture(t)
	limiter, late := f.limited(reservedFor(hundred(), 40, time.Minute)), false
	h := f.serve(site{around: []middleware{limiter}, handler: func(_ http.ResponseWriter, r *http.Request) {
		if d := f.grows(r.Context(), 60, hundred()); !d.Allowed {
			t.Errorf("%+v", d)
		}
		guard.Spend(r.Context(), 30)
		if !late {
			f.clock.advance(59 * time.Second)
			return
		}
		f.clock.advance(time.Minute)
		get(f.around(limiter)) // 60 are back, and its own 40 are settled at 0
		f.expectUsed(hundred(), 30)
	}})
	get(h)
	f.clock.advance(time.Minute)
	f.expectUsed(hundred(), 30)
	late = true
	get(h)
	f.expectUsed(hundred(), 60)
}

func testReserveForWithoutSense(t *testing.T, s *suite) {
	f := s.fixture(t)
	unsettled := reservedFor(hundred(), 1, time.Minute)
	unsettled.Settle.Cost, unsettled.Settle.First = nil, false
	for _, policy := range []guard.Policy{
		unsettled,
		reservedFor(hundred(), 1, -time.Minute), reservedFor(hundred(), 1, time.Microsecond), reservedFor(hundred(), 1, 25*time.Hour),
		reservedFor(core.Shaping(5, core.PerSecond(1)), 1, time.Minute), reservedFor(core.Concurrent(5, time.Minute), 1, time.Minute),
		reservedFor(core.Calendar(5, core.Daily("UTC")), 1, time.Minute),
	} {
		if _, err := guard.New(f.limiter, guard.Options{}, policy); err == nil {
			t.Errorf("%v under %s is no error", policy.Settle.ReserveFor, policy.Limit)
		}
	}
	for _, limit := range []core.Limit{core.Concurrent(5, time.Minute), core.Calendar(5, core.Daily("UTC"))} {
		f, picked := s.fixture(t), reservedFor(nil, 1, time.Minute)
		picked.LimitFor = func(*http.Request) core.Limit { return limit }
		got, after := answer(f.around(f.limited(picked)), ask(http.MethodGet, "/")), f.store.calls[len(f.store.calls)-1]
		if got.StatusCode != http.StatusOK || after[0].ReserveFor != 0 {
			t.Errorf("%s, which LimitFor picks, is asked with %v and answered with %d", limit, after[0].ReserveFor, got.StatusCode)
		}
	}
}

func testReserveForJoined(t *testing.T, s *suite) {
	for _, c := range []struct{ one, other, want time.Duration }{
		{time.Minute, time.Hour, time.Hour}, {time.Hour, time.Minute, time.Hour}, {0, time.Hour, 0}, {time.Hour, 0, 0},
	} {
		f := s.fixture(t)
		byGlobal := func(ttl time.Duration) guard.Policy {
			policy := reservedFor(nil, 1, ttl) // two policies of one name need LimitFor
			policy.LimitFor = func(*http.Request) core.Limit { return hundred() }
			return policy
		}
		get(f.around(f.limited(byGlobal(c.one), byGlobal(c.other))))
		if got := f.store.calls[0]; len(got) != 1 || got[0].ReserveFor != c.want {
			t.Errorf("%v and %v ask %+v, want %v", c.one, c.other, got, c.want)
		}
	}
}
