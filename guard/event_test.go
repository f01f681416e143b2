package guard_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
	ratelimit "github.com/weir-go/ratelimit/nethttp"
)

// silent is a store that does not answer.
type silent struct{ core.Store }

var errDown = errors.New("the store is down")

func (silent) Decide(context.Context, []core.Call) (int, error) { return 0, errDown }

// Of the policies that the store has not answered, an event says who they are and what
// they do then; those that this process decides by itself are outcomes.
func TestEventNamesWhoWasNotAnswered(t *testing.T) {
	one := func(name string) core.Limit { return core.FixedWindow(1, time.Hour).Named(name) }
	var events []guard.Event
	options := guard.Options{Observe: func(e guard.Event) { events = append(events, e) }}
	policies := []guard.Policy{
		{Limit: one("open")},
		{Limit: one("shadow"), Shadow: true},
		{Limit: one("own"), OnError: guard.Fallback},
	}
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	check := func(policies []guard.Policy) guard.Event {
		t.Helper()
		events = nil
		guard.Must(guard.New(core.New(silent{}), options, policies...)).Decide(request, nil)
		if len(events) != 1 {
			t.Fatalf("%d events, want 1", len(events))
		}
		return events[0]
	}

	e := check(policies)
	want := []guard.Unanswered{
		{Policy: "open", Limit: one("open"), Mode: guard.FailOpen},
		{Policy: "shadow", Limit: one("shadow"), Mode: guard.FailOpen, Shadow: true},
	}
	if !slices.Equal(e.Unanswered, want) || len(e.Outcomes) != 1 || e.Outcomes[0].Policy != "own" || !e.Degraded() || e.Status != 0 {
		t.Errorf("%+v, want two unanswered and one outcome", e)
	}

	e = check(append(policies, guard.Policy{Limit: one("closed"), OnError: guard.FailClosed}))
	if len(e.Unanswered) != 4 || e.Unanswered[2].Mode != guard.FailClosed || !e.Degraded() || e.Status != http.StatusServiceUnavailable {
		t.Errorf("%+v, want nobody answered", e)
	}

	e = check(append(policies, guard.Policy{
		Limit: one("broken"), By: func(*http.Request) (string, error) { return "", errDown },
	}))
	if !slices.Equal(e.Unanswered, []guard.Unanswered{{Policy: "broken", Limit: one("broken")}}) || e.Status != http.StatusInternalServerError {
		t.Errorf("%+v, want the policy that could not say what to ask", e)
	}
}

func TestEventTellsNothingUnusualWhenAllIsWell(t *testing.T) {
	var event guard.Event
	g := guard.Must(guard.New(core.New(core.NewMemory()), guard.Options{Observe: func(e guard.Event) { event = e }},
		guard.Policy{Limit: core.FixedWindow(1, time.Hour), By: keyfuncs.Global}))
	g.Decide(httptest.NewRequest(http.MethodGet, "/", nil), nil)
	if event.Degraded() || event.Unanswered != nil || event.Reserved != nil || event.Held != 0 || len(event.Outcomes) != 1 {
		t.Errorf("%+v", event)
	}
}

// A shadow that alone was not answered spoils nothing, and is marked by itself.
func TestAShadowAloneDegradesNoEvent(t *testing.T) {
	e := guard.Event{Outcomes: []guard.Outcome{
		{Decision: core.Decision{Allowed: true}}, {Shadow: true, Decision: core.Decision{Degraded: true}},
	}}
	if e.Degraded() {
		t.Error("the event is degraded")
	}
	e.Outcomes[0].Decision.Degraded = true
	if !e.Degraded() {
		t.Error("a decision without the store is not noticed")
	}
}

func TestEventTellsWhatWasReserved(t *testing.T) {
	var events []guard.Event
	limit := ratelimit.New(core.New(core.NewMemory()), guard.Options{Observe: func(e guard.Event) { events = append(events, e) }},
		guard.Policy{
			Limit:  core.FixedWindow(100, time.Hour),
			Cost:   func(*http.Request) int { return 30 },
			Settle: guard.SettlePolicy{Cost: func(*http.Request, guard.Served) int { return 7 }},
		})
	limit(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	if len(events) != 2 || !events[1].Settled || events[1].Outcomes[0].Cost != 7 || events[1].Reserved[0].Cost != 30 || events[1].Degraded() {
		t.Errorf("%+v, want 30 reserved and 7 settled", events)
	}
}

func TestEventTellsHowLongARequestWasHeld(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		var held []time.Duration
		g := guard.Must(guard.New(core.New(core.NewMemory()),
			guard.Options{Observe: func(e guard.Event) { held = append(held, e.Held) }},
			guard.Policy{Limit: core.Shaping(5, core.Per(1, 3*time.Second))}))
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		for range 2 {
			g.Decide(request, nil)
		}
		leaving, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		g.Decide(request.WithContext(leaving), nil)
		if !slices.Equal(held, []time.Duration{0, 3 * time.Second, time.Second}) {
			t.Errorf("held for %v, want not at all, until its turn, and until it left", held)
		}
	})
}
