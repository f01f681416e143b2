package guardtest

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/keyfuncs"
)

var placeOnceCases = []testCase{
	{"a place is held until the handler has returned, and given back once, whatever becomes of the request", testReleasedOnce},
}

// releases is a store that counts how often each place was given back.
type releases struct {
	core.Store

	mu       sync.Mutex
	released map[placeTaken]int
}

// placeTaken tells places apart: those of a call and its shadow have one receipt.
type placeTaken struct {
	receipt core.Receipt
	shadow  bool
}

func newReleases() *releases {
	return &releases{Store: core.NewMemory(), released: make(map[placeTaken]int)}
}

func (s *releases) Settle(ctx context.Context, list []core.Settlement) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range list {
		if x := &list[i]; !x.Renew && x.Check.Limit.Algorithm() == desk(1).Algorithm() {
			s.released[placeTaken{x.Receipt, x.Check.Shadow}]++
		}
	}
	return s.Store.Settle(ctx, list)
}

// told returns how many places were given back, and an error if one of them was more than once.
func (s *releases) told() (places int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for place, times := range s.released {
		if times != 1 {
			err = fmt.Errorf("place %v was given back %d times", place, times)
		}
	}
	return len(s.released), err
}

// await returns when the given number of places was given back.
func (s *releases) await(t fataler, want int) {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		places, err := s.told()
		if err != nil {
			t.Fatalf("%v", err)
		}
		if places == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d places were given back, want %d", places, want)
		}
	}
}

func testReleasedOnce(t *testing.T, s *suite) {
	s.needScenes(t)
	var all []*releases
	rapid.Check(t, func(t *rapid.T) {
		act := rapid.SampledFrom(acts).Draw(t, "act")
		early := rapid.Bool().Draw(t, "early")
		var ran, tooSoon atomic.Int64
		of := scene{
			outside:  rapid.SampledFrom([]Outside{Nothing, Swallows, Answers, AnswersRaw, Recovers}).Draw(t, "outside"),
			restores: rapid.Bool().Draw(t, "restores"),
			raw:      act.raw,
			error:    rapid.SampledFrom([]int{0, http.StatusUnauthorized, http.StatusBadGateway}).Draw(t, "error"),
			handler: func(w http.ResponseWriter, r *http.Request) {
				ran.Add(1)
				permit := guard.PermitFrom(r.Context())
				defer func() { // also after a panic
					if !early && permit.Err() != nil {
						tooSoon.Add(1)
					}
				}()
				if early {
					permit.Release()
				}
				act.do(w, r)
			},
		}
		policies, want := []guard.Policy{deskPolicy(2)}, 1
		if rapid.Bool().Draw(t, "settles") {
			policies = append(policies, guard.Policy{Limit: hundred(), By: keyfuncs.Global, Settle: guard.SettlePolicy{Cost: func(*http.Request, guard.Served) int { return 0 }}})
		}
		if rapid.Bool().Draw(t, "shadow") {
			shadow := deskPolicy(2)
			shadow.Shadow = true
			policies, want = append(policies, shadow), 2
		}
		limiters := rapid.IntRange(1, 2).Draw(t, "limiters")
		for range limiters {
			store := newReleases()
			of.limiters = append(of.limiters, s.new(core.New(store), guard.Options{}, policies...))
			all = append(all, store)
		}
		t.Logf("the handler %s", act.name)
		_, _ = s.visitScene(of)
		for _, store := range all[len(all)-limiters:] {
			store.await(t, want)
		}
		if ran.Load() != 1 || tooSoon.Load() != 0 {
			t.Errorf("the handler ran %d times, and its place was given back %d times before it had returned", ran.Load(), tooSoon.Load())
		}
	})
	for _, store := range all { // a second one would have had all this time
		if _, err := store.told(); err != nil {
			t.Error(err)
		}
	}
}
