package wait

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"
)

// A grant that comes too late for its waiter is given back.
func TestGrantThatComesTooLateIsGivenBack(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		b := &bucket{capacity: 10, drip: time.Hour, trip: time.Second, due: time.Minute, last: time.Now()}
		queues := b.queues(1000)
		wait := func(d time.Duration) error {
			_, err := queues.Wait(t.Context(), want(1), time.Now().Add(d))
			return err
		}
		try := func() error {
			_, err := queues.Try(t.Context(), want(1))
			return err
		}
		var late *denied
		if err := wait(30 * time.Second); !errors.As(err, &late) { // asked for by itself
			t.Errorf("a lone waiter: %v", err)
		}
		if err := try(); !errors.As(err, &late) {
			t.Errorf("a Try: %v", err)
		}
		errs := make(chan error, 3)
		for _, patience := range []time.Duration{time.Hour, 30 * time.Second, time.Hour} { // the last two are asked for together
			go func() { errs <- wait(patience) }()
			synctest.Wait()
		}
		denials := 0
		for range cap(errs) {
			if errors.As(<-errs, &late) {
				denials++
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if denials != 1 || b.granted != 2 {
			t.Errorf("%d were denied and %d units are held, want 1 and 2", denials, b.granted)
		}
	})
}

// No waiter joins a queue that has been forgotten: its key may have a new one.
func TestForgottenQueueIsNotJoined(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		b := &bucket{capacity: 10, drip: time.Hour, last: time.Now()}
		queues := b.queues(1000)
		forgotten := queues.queueOf(QueueKey{Key: "key"})
		if _, err := queues.Wait(t.Context(), want(1), time.Time{}); err != nil {
			t.Fatal(err)
		}
		w := &queued{place: absent, told: make(chan outcome, 1)}
		if joined, _, _ := forgotten.join(w); joined {
			t.Error("joined a queue that has been forgotten")
		}
	})
}

// A waiter whose request can never be granted is told so when it is the first. All others end with
// their contexts.
func TestEverybodyEndsBehindOneWhoIsNeverGranted(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		b := &bucket{capacity: 1, drip: 10 * time.Second, trip: time.Second, last: time.Now()}
		queues := b.queues(1000)
		ask := queues.Ask
		queues.Ask = func(ctx context.Context, requests []Request) Answer {
			a := ask(ctx, requests)
			a.Never = a.Err == nil && len(a.Grants) < len(requests) && requests[len(a.Grants)].Cost > b.capacity
			return a
		}
		ended := make(chan error, 20)
		never := make(chan error, 1)
		for i := range cap(ended) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			go func() {
				_, err := queues.Wait(ctx, want(1+i%2), time.Time{})
				ended <- err
				if i == 1 {
					never <- err
				}
			}()
			synctest.Wait()
		}
		var late *denied
		if err := <-never; !errors.As(err, &late) {
			t.Errorf("a request that can never be granted: %v", err)
		}
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if len(ended) != cap(ended) || queues.Len() != 0 {
			t.Errorf("%d of %d have ended a moment after their contexts, and %d queues are left", len(ended), cap(ended), queues.Len())
		}
	})
}

// asks are the waits of a test. Each ends with an error or nil.
type asks struct {
	queues *Queues
	errs   []chan error
}

func (a *asks) wait(ctx context.Context, cost int) {
	ended := make(chan error, 1)
	a.errs = append(a.errs, ended)
	go func() {
		grant, err := a.queues.Wait(ctx, want(cost), time.Time{})
		if err == nil && grant.Units() != cost {
			err = fmt.Errorf("granted %d, wanted %d", grant.Units(), cost)
		}
		ended <- err
	}()
	synctest.Wait()
}

// All waiters whose requests were in an Ask that fails get its error.
func TestAFailureIsForAllWhoWereAskedFor(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		b := &bucket{capacity: 10, drip: time.Hour, trip: time.Second, last: time.Now()}
		a := &asks{queues: b.queues(1000)}
		for range 5 {
			a.wait(t.Context(), 1)
		}
		time.Sleep(time.Second + time.Millisecond) // the first is granted, and the others are asked for
		b.mu.Lock()
		b.failing = errors.New("down")
		b.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		for i, ended := range a.errs {
			select {
			case err := <-ended:
				if (err == nil) != (i == 0) {
					t.Errorf("waiter %d: %v", i, err)
				}
			default:
				t.Errorf("waiter %d has not been told", i)
				b.mu.Lock()
				b.failing = nil
				b.mu.Unlock()
			}
		}
	})
}

// The grant of a waiter that has left does not pass a waiter whose request it does not fit.
func TestNobodyIsOvertakenByWhomAGrantFits(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		b := &bucket{capacity: 2, drip: time.Hour, trip: time.Second, last: time.Now()}
		a := &asks{queues: b.queues(1000)}
		leaves, leave := context.WithCancel(t.Context())
		a.wait(t.Context(), 1)
		a.wait(leaves, 1)
		a.wait(t.Context(), 2)
		a.wait(t.Context(), 1)
		time.Sleep(time.Second + time.Millisecond)
		leave() // while the last three are asked for, for whom there is room for one
		if err := <-a.errs[1]; err == nil {
			t.Error("the waiter that has left got a grant")
		}
		if err := <-a.errs[2]; err != nil {
			t.Error(err)
		}
		select {
		case err := <-a.errs[3]:
			t.Errorf("the last waiter has overtaken one that wants more: %v", err)
		default:
		}
		if err := <-a.errs[3]; err != nil {
			t.Error(err)
		}
	})
}

// When the first waiter leaves, the next one does not wait for the time of the first one's grant.
func TestWhoMovesUpWaitsForThemselvesOnly(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		b := &bucket{capacity: 3, drip: time.Hour, level: 3 * time.Hour, last: time.Now()}
		a := &asks{queues: b.queues(1000)}
		leaves, leave := context.WithCancel(t.Context())
		start := time.Now()
		a.wait(leaves, 3)
		a.wait(t.Context(), 1)
		time.Sleep(90 * time.Minute)
		leave()
		if err := <-a.errs[1]; err != nil || time.Since(start) != 90*time.Minute {
			t.Errorf("the second went after %v: %v", time.Since(start), err)
		}
	})
}

// A waiter is denied as soon as an answer says that its grant would come too late.
func TestWhoWillBeTooLateIsToldAtOnce(t *testing.T) {
	t.Run("by their place", func(t *testing.T) {
		bubbletest.Run(t, func(t *testing.T) {
			b := &bucket{capacity: 1, drip: time.Hour, trip: time.Second, last: time.Now()}
			queues := b.queues(1000)
			start := time.Now()
			ended := make(chan error, 1)
			for i := range 3 { // they come before anything is known: at once, in an hour and in two hours
				until := time.Time{}
				if i == 2 {
					until = start.Add(90 * time.Minute)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
				defer cancel()
				go func() {
					if _, err := queues.Wait(ctx, want(1), until); i == 2 {
						ended <- err
					}
				}()
				synctest.Wait()
			}
			var late *denied
			if err := <-ended; !errors.As(err, &late) || time.Since(start) > time.Minute {
				t.Errorf("told after %v: %v", time.Since(start), err)
			}
		})
	})
	t.Run("since others took what there was", func(t *testing.T) {
		bubbletest.Run(t, func(t *testing.T) {
			b := &bucket{capacity: 5, drip: time.Minute, level: 5 * time.Minute, trip: time.Second, last: time.Now()}
			queues := b.queues(1000)
			queues.Takes = func(*Request) time.Duration { return 0 } // as of a window
			start := time.Now()
			ended := make(chan error, 1)
			for i, until := range []time.Time{{}, start.Add(2 * time.Minute)} {
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
				defer cancel()
				go func() {
					if _, err := queues.Wait(ctx, want(1), until); i == 1 {
						ended <- err
					}
				}()
				time.Sleep(2 * time.Second)
			}
			b.mu.Lock()
			b.level = 5*time.Minute + 10*time.Minute // what others have taken in the meantime
			b.mu.Unlock()
			var late *denied
			if err := <-ended; !errors.As(err, &late) || time.Since(start) > 70*time.Second {
				t.Errorf("told after %v: %v", time.Since(start), err)
			}
		})
	})
}

// The answer decides about a waiter whose time is up while its request is in flight.
func TestAnAnswerThatIsUnderWayDecides(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		b := &bucket{capacity: 10, drip: time.Hour, trip: time.Second, last: time.Now()}
		a := &asks{queues: b.queues(1000)}
		start := time.Now()
		a.wait(t.Context(), 1) // asked for by itself, for a second
		_, err := a.queues.Wait(t.Context(), want(1), start.Add(1500*time.Millisecond))
		if err != nil || time.Since(start) != 2*time.Second {
			t.Errorf("told after %v: %v", time.Since(start), err)
		}
	})
}

// A Try takes nothing from a waiter that wants more, even while that waiter's request is in flight.
func TestWhoDoesNotWaitDoesNotOvertake(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		b := &bucket{capacity: 3, drip: time.Hour, level: 3 * time.Hour, trip: time.Second, last: time.Now()}
		a := &asks{queues: b.queues(1000)}
		start := time.Now()
		a.wait(t.Context(), 3)
		var late *denied
		for _, at := range []time.Duration{90 * time.Minute, 3*time.Hour + time.Millisecond, 3*time.Hour + time.Second/2} {
			time.Sleep(at - time.Since(start))
			if _, err := a.queues.Try(t.Context(), want(1)); !errors.As(err, &late) {
				t.Errorf("a Try: %v after %v", err, at)
			}
		}
		if err := <-a.errs[0]; err != nil || time.Since(start) > 3*time.Hour+2*time.Second {
			t.Errorf("the waiter: %v after %v", err, time.Since(start))
		}
	})
}
