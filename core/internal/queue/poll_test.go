package queue

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// No waiter is denied before its time is up: a place may be free at any moment. Then it is denied at
// once, and not by the next answer only.
func TestWhoWaitsForAPlaceIsDeniedOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := full(1)
		c.wait(t.Context(), "ann", 10*time.Second)
		time.Sleep(2 * time.Second)
		c.wait(t.Context(), "bob", 3*time.Second) // who comes while the queue rests
		c.wait(t.Context(), "cy", 0)
		c.want(t)
		time.Sleep(4 * time.Second)
		c.want(t, "bob denied after 5s")
		time.Sleep(10 * time.Second)
		c.want(t, "ann denied after 10s")
		p.releaseOne()
		c.queues.Wake("key")
		time.Sleep(2 * time.Second)
		c.want(t, "cy granted after 17s")
	})
}

// While a request is in flight, its answer decides about all whose time is up: also about those that it
// does not ask for.
func TestAnswerDecidesAboutWhoseTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := full(1)
		c.wait(t.Context(), "ann", time.Second/2)
		c.wait(t.Context(), "bob", 10*time.Second+time.Second/2)
		c.wait(t.Context(), "cy", time.Second/2) // behind ann, who is asked for alone
		time.Sleep(2 * time.Second)
		c.want(t, "ann denied after 1s", "cy denied after 1s")
		time.Sleep(8 * time.Second)
		p.releaseOne()
		c.queues.Wake("key")
		time.Sleep(2 * time.Second)
		c.want(t, "bob granted after 11s")
	})
}

// A Try takes no place that a waiter waits for, whatever the waiter is doing just then.
func TestTryDoesNotOvertakeWhoWaitsForAPlace(t *testing.T) {
	t.Run("while the queue rests", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, c := full(1)
			leaves, leave := context.WithCancel(t.Context())
			c.wait(leaves, "ann", 0)
			c.wait(t.Context(), "bob", 0)
			time.Sleep(2 * time.Second)
			p.releaseOne() // without a Wake
			c.try(t.Context(), "tom")
			leave() // bob moves up, and nothing is known about him alone
			synctest.Wait()
			c.try(t.Context(), "tim")
			c.want(t, "ann context canceled after 2s", "tim denied after 2s", "tom denied after 2s")
			c.queues.Wake("key")
			time.Sleep(2 * time.Second)
			c.want(t, "bob granted after 3s")
		})
	})
	t.Run("while the first request is in flight", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, c := full(1)
			c.wait(t.Context(), "ann", 0)
			time.Sleep(600 * time.Millisecond) // ann is denied, but nobody knows
			p.releaseOne()
			c.try(t.Context(), "tom")
			time.Sleep(time.Minute)
			c.want(t, "tom denied after 1s")
			c.queues.Wake("key")
			time.Sleep(2 * time.Second)
			c.want(t, "ann granted after 1m1.6s")
		})
	})
	t.Run("but is granted behind who is granted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, c := full(2)
			p.releaseOne()
			p.releaseOne()
			c.wait(t.Context(), "ann", 0)
			c.try(t.Context(), "tom")
			time.Sleep(time.Minute)
			c.want(t, "ann granted after 1s", "tom granted after 2s")
			c.try(t.Context(), "tim") // alone
			time.Sleep(time.Minute)
			c.want(t, "tim denied after 1m1s")
		})
	})
}

// A waiter that has left leaves no trace: no place, no queue, and no wait of others.
func TestWhoLeavesAQueueForPlacesLeavesNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := full(1)
		leaves, leave := context.WithCancel(t.Context())
		c.wait(t.Context(), "ann", 0)
		c.wait(leaves, "bob", 0)
		c.wait(t.Context(), "cy", 0)
		time.Sleep(10 * time.Second)
		p.releaseOne()
		c.queues.Wake("key")
		time.Sleep(2 * time.Second)
		c.want(t, "ann granted after 11s")
		p.releaseOne()
		c.queues.Wake("key")
		time.Sleep(700 * time.Millisecond)
		leave() // has been granted a place, but does not know; cy gets it
		time.Sleep(2 * time.Second)
		c.want(t, "bob context canceled after 12.7s", "cy granted after 13s")
		for _, g := range slices.Clone(p.grants) {
			p.release(g)
		}
		if p.held != 0 || c.queues.Len() != 0 {
			t.Errorf("%d places are held, and %d queues are left", p.held, c.queues.Len())
		}
	})
}

// A place that was granted to a waiter that has left is given back, and the next waiter is asked for at
// once, without a Wake.
func TestGrantThatIsGivenBackIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := full(2)
		p.returned = func() {}
		p.trip = 0 // nothing is in flight for long, so that what is given back is free at once
		ask := c.queues.Ask
		c.queues.Ask = func(ctx context.Context, requests []want) Answer[*unit, time.Duration] {
			a := ask(ctx, requests)
			time.Sleep(time.Second)
			return a
		}
		c.queues.Return = func(grants []*unit) { p.release(grants...) }
		leaves, leave := context.WithCancel(t.Context())
		c.wait(t.Context(), "ann", 0)
		go func() { // for both places
			grant, err := c.queues.Wait(leaves, "key", want{2}, time.Time{})
			c.end("bob", grant, err)
		}()
		synctest.Wait()
		c.wait(t.Context(), "cy", 0)
		time.Sleep(10 * time.Second)
		p.releaseOne()
		c.queues.Wake("key")
		time.Sleep(10 * time.Second)
		c.want(t, "ann granted after 11s")
		p.releaseOne()
		p.releaseOne()
		c.queues.Wake("key")
		time.Sleep(500 * time.Millisecond)
		leave()
		time.Sleep(10 * time.Second)
		c.want(t, "bob context canceled after 20.5s", "cy granted after 22s")
	})
}

// So is a place that is granted in the moment in which its waiter leaves.
func TestGrantInTheMomentOfLeavingIsAskedForAgain(t *testing.T) {
	for range 50 { // in any order within that moment
		synctest.Test(t, func(t *testing.T) {
			p, c := full(1)
			leaves, leave := context.WithCancel(t.Context())
			c.queues.Ask = func(_ context.Context, requests []want) (a Answer[*unit, time.Duration]) {
				if a.Grants = p.take(requests); len(a.Grants) > 0 {
					leave()
				}
				if len(a.Grants) < len(requests) {
					a.Again = time.Now().Add(p.upTo)
				}
				return a
			}
			c.queues.Return = func(grants []*unit) { p.release(grants...) }
			c.wait(leaves, "ann", 0)
			c.wait(t.Context(), "bob", 0)
			time.Sleep(10 * time.Second)
			p.releaseOne()
			c.queues.Wake("key")
			c.want(t, "ann context canceled after 10s", "bob granted after 10s")
			for range 2 { // after a failure, so that the bubble ends
				p.release(slices.Clone(p.grants)...)
				c.queues.Wake("key")
				synctest.Wait()
			}
		})
	}
}

// While no Wake comes, the queue polls: further and further apart, but no later than Again. A grant or a
// Wake starts over.
func TestPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := full(1)
		p.trip, p.upTo = 0, 8*time.Second
		c.queues.Poll = func(attempt int) time.Duration { return time.Second << attempt }
		var wants []time.Duration
		want := func(seconds ...int) {
			for _, s := range seconds {
				wants = append(wants, time.Duration(s)*time.Second)
			}
			synctest.Wait()
			var got []time.Duration
			for _, a := range p.asked {
				got = append(got, a.at.Sub(c.start))
			}
			if !slices.Equal(got, wants) {
				t.Errorf("asked at %v, want %v", got, wants)
			}
		}
		for _, name := range []string{"ann", "bob", "cy"} {
			c.wait(t.Context(), name, 0)
		}
		time.Sleep(24 * time.Second)
		want(0, 1, 3, 7, 15, 23)
		c.queues.Wake("key")
		time.Sleep(4 * time.Second)
		want(24, 25, 27)
		p.releaseOne() // by another process
		time.Sleep(7 * time.Second)
		want(31, 32, 34)
		c.want(t, "ann granted after 31s")
		p.releaseOne()
		c.queues.Wake("key")
		want(35)
		c.want(t, "bob granted after 35s")
		p.releaseOne()
		time.Sleep(time.Second)
		want(36)
		c.want(t, "cy granted after 36s")
	})
}

// An answer with Next and Again, of a limit with both places and a rate, is a bound until Next has passed.
func TestNextCountsBeforeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := full(1)
		p.trip = 0
		c.queues.Poll = func(int) time.Duration { return time.Second }
		var next atomic.Int64 // after the start
		next.Store(int64(time.Hour))
		ask := c.queues.Ask
		c.queues.Ask = func(ctx context.Context, requests []want) Answer[*unit, time.Duration] {
			a := ask(ctx, requests)
			if len(a.Grants) == 0 {
				a.Next = c.start.Add(time.Duration(next.Load()))
			}
			return a
		}
		var late *denied
		c.wait(t.Context(), "ann", 0)
		c.wait(t.Context(), "bob", 2*time.Hour)
		if _, err := c.queues.Wait(t.Context(), "key", want{1}, c.start.Add(time.Minute)); !errors.As(err, &late) || time.Since(c.start) != 0 {
			t.Errorf("who cannot have a place before Next was told after %v: %v", time.Since(c.start), err)
		}
		time.Sleep(time.Hour - 1)
		c.queues.Wake("key")
		synctest.Wait()
		if n := p.asks(); n != 1 {
			t.Errorf("asked %d times before Next, want once", n)
		}
		time.Sleep(time.Second)
		p.releaseOne()
		time.Sleep(2 * time.Second)
		c.want(t, "ann granted after 1h0m1s")
		next.Store(int64(3 * time.Hour)) // which is too late for bob, who is told by the next poll
		time.Sleep(time.Hour)
		c.want(t, "bob denied until 3h0m0s after 1h0m3s")
	})
}

// A thousand waiters for three places are served in order, each after a release, and none is left.
func TestCrowdForPlacesIsServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := full(3)
		p.trip = time.Millisecond
		const crowd = 1000
		for i := range crowd {
			c.wait(t.Context(), strconv.Itoa(i), 0)
		}
		for released := 0; released < crowd && time.Since(c.start) < time.Minute; {
			if p.releaseOne() {
				c.queues.Wake("key")
				released++
			}
			time.Sleep(time.Millisecond / 3) // shorter than an ask
			synctest.Wait()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(c.ended) != crowd || c.queues.Len() != 0 || p.most > 3 || p.held != 3 {
			t.Fatalf("%d ended, %d queues are left, %d places were held at once, %d at last",
				len(c.ended), c.queues.Len(), p.most, p.held)
		}
		after := make(map[string]time.Duration, crowd)
		for _, e := range c.ended {
			if after[e.name] = e.after; e.err != nil {
				t.Errorf("waiter %s: %v", e.name, e.err)
			}
		}
		for i := range crowd - 1 {
			if first, second := after[strconv.Itoa(i)], after[strconv.Itoa(i+1)]; first > second {
				t.Errorf("waiter %d was served after %v, and the one behind after %v", i, first, second)
			}
		}
		if last := after[strconv.Itoa(crowd-1)]; last > crowd*time.Millisecond {
			t.Errorf("served after %v, want a round trip each at most", last)
		}
	})
}
