package core_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// deafened is a hook that loses the answers to scripts while it is on, after the server has run them.
type deafened struct{ on atomic.Bool }

func (d *deafened) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d *deafened) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && d.on.Load() && strings.HasPrefix(cmd.Name(), "eval") {
			cmd.SetErr(io.EOF)
			return io.EOF
		}
		return err
	}
}

func (d *deafened) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// The receipt of a call whose answer is lost gives its places back, all of them.
func TestPlacesOfALostAnswerAreGivenBack(t *testing.T) {
	client := redistest.Start(t).Client(t)
	hook := &deafened{}
	client.AddHook(hook)
	store := core.NewRedis(client, core.WithBudget(patient))
	l := core.Concurrent(5, time.Minute)
	for _, checks := range [][]core.Check{
		{{Key: "key", Limit: l, Cost: 3}},
		{{Key: "key", Limit: l, Cost: 1}, {Key: "key", Limit: core.Leaky(9, core.PerHour(1))}, {Key: "key", Limit: l, Cost: 2}},
	} {
		if err := store.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		take(t, store, core.Check{Key: "other", Limit: l}) // loads the script
		calls := []core.Call{{Checks: checks, Decisions: make([]core.Decision, len(checks)), Receipts: make([]core.Receipt, len(checks))}}
		hook.on.Store(true)
		_, err := store.Decide(t.Context(), calls)
		hook.on.Store(false)
		if err == nil || errors.Is(err, core.ErrNotDone) {
			t.Fatalf("%v, want an error of a call that may have been carried out", err)
		}
		if d, err := core.New(store).Peek(t.Context(), "key", l); err != nil || d.Remaining != 2 {
			t.Fatalf("%+v, %v, want 3 of 5 taken", d, err)
		}
		var settlements []core.Settlement
		for i, c := range checks {
			if c.Limit.Identity() == l.Identity() {
				settlements = append(settlements, core.Settlement{Check: c, Receipt: calls[0].Receipts[i]})
			}
		}
		if err := store.Settle(t.Context(), settlements); err != nil {
			t.Fatal(err)
		}
		if d, err := core.New(store).Peek(t.Context(), "key", l); err != nil || d.Remaining != 5 {
			t.Errorf("%+v, %v, want all 5 free", d, err)
		}
	}
}

// A server that has no memory left gives no places, but whoever has some keeps them, and gives them back.
func TestPlacesOnAFullServer(t *testing.T) {
	client := redistest.Start(t).Client(t)
	store := core.NewRedis(client, core.WithBudget(patient))
	l, checks := core.Concurrent(2000, time.Minute), []core.Check{{Key: "one"}, {Key: "many", Cost: 1200}}
	held := make([]taken, 0, len(checks))
	for _, c := range checks {
		c.Limit = l
		one, d := take(t, store, c)
		if !d.Allowed {
			t.Fatalf("%+v", d)
		}
		held = append(held, one)
	}
	began := leaseEnds(t, client)
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := core.New(store).TryAcquire(t.Context(), "another", l); err == nil {
		t.Error("a full server has granted a place")
	}
	for _, one := range held {
		list := []core.Settlement{{Check: one.check, Receipt: one.receipt, Renew: true}}
		if err := store.Settle(t.Context(), list); err != nil || list[0].Lost {
			t.Errorf("%s is not renewed: %v, lost: %v", one.check.Key, err, list[0].Lost)
		}
	}
	for member, end := range leaseEnds(t, client) {
		if end <= began[member] {
			t.Fatalf("the lease of %s ends at %.0f, as before", member, end)
		}
	}
	for _, one := range held {
		if err := store.Settle(t.Context(), []core.Settlement{{Check: one.check, Receipt: one.receipt}}); err != nil {
			t.Error(err)
		}
	}
	if left := leaseEnds(t, client); len(left) != 0 {
		t.Errorf("%d places are left", len(left))
	}
}

// leaseEnds returns when the leases of all places on a server end.
func leaseEnds(t *testing.T, client *redis.Client) map[string]float64 {
	t.Helper()
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	ends := make(map[string]float64)
	for _, key := range keys {
		members, err := client.ZRangeWithScores(t.Context(), key, 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range members {
			if m.Score > 0 { // else it is the token
				ends[fmt.Sprint(key, " ", m.Member)] = m.Score
			}
		}
	}
	return ends
}
