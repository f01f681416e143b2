package wait

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core/internal/call"
)

// When a waiter leaves, those behind it move up by a turn each, and the last turn becomes free. No waiter
// goes before a turn, each turn is held or free, and the waiters that came first go first.
func TestAnyTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { rapid.SyncTest(t, anyTurns) })
}

func anyTurns(t *rapid.T) {
	const pace = 100 * time.Millisecond
	var turns Turns
	type one struct {
		cancel context.CancelFunc
		number int // of the turn at first
		leaves bool

		ended time.Time
		got   int
		went  bool
	}
	var mu sync.Mutex
	var all []*one
	var group sync.WaitGroup
	start := time.Now()
	due := func(number int) time.Time { return start.Add(time.Duration(number) * pace) }
	waiting := func() (list []*one) {
		mu.Lock()
		defer mu.Unlock()
		for _, o := range all {
			if o.ended.IsZero() {
				list = append(list, o)
			}
		}
		return list
	}
	next := 1
	t.Repeat(map[string]func(*rapid.T){
		"come": func(t *rapid.T) {
			next = max(next, int(time.Since(start)/pace)+1)
			// Answers may overtake each other on the way.
			numbers := rapid.Permutation([]int{next, next + 1, next + 2}).Draw(t, "turns")
			next += len(numbers)
			for _, number := range numbers {
				ctx, cancel := context.WithCancel(context.Background())
				o := &one{cancel: cancel, number: number}
				all = append(all, o)
				group.Go(func() {
					freed := 0
					turn, went := turns.Wait(ctx, TurnKey{Key: "key"}, due(number), call.Receipt{At: int64(number)}, func(last call.Receipt) { freed = int(last.At) })
					got := int(turn.At)
					if !went {
						got = freed
					}
					mu.Lock()
					defer mu.Unlock()
					o.ended, o.got, o.went = time.Now(), got, went
				})
				synctest.Wait()
			}
		},
		"leave": func(t *rapid.T) {
			present := waiting()
			if len(present) == 0 {
				return
			}
			last := 0
			mu.Lock()
			held := map[int]bool{}
			for _, o := range all {
				held[o.number] = true
			}
			for _, o := range all { // whose turns have been used, or are free
				if !o.ended.IsZero() {
					delete(held, o.got)
				}
			}
			for number := range held {
				last = max(last, number)
			}
			mu.Unlock()
			o := rapid.SampledFrom(present).Draw(t, "who")
			o.leaves = true
			o.cancel()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if o.ended.IsZero() || o.went || o.got != last {
				t.Errorf("who leaves ends with turn %d, went %t, want the last one, %d, free", o.got, o.went, last)
			}
		},
		"time passes": func(t *rapid.T) {
			time.Sleep(rapid.SampledFrom([]time.Duration{1, pace / 2, pace - time.Microsecond, pace, 3 * pace}).Draw(t, "time"))
			synctest.Wait()
		},
	})
	group.Wait()
	synctest.Wait()
	if n := turns.Len(); n != 0 {
		t.Errorf("%d lines are left", n)
	}
	var got []int
	for _, o := range all {
		o.cancel()
		got = append(got, o.got)
		if o.went == o.leaves {
			t.Errorf("who had turn %d at first: left %t, went %t", o.number, o.leaves, o.went)
		}
		if o.went && !o.ended.Equal(due(o.got)) {
			t.Errorf("turn %d is due at %v, and went at %v", o.got, due(o.got), o.ended)
		}
		if o.went && o.got > o.number {
			t.Errorf("who had turn %d at first went with turn %d", o.number, o.got)
		}
	}
	slices.Sort(got)
	if len(slices.Compact(got)) != len(all) {
		t.Errorf("turns %v for %d who waited", got, len(all))
	}
	for _, a := range all {
		for _, b := range all {
			if a.went && b.went && a.number < b.number && a.got > b.got {
				t.Errorf("who had turn %d at first went with %d, and who had %d with %d", a.number, a.got, b.number, b.got)
			}
		}
	}
}

// A turn that comes at the moment at which its waiter leaves has come.
func TestTurnInTheMomentOfLeaving(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		for range 50 {
			var turns Turns
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, went := turns.Wait(ctx, TurnKey{Key: "key"}, time.Now().Add(time.Second), call.Receipt{}, func(call.Receipt) {}); !went {
				t.Error("left, though the turn had come")
			}
			cancel()
			synctest.Wait()
			if turns.Len() != 0 {
				t.Error("a line is left")
			}
		}
	})
}
