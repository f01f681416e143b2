package wait

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// bucket is a leaky bucket at the end of a slow connection, from which the waiters ask for units.
type bucket struct {
	capacity int
	drip     time.Duration // one unit drains in this
	trip     time.Duration // there and back
	due      time.Duration // how long after its grant a unit may be used

	mu      sync.Mutex
	level   time.Duration // in what it takes to drain
	last    time.Time
	granted int   // units
	asked   []ask // what came, in order
	failing error
}

// ask is one Ask of a bucket.
type ask struct {
	at      time.Time
	asked   int
	granted int
}

// unit is a grant of some units.
type unit struct {
	cost  int
	taken bool
	due   time.Duration // from now
}

func (u *unit) Units() int                { return u.cost }
func (u *unit) Late(until time.Time) bool { return u.due > 0 && until.Before(time.Now().Add(u.due)) }
func (u *unit) Deny(*Request) error       { return &denied{} }

// denied is the error of a waiter whose grant would come too late.
type denied struct{ at time.Time }

func (d *denied) Error() string { return "too late" }

func (d *denied) Deny(_ *Request, at time.Time) error { return &denied{at} }

// want returns a request for some units of the only key.
func want(cost int) Request { return Request{QueueKey: QueueKey{Key: "key"}, Cost: cost} }

func (b *bucket) drain() {
	now := time.Now()
	b.level = max(0, b.level-now.Sub(b.last))
	b.last = now
}

// take takes units if they fit, and otherwise returns how long that takes.
func (b *bucket) take(cost int) (wait time.Duration) {
	b.drain()
	added := b.level + time.Duration(cost)*b.drip
	if full := time.Duration(b.capacity) * b.drip; added > full {
		return added - full
	}
	b.level = added
	return 0
}

func (b *bucket) ask(ctx context.Context, requests []Request) (a Answer) {
	select {
	case <-time.After(b.trip / 2):
	case <-ctx.Done():
		a.Err = ctx.Err()
		return a
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failing != nil {
		a.Err = b.failing
		return a
	}
	var wait time.Duration
	for _, q := range requests {
		if wait = b.take(q.Cost); wait > 0 {
			break
		}
		b.granted += q.Cost
		a.Grants = append(a.Grants, &unit{cost: q.Cost, due: b.due})
	}
	a.Latest = new(denied)
	b.asked = append(b.asked, ask{time.Now(), len(requests), len(a.Grants)})
	left := time.Duration(b.capacity)*b.drip - b.level
	switch {
	case wait > 0:
		a.Next, a.Full = time.Now().Add(b.trip/2+wait), true
	case left < b.drip:
		a.Next, a.Full = time.Now().Add(b.trip/2+b.drip-left), true
	}
	b.mu.Unlock()
	select { // who leaves now has it given back by the store, as a batch does
	case <-time.After(b.trip / 2):
	case <-ctx.Done():
		for _, g := range a.Grants {
			defer b.giveBack([]Grant{g})
		}
		a = Answer{Err: ctx.Err()}
	}
	b.mu.Lock()
	return a
}

func (b *bucket) giveBack(grants []Grant) {
	time.AfterFunc(b.trip/2, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.drain()
		for _, g := range grants {
			b.level = max(0, b.level-time.Duration(g.Units())*b.drip)
			b.granted -= g.Units()
		}
	})
}

func (b *bucket) queues(most int) *Queues {
	return NewQueues(QueueConfig{
		Ask:    b.ask,
		Return: b.giveBack,
		Takes:  func(q *Request) time.Duration { return time.Duration(q.Cost) * b.drip },
		GaveUp: func(ctx context.Context) error { return ctx.Err() },
		Most:   most,
	})
}

// person is a waiter as the test sees them.
type person struct {
	cost        int
	came, until time.Time
	leaves      time.Time // when their context ends; zero: never

	done  bool
	went  time.Time
	grant Grant
	err   error
}

// However waiters come, leave and steal: every wait ends in time, each grant is taken once or given
// back, no waiter is overtaken, no request is denied that could have been granted in time, and in the
// end no waiter is left.
func TestAnyWaiters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { rapid.SyncTest(t, anyWaiters) })
}

func anyWaiters(t *rapid.T) {
	const drip = 100 * time.Millisecond
	b := &bucket{
		capacity: rapid.IntRange(1, 6).Draw(t, "capacity"), drip: drip, last: time.Now(),
		trip: rapid.SampledFrom([]time.Duration{0, 2 * time.Millisecond, 40 * time.Millisecond, 3 * drip}).Draw(t, "round trip"),
	}
	calm := rapid.Bool().Draw(t, "calm") // no waiter leaves, steals or fails, so that the times of all grants are known
	most := rapid.SampledFrom([]int{1, 3, 1000}).Draw(t, "together")
	queues := b.queues(most)
	var mu sync.Mutex
	var people []*person
	var group sync.WaitGroup
	actions := map[string]func(*rapid.T){
		"come": func(t *rapid.T) {
			p := &person{cost: rapid.IntRange(1, min(3, b.capacity)).Draw(t, "cost"), came: time.Now()}
			if rapid.Bool().Draw(t, "bounded") {
				p.until = p.came.Add(rapid.SampledFrom([]time.Duration{
					1, time.Millisecond, drip - 1, drip, 2 * drip, 5*drip + 1, 20 * drip,
				}).Draw(t, "patience"))
			}
			ctx, cancel := context.Background(), func() {}
			if !calm && rapid.IntRange(0, 2).Draw(t, "leaves") == 0 {
				d := rapid.SampledFrom([]time.Duration{0, 1, time.Millisecond, 20 * time.Millisecond, drip, 3 * drip}).Draw(t, "leaves after")
				p.leaves = p.came.Add(d)
				ctx, cancel = context.WithDeadline(ctx, p.leaves)
			}
			people = append(people, p)
			group.Go(func() {
				defer cancel()
				grant, err := queues.Wait(ctx, want(p.cost), p.until)
				mu.Lock()
				defer mu.Unlock()
				p.done, p.went, p.grant, p.err = true, time.Now(), grant, err
			})
			synctest.Wait()
		},
		"time passes": func(t *rapid.T) {
			time.Sleep(rapid.SampledFrom([]time.Duration{1, time.Millisecond, 20 * time.Millisecond, drip / 2, drip, 3 * drip}).Draw(t, "time"))
			synctest.Wait()
		},
	}
	if !calm {
		actions["steal"] = func(*rapid.T) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.take(1)
		}
		actions["fail"] = func(*rapid.T) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.failing == nil {
				b.failing = errors.New("down")
			} else {
				b.failing = nil
			}
		}
	}
	t.Repeat(actions)
	b.mu.Lock()
	b.failing = nil
	b.mu.Unlock()
	group.Wait() // everybody ends
	time.Sleep(time.Second)
	synctest.Wait()
	if n := queues.Len(); n != 0 {
		t.Fatalf("%d queues are left", n)
	}
	for _, a := range b.asked {
		if a.asked > most {
			t.Errorf("%d were asked for together, want %d at most", a.asked, most)
		}
	}
	held := 0
	for i, p := range people {
		p.check(t, b, i)
		if p.err == nil {
			held += p.cost
			grant := p.grant.(*unit)
			if grant.cost != p.cost || grant.taken {
				t.Errorf("waiter %d has %+v, and wanted %d", i, grant, p.cost)
			}
			grant.taken = true
		}
	}
	if held != b.granted {
		t.Errorf("%d units are held, and %d were granted and not given back", held, b.granted)
	}
	wantInOrder(t, people)
	if calm {
		wantAsPredicted(t, b, people)
	}
}

// check checks the outcome of one waiter.
func (p *person) check(t *rapid.T, b *bucket, i int) {
	if !p.leaves.IsZero() && p.went.After(p.leaves) {
		t.Errorf("waiter %d ended %v after having left", i, p.went.Sub(p.leaves))
	}
	if !p.until.IsZero() && p.went.After(p.until.Add(2*b.trip)) {
		t.Errorf("waiter %d ended %v after their time was up, with a round trip of %v", i, p.went.Sub(p.until), b.trip)
	}
	var late *denied
	switch {
	case p.err == nil:
	case errors.As(p.err, &late):
		if p.until.IsZero() {
			t.Errorf("waiter %d, which has no bound, is told that it will be too late", i)
		}
	case errors.Is(p.err, context.DeadlineExceeded):
		left := !p.leaves.IsZero() && !p.went.Before(p.leaves)
		unanswered := !p.until.IsZero() && !p.went.Before(p.until) // its time was up before any answer
		if !left && !unanswered {
			t.Errorf("waiter %d gave up before the time", i)
		}
	}
}

// wantInOrder fails if a waiter was admitted before one that came earlier.
func wantInOrder(t *rapid.T, people []*person) {
	for i, p := range people {
		for j, earlier := range people[:i] {
			if p.err == nil && earlier.came.Before(p.came) && earlier.went.After(p.went) && earlier.until.IsZero() {
				t.Errorf("waiter %d, who came at %v, went at %v, and %d, who came at %v, not before %v: %v",
					i, p.came, p.went, j, earlier.came, earlier.went, earlier.err)
			}
		}
	}
}

// wantAsPredicted fails if a waiter was admitted at another time than by a queue without round trips,
// give or take these, or if another one was denied.
func wantAsPredicted(t *rapid.T, b *bucket, people []*person) {
	level, last, front := time.Duration(0), time.Time{}, time.Time{}
	full := time.Duration(b.capacity) * b.drip
	for i, p := range people {
		if p.err != nil { // the others are as if this one had not been there
			continue
		}
		at := p.came
		if front.After(at) {
			at = front
		}
		level = max(0, level-at.Sub(last))
		if last.IsZero() {
			level = 0
		}
		if over := level + time.Duration(p.cost)*b.drip - full; over > 0 {
			at, level = at.Add(over), level-over
		}
		level, last, front = level+time.Duration(p.cost)*b.drip, at, at
		if p.went.Before(at) {
			t.Errorf("waiter %d went at %v, %v before there was room", i, p.went, at.Sub(p.went))
		}
	}
	for i, p := range people {
		if _, late := errors.AsType[*denied](p.err); !late {
			continue
		}
		// Without the waiters behind, this one would have been admitted then:
		level, last, front := time.Duration(0), time.Time{}, time.Time{}
		at := p.came
		for _, other := range slices.Concat(people[:i], []*person{p}) {
			if other != p && other.err != nil && !other.went.After(p.went) {
				continue // those who still waited were counted in
			}
			at = other.came
			if front.After(at) {
				at = front
			}
			if !last.IsZero() {
				level = max(0, level-at.Sub(last))
			}
			if over := level + time.Duration(other.cost)*b.drip - full; over > 0 {
				at, level = at.Add(over), level-over
			}
			level, last, front = level+time.Duration(other.cost)*b.drip, at, at
		}
		if slack := time.Duration(i+3) * b.trip; at.Add(slack).Before(p.until) { // each may take a round trip
			t.Errorf("waiter %d, who came at %v, is told at %v that it is too late: there is room at %v, in time for %v",
				i, p.came, p.went, at, p.until)
		}
	}
}
