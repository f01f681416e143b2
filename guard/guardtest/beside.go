package guardtest

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var besideCases = []testCase{
	{"a response does not wait for its settlement, unless a policy says so or a ban strikes", testSettledBeside},
	{"a client that comes back with its answer in hand finds what was given back", testSequentialClient},
	{"Settle.First without Settle.Cost is an error at start-up", testSettleFirstWithoutCost},
}

// held is a store that holds settlements until it is told to go on.
type held struct {
	core.Store

	proceed chan struct{}
	asked   atomic.Int64
	wanted  atomic.Int64 // settlements that ask for the remaining units
	settled atomic.Int64
}

func (s *held) Settle(ctx context.Context, list []core.Settlement) error {
	s.asked.Add(1)
	for i := range list {
		if list[i].Decision != nil {
			s.wanted.Add(1)
		}
	}
	<-s.proceed
	err := s.Store.Settle(ctx, list)
	s.settled.Add(1)
	return err
}

func testSettledBeside(t *testing.T, s *suite) {
	for name, c := range map[string]struct {
		policies []guard.Policy
		settle   bool // the handler calls Settle
		waits    bool
	}{
		"Settle":              {policies: []guard.Policy{{Limit: hundred(), By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: says(7)}}}},
		"a place":             {policies: []guard.Policy{deskPolicy(2)}},
		"a place and Settle":  {policies: []guard.Policy{deskPolicy(2), {Limit: hundred(), By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: says(0)}}}},
		"Settle.First":        {policies: []guard.Policy{{Limit: hundred(), By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: says(7), First: true}}}, waits: true},
		"one of several":      {policies: []guard.Policy{{Limit: ten(), Settle: guard.SettlePolicy{Cost: says(0)}}, {Limit: hundred(), Settle: guard.SettlePolicy{Cost: says(7), First: true}}}, waits: true},
		"a strike":            {policies: []guard.Policy{{Ban: guard.BanPolicy{Ban: brute(), Strike: says(1)}, By: keyfuncs.User(func(*http.Request) string { return "alice" })}}, waits: true},
		"a ban and no strike": {policies: []guard.Policy{{Limit: hundred(), Settle: guard.SettlePolicy{Cost: says(7)}}, {Ban: guard.BanPolicy{Ban: brute(), Strike: says(0)}, By: keyfuncs.Global}}},
		"a handler that asks": {policies: []guard.Policy{{Limit: hundred(), By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: says(7)}}}, settle: true, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			store := &held{Store: core.NewMemory(), proceed: make(chan struct{})}
			limiter := core.New(store)
			events := make(chan guard.Event, 10)
			h := s.serve(site{
				around: []middleware{s.new(limiter, guard.Options{Observe: func(e guard.Event) { events <- e }}, c.policies...)},
				handler: func(w http.ResponseWriter, r *http.Request) {
					if c.settle {
						guard.Settle(r.Context())
					}
					_, _ = io.WriteString(w, "served")
				},
			})
			server := listen(t, h)
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				response, err := http.Get(server.URL + "/")
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
				if waited := store.settled.Load() > 0; waited != c.waits {
					t.Errorf("answered when it was settled: %t, want %t", waited, c.waits)
				}
			}()
			if c.waits {
				for deadline := time.Now().Add(20 * time.Second); store.asked.Load() == 0 && time.Now().Before(deadline); {
					time.Sleep(time.Millisecond)
				}
				select {
				case <-answered:
					t.Error("answered before it was settled")
				default:
				}
				close(store.proceed)
				<-answered
			} else {
				<-answered
				if len(events) != 1 {
					t.Errorf("%d events before it is settled", len(events))
				}
				close(store.proceed)
			}
			if err := limiter.Close(); err != nil || store.settled.Load() != 1 {
				t.Errorf("%d settlements when the limiter is closed, %v", store.settled.Load(), err)
			}
			if wants := store.wanted.Load() > 0; wants != c.waits {
				t.Errorf("wants to know what is left: %t, want %t", wants, c.waits)
			}
			if first := <-events; first.Settled {
				t.Errorf("first observed: %+v", first)
			}
			if c.policies[len(c.policies)-1].Settle.Cost != nil {
				if second := <-events; !second.Settled || second.Err != nil || second.Request.URL.Path != "/" {
					t.Errorf("then observed: %+v", second)
				}
			}
		})
	}
}

func testSequentialClient(t *testing.T, s *suite) {
	stores := map[string]func() *core.Limiter{"memory": func() *core.Limiter { return core.New(core.NewMemory()) }}
	if s.redis != nil {
		client := redisClient(t, s.startRedis(t))
		stores["Redis"] = func() *core.Limiter { return core.New(core.NewRedis(client, core.WithBudget(10*time.Second))) }
	}
	for store, open := range stores {
		for name, policy := range map[string]guard.Policy{
			"a place":             deskPolicy(1),
			"what was not needed": {Limit: core.FixedWindow(1, time.Hour).Named("back"), By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: says(0)}},
			"of a sliding log":    {Limit: core.SlidingLog(1, time.Hour).Named("log"), By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: says(0)}},
		} {
			limiter := open()
			_ = limiter.Reset(t.Context(), globalKey, policy.Limit)
			site := listen(t, s.serve(site{
				around:  []middleware{s.new(limiter, guard.Options{}, policy)},
				handler: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") },
			}))
			denied := 0
			for range 500 {
				response, err := site.Client().Get(site.URL + "/")
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
				if response.StatusCode != http.StatusOK {
					denied++
				}
			}
			if denied > 0 {
				t.Errorf("%s, %s: %d of 500 are denied", store, name, denied)
			}
			site.Close()
			_ = limiter.Close()
		}
	}
}

func testSettleFirstWithoutCost(t *testing.T, _ *suite) {
	if _, err := guard.New(core.New(core.NewMemory()), guard.Options{}, guard.Policy{Limit: ten(), Settle: guard.SettlePolicy{First: true}}); err == nil {
		t.Error("is none")
	}
}
