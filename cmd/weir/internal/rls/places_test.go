package rls

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

const ofPlaces = `
domain: d
descriptors:
  - {key: host, rate_limit: {unit: minute, requests_per_unit: 3, algorithm: concurrent}}
  - {key: tried, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1, algorithm: concurrent, lease: 90s}}
  - {key: closed, rate_limit: {unit: minute, requests_per_unit: 0, algorithm: concurrent}}
  - {key: day, rate_limit: {unit: day, requests_per_unit: 4}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 2}}
`

// TestRequestsHoldPlaces: as many requests are in progress as there are places, until negative hits give some back, in any process, or their time is over.
func TestRequestsHoldPlaces(t *testing.T) {
	now := clock
	url := redistest.Start(t)
	for name, stores := range map[string]func() core.Store{
		"memory": func() func() core.Store {
			store := core.NewMemory(core.WithClock(func() time.Time { return now }))
			return func() core.Store { return store }
		}(),
		"Redis": func() core.Store {
			return core.NewRedis(url.Client(t), core.WithBudget(time.Minute), core.WithClock(func() time.Time { return now }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			now = clock
			one, other := serveOn(t, stores(), Options{}, ofPlaces), serveOn(t, stores(), Options{}, ofPlaces)
			step := func(s *Service, want string, give bool, n uint64, texts ...string) {
				t.Helper()
				d := hits(n, descriptor(texts...))
				if give {
					d = refund(n, descriptor(texts...))
				}
				if got := short(ask(t, s, d)); got != want {
					t.Errorf("%d hits of %v (given back: %t) are answered %q, want %q", n, texts, give, got, want)
				}
			}
			step(one, "ok: ok 2", false, 1, "host=a")
			step(one, "ok: ok 0", false, 2, "host=a")
			step(other, "over: over 0", false, 1, "host=a")
			step(other, "ok: ok 1", true, 1, "host=a") // of whichever request
			step(other, "over: over 1", false, 2, "host=a")
			step(other, "ok: ok 0", false, 1, "host=a")
			step(one, "ok: ok 3", true, 300, "host=a")
			step(one, "ok: ok 3", true, 1, "host=a") // never more than are held
			step(one, "ok: ok 3", false, 0, "host=a")
			step(one, "over: over 0", false, 1, "closed=a")

			step(one, "ok: ok 0", false, 3, "host=b")
			now = now.Add(time.Minute) // what nobody gives back is free when the unit is over
			step(other, "ok: ok 2", false, 1, "host=b")

			step(one, "ok: ok 0", false, 1, "tried=a")
			step(one, "ok: ok 0", false, 1, "tried=a") // a shadow denies nothing
			step(one, "ok: ok 1", true, 1, "tried=a")
			now = now.Add(time.Minute)
			step(one, "ok: ok 0", false, 1, "tried=a")
			now = now.Add(time.Minute)
			step(one, "ok: ok 0", false, 0, "tried=a")
			now = now.Add(30 * time.Second)
			step(one, "ok: ok 1", false, 0, "tried=a")
		})
	}
}

// TestPlacesAndUnitsAreOneCall: a request that has no place is charged nothing else, and one that has nothing else left takes no place.
func TestPlacesAndUnitsAreOneCall(t *testing.T) {
	s := serve(t, Options{}, ofPlaces)
	both := func(n uint64) string {
		return short(ask(t, s, hits(n, descriptor("host=a")), hits(1, descriptor("day=a"))))
	}
	for i, want := range []string{"ok: ok 0 ok 3", "over: over 0 ok 3", "over: over 0 ok 3"} {
		if got := both([]uint64{3, 1, 1}[i]); got != want {
			t.Errorf("request %d is answered %q, want %q", i+1, got, want)
		}
	}
	if got := short(ask(t, s, refund(2, descriptor("host=a")), refund(1, descriptor("day=a")))); got != "ok: ok 2 ok 4" {
		t.Errorf("places and units that are given back together are answered %q", got)
	}
}

// TestNegativeHitsOfAShadow: they are given back to the state that the shadow has, and never above full.
func TestNegativeHitsOfAShadow(t *testing.T) {
	s := serve(t, Options{}, ofPlaces)
	for _, step := range []struct {
		give bool
		n    uint64
		want string
	}{{false, 2, "ok: ok 0"}, {true, 1, "ok: ok 1"}, {true, 9, "ok: ok 2"}, {false, 1, "ok: ok 1"}} {
		d := hits(step.n, descriptor("shadow=a"))
		d.IsNegativeHits = step.give
		if got := short(ask(t, s, d)); got != step.want {
			t.Errorf("%d hits (given back: %t) are answered %q, want %q", step.n, step.give, got, step.want)
		}
	}
}
