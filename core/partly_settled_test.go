package core_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// half is a store that settles every other settlement, and says so.
type half struct{ core.Store }

func (s half) Settle(ctx context.Context, settlements []core.Settlement) error {
	var done []core.Settlement
	var undone []int
	for i, one := range settlements {
		if i%2 == 0 {
			done = append(done, one)
		} else {
			undone = append(undone, i)
		}
	}
	if err := s.Store.Settle(ctx, done); err != nil || len(undone) == 0 {
		return err
	}
	return &core.PartlySettledError{NotDone: undone, Err: errors.New("one server is away")}
}

// What a store of one's own has not settled is settled by trying again, and nothing is settled twice.
func TestWhatAStoreHasSettledInPartIsTriedAgain(t *testing.T) {
	limits := []core.Quota{core.FixedWindow(100, time.Hour).Named("a"), core.FixedWindow(100, time.Hour).Named("b"), core.FixedWindow(100, time.Hour).Named("c")}
	var checks []core.Check
	for _, limit := range limits {
		checks = append(checks, core.Check{Key: "key", Limit: limit, Cost: 10})
	}
	remaining := func(l *core.Limiter) (left []int) {
		decisions, err := l.PeekAll(t.Context(), checks...)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range decisions {
			left = append(left, d.Remaining)
		}
		return left
	}
	for name, settle := range map[string]func(*core.Reservation) error{
		"by the caller": func(r *core.Reservation) error {
			err := r.Settle(t.Context(), 1, 2, 3)
			if partly, ok := errors.AsType[*core.PartlySettledError](err); !ok || !slices.Equal(partly.NotDone, []int{1}) {
				t.Errorf("%v, want the second not to be settled", err)
			}
			for i, want := range []int{99, 90, 97} {
				if d := r.Decisions()[i]; d.Remaining != want {
					t.Errorf("told that %d are left of check %d, want %d", d.Remaining, i, want)
				}
			}
			return r.Settle(t.Context(), 1, 2, 3)
		},
		"in the background": func(r *core.Reservation) error { return r.SettleLater(1, 2, 3) },
	} {
		limiter := core.New(half{core.NewMemory()})
		r, err := limiter.Reserve(t.Context(), checks...)
		if err != nil {
			t.Fatal(err)
		}
		if err := settle(r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for deadline := time.Now().Add(time.Minute); !slices.Equal(remaining(limiter), []int{99, 98, 97}); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v remain", name, remaining(limiter))
			}
		}
		if err := limiter.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
