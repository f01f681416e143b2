package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// places are a limit on how many hold a place at once, at the end of a slow connection.
type places struct {
	n        int
	trip     time.Duration // there and back
	upTo     time.Duration // Again is this long after a denial
	returned func()        // what the store's client calls when a place that was given back is free

	mu     sync.Mutex
	held   int
	most   int // held at once
	grants []*unit
	asked  []ask
	ends   []time.Time // of all asks
}

func (p *places) ask(ctx context.Context, requests []want) (a Answer[*unit, time.Duration]) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ends = append(p.ends, time.Now())
	}()
	select {
	case <-time.After(p.trip / 2):
	case <-ctx.Done():
		return Answer[*unit, time.Duration]{Err: ctx.Err()}
	}
	a.Grants = p.take(requests)
	denied := len(a.Grants) < len(requests)
	select {
	case <-time.After(p.trip / 2):
	case <-ctx.Done():
		p.release(a.Grants...)
		return Answer[*unit, time.Duration]{Err: ctx.Err()}
	}
	if denied {
		a.Latest, a.Again = p.upTo, time.Now().Add(p.upTo)
	}
	return a
}

// take takes places for requests, in order, until one does not fit.
func (p *places) take(requests []want) (grants []*unit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range requests {
		if p.held+q.cost > p.n {
			break
		}
		p.held += q.cost
		grants = append(grants, &unit{cost: q.cost})
	}
	p.most = max(p.most, p.held)
	p.grants = append(p.grants, grants...)
	p.asked = append(p.asked, ask{time.Now(), len(requests), len(grants)})
	return grants
}

// release gives places back at once, as another process does: no queue is woken.
func (p *places) release(grants ...*unit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range grants {
		p.held -= g.cost
		p.grants = slices.DeleteFunc(p.grants, func(other *unit) bool { return other == g })
	}
}

// giveBack gives places back after half a round trip, and then tells who waits.
func (p *places) giveBack(grants []*unit) {
	time.AfterFunc(p.trip/2, func() {
		p.release(grants...)
		if p.returned != nil {
			p.returned()
		}
	})
}

// asks returns how many requests the store has got.
func (p *places) asks() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

func (p *places) queues() *Queues[string, want, *unit, time.Duration] {
	queues := New(Config[string, want, *unit, time.Duration]{
		Ask:      p.ask,
		Return:   p.giveBack,
		Together: func(a, c want) bool { return true },
		Alike:    func(a, c want) bool { return a == c },
		Fits:     func(g *unit, q want) bool { return g.cost == q.cost },
		Late:     func(*unit, time.Time) bool { return false },
		Takes:    func(want) time.Duration { return 0 },
		Deny:     func(_ want, _ time.Duration, at time.Time, _ **unit) error { return &denied{at} },
		GaveUp:   func(ctx context.Context) error { return ctx.Err() },
		Most:     1000,
		Poll:     func(int) time.Duration { return 24 * time.Hour },
	})
	p.returned = func() { queues.Wake("key") }
	return queues
}

// crowd are the waiters of a test, for one place each.
type crowd struct {
	queues *Queues[string, want, *unit, time.Duration]
	start  time.Time

	mu    sync.Mutex
	ended []ended // in this order
}

// ended is the end of a wait.
type ended struct {
	name  string
	after time.Duration
	grant *unit
	err   error
}

// wait adds a waiter, with a bound unless patience is 0.
func (c *crowd) wait(ctx context.Context, name string, patience time.Duration) {
	until := time.Time{}
	if patience > 0 {
		until = time.Now().Add(patience)
	}
	go func() {
		grant, err := c.queues.Wait(ctx, "key", want{1}, until)
		c.end(name, grant, err)
	}()
	synctest.Wait()
}

func (c *crowd) try(ctx context.Context, name string) {
	go func() {
		grant, err := c.queues.Try(ctx, "key", want{1})
		c.end(name, grant, err)
	}()
	synctest.Wait()
}

func (c *crowd) end(name string, grant *unit, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = append(c.ended, ended{name, time.Since(c.start), grant, err})
}

// want fails unless exactly these waits have ended since the last call, such as "ann granted after 1s".
// Who is told when to come back is "denied until 1h0m0s after 1s".
func (c *crowd) want(t *testing.T, wants ...string) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortStableFunc(c.ended, func(a, b ended) int { // goroutines end in any order at one instant
		return cmp.Or(cmp.Compare(a.after, b.after), cmp.Compare(a.name, b.name))
	})
	var got []string
	for _, e := range c.ended {
		how := "granted"
		if late, is := errors.AsType[*denied](e.err); is {
			how = "denied"
			if !late.at.IsZero() {
				how = fmt.Sprintf("denied until %v", late.at.Sub(c.start))
			}
		} else if e.err != nil {
			how = e.err.Error()
		}
		got = append(got, fmt.Sprintf("%s %s after %v", e.name, how, e.after))
	}
	c.ended = nil
	if !slices.Equal(got, wants) {
		t.Errorf("got %q, want %q", got, wants)
	}
}

// full returns places that are all held, with a round trip of a second, and their waiters.
func full(n int) (*places, *crowd) {
	p := &places{n: n, trip: time.Second, upTo: 24 * time.Hour}
	for range n {
		p.take([]want{{1}})
	}
	p.asked = nil
	return p, &crowd{queues: p.queues(), start: time.Now()}
}

// releaseOne releases the place that is held for longest, without a word. It reports whether one is held.
func (p *places) releaseOne() bool {
	p.mu.Lock()
	held := slices.Clone(p.grants)
	p.mu.Unlock()
	if len(held) == 0 {
		return false
	}
	p.release(held[0])
	return true
}

func TestReleasedPlaceWakesTheFirstWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := full(1)
		for _, name := range []string{"ann", "bob", "cy"} {
			c.wait(t.Context(), name, 0)
		}
		for _, wants := range [][]string{
			{"ann granted after 1m1s"}, {"bob granted after 2m1s"}, {"cy granted after 3m1s"},
		} {
			time.Sleep(time.Minute - time.Since(c.start)%time.Minute)
			c.want(t)
			p.releaseOne()
			c.queues.Wake("key")
			time.Sleep(2 * time.Second)
			c.want(t, wants...)
		}
		if n := c.queues.Len(); n != 0 {
			t.Errorf("%d queues are left", n)
		}
	})
}

// The store has denied the request when the place is released, but its answer is still on the way.
func TestReleaseDuringAnAskIsNotLost(t *testing.T) {
	t.Run("by the first waiter itself", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, c := full(1)
			c.wait(t.Context(), "ann", 0)
			time.Sleep(700 * time.Millisecond)
			p.releaseOne()
			c.queues.Wake("key")
			time.Sleep(2 * time.Second)
			c.want(t, "ann granted after 2s")
		})
	})
	t.Run("by the worker", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, c := full(1)
			c.wait(t.Context(), "ann", 0)
			time.Sleep(10 * time.Second)
			c.queues.Wake("key") // for nothing
			time.Sleep(700 * time.Millisecond)
			p.releaseOne()
			c.queues.Wake("key")
			c.queues.Wake("key")
			time.Sleep(2 * time.Second)
			c.want(t, "ann granted after 12s")
			if n := p.asks(); n != 3 {
				t.Errorf("asked %d times, want 3: two Wakes join into one", n)
			}
		})
	})
}

// A Wake after which there is no place is forgotten with the denial: the queue rests again.
func TestWakeIsForOneAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := full(1)
		c.wait(t.Context(), "ann", time.Hour)
		for range 3 {
			time.Sleep(10 * time.Second)
			c.queues.Wake("key")
		}
		time.Sleep(time.Hour)
		c.want(t, "ann denied after 1h0m0s")
		if n := p.asks(); n != 4 {
			t.Errorf("asked %d times, want 4", n)
		}
		c.queues.Wake("key") // nobody is there
		time.Sleep(time.Minute)
		if n := p.asks(); n != 4 {
			t.Errorf("asked %d times, want 4: no waiter is left", n)
		}
	})
}

// A queue that knows when the next grant is possible does not ask sooner, whoever wakes it.
func TestWakeDoesNotAskBeforeNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bucket{capacity: 1, drip: time.Hour, level: time.Hour, last: time.Now()}
		a := &asks{queues: b.queues(1000)}
		start := time.Now()
		a.wait(t.Context(), 1)
		a.wait(t.Context(), 1)
		for range 100 {
			a.queues.Wake("key")
			time.Sleep(time.Minute)
		}
		for i, ended := range a.errs {
			if err := <-ended; err != nil {
				t.Errorf("waiter %d: %v", i, err)
			}
		}
		if len(b.asked) > 4 || time.Since(start) != 2*time.Hour {
			t.Errorf("asked %d times in %v, want 4 times at most in 2h", len(b.asked), time.Since(start))
		}
	})
}
