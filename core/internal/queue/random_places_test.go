package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// seat is one who wants places, as the test sees them.
type seat struct {
	person

	tries    bool // does not wait
	released bool
}

// However waiters come, try, leave and release, and whatever another process does: no more places are
// held than there are, each grant is taken once or given back, no waiter is overtaken, none is denied
// before its time is up, none misses a place for longer than a poll (or an answer, if this process
// released it), and in the end no waiter is left.
func TestAnyWaitersForPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { rapid.SyncTest(t, anyWaitersForPlaces) })
}

// hall is what TestAnyWaitersForPlaces acts on.
type hall struct {
	*places

	queues *Queues[string, want, *unit, time.Duration]
	polls  bool          // another process takes and releases places, too
	slack  time.Duration // the longest that a waiter misses a place

	people    sync.Mutex
	all       []*seat
	elsewhere []*unit   // what another process holds
	first     int       // the first waiter, if there is room; -1: there is none
	since     time.Time // there has been room for the first waiter
}

func anyWaitersForPlaces(t *rapid.T) {
	h := &hall{
		places: &places{
			n: rapid.IntRange(1, 4).Draw(t, "places"), upTo: 24 * time.Hour,
			trip: rapid.SampledFrom([]time.Duration{0, 2 * time.Millisecond, 40 * time.Millisecond, 300 * time.Millisecond}).Draw(t, "round trip"),
		},
		polls: rapid.Bool().Draw(t, "another process"),
		first: -1,
	}
	h.queues = h.places.queues()
	h.queues.Most = rapid.SampledFrom([]int{1, 3, 1000}).Draw(t, "together")
	h.slack = 3 * h.trip // an answer from before, a request, and what is given back meanwhile
	if h.polls {
		const longest = 100 * time.Millisecond
		h.queues.Poll = func(attempt int) time.Duration { return min(5*time.Millisecond<<min(attempt, 10), longest) }
		h.slack += longest
	}
	ctx, leave := context.WithCancel(context.Background())
	defer func() { // all leave after a failure, so that the bubble ends
		leave()
		time.Sleep(time.Minute)
	}()
	actions := map[string]func(*rapid.T){
		"":     h.look,
		"come": func(t *rapid.T) { h.come(ctx, t) },
		"try": func(t *rapid.T) {
			s := &seat{tries: true, person: person{cost: rapid.IntRange(1, min(2, h.n)).Draw(t, "cost"), came: time.Now()}}
			h.add(s, func() (*unit, error) { return h.queues.Try(ctx, "key", want{s.cost}) })
		},
		"release": func(t *rapid.T) {
			if holders := h.holders(); len(holders) > 0 {
				h.releaseOf(rapid.SampledFrom(holders).Draw(t, "whose"))
			}
			synctest.Wait()
		},
		"wake for nothing": func(*rapid.T) { h.queues.Wake("key") },
		"time passes": func(t *rapid.T) {
			time.Sleep(rapid.SampledFrom([]time.Duration{
				1, time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, time.Second,
			}).Draw(t, "time"))
			synctest.Wait()
		},
	}
	if h.polls {
		actions["acquire elsewhere"] = func(*rapid.T) { h.elsewhere = append(h.elsewhere, h.take([]want{{1}})...) }
		actions["release elsewhere"] = func(*rapid.T) {
			h.release(h.elsewhere...)
			h.elsewhere = nil
		}
	}
	t.Repeat(actions)
	h.empty(t)
	h.check(t)
}

// come adds a waiter.
func (h *hall) come(ctx context.Context, t *rapid.T) {
	s := &seat{person: person{cost: rapid.IntRange(1, min(2, h.n)).Draw(t, "cost"), came: time.Now()}}
	times := []time.Duration{0, 1, time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, time.Second}
	if rapid.Bool().Draw(t, "bounded") {
		s.until = s.came.Add(rapid.SampledFrom(times).Draw(t, "patience"))
	}
	cancel := func() {}
	if rapid.IntRange(0, 2).Draw(t, "leaves") == 0 {
		s.leaves = s.came.Add(rapid.SampledFrom(times).Draw(t, "leaves after"))
		ctx, cancel = context.WithDeadline(ctx, s.leaves)
	}
	h.add(s, func() (*unit, error) {
		defer cancel()
		return h.queues.Wait(ctx, "key", want{s.cost}, s.until)
	})
}

func (h *hall) add(s *seat, get func() (*unit, error)) {
	h.people.Lock()
	h.all = append(h.all, s)
	h.people.Unlock()
	go func() {
		grant, err := get()
		h.people.Lock()
		defer h.people.Unlock()
		s.done, s.went, s.grant, s.err = true, time.Now(), grant, err
	}()
	synctest.Wait()
}

// holders returns who has places in this process.
func (h *hall) holders() (holders []*seat) {
	h.people.Lock()
	defer h.people.Unlock()
	for _, s := range h.all {
		if s.done && s.err == nil && !s.released {
			holders = append(holders, s)
		}
	}
	return holders
}

// releaseOf releases the places of a holder in this process.
func (h *hall) releaseOf(s *seat) {
	s.released = true
	h.giveBack([]*unit{s.grant})
}

// look fails if the first waiter has missed a place for too long.
func (h *hall) look(t *rapid.T) {
	synctest.Wait()
	h.people.Lock()
	defer h.people.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.most > h.n {
		t.Fatalf("%d of %d places were held at once", h.most, h.n)
	}
	i := slices.IndexFunc(h.all, func(s *seat) bool { return !s.done && !s.tries })
	switch {
	case i < 0 || h.held+h.all[i].cost > h.n:
		h.first = -1
	case i != h.first:
		h.first, h.since = i, time.Now()
	case time.Since(h.since) > 2*h.slack:
		t.Fatalf("waiter %d, who came at %v, misses a place that has been free since %v, until %v",
			i, h.all[i].came, h.since, time.Now())
	}
}

// empty releases all places until all waits have ended.
func (h *hall) empty(t *rapid.T) {
	h.release(h.elsewhere...)
	for range len(h.all) + 1 {
		for _, s := range h.holders() {
			h.releaseOf(s)
		}
		time.Sleep(2 * h.slack)
		synctest.Wait()
	}
	time.Sleep(time.Second)
	synctest.Wait()
	for i, s := range h.all {
		if !s.done {
			t.Fatalf("waiter %d, who came at %v, waits at %v, with all places free", i, s.came, time.Now())
		}
	}
	if n := h.queues.Len(); n != 0 || h.held != 0 {
		t.Errorf("%d queues are left, and %d places are held", n, h.held)
	}
}

// check checks the outcomes.
func (h *hall) check(t *rapid.T) {
	taken := make(map[*unit]string)
	for i, s := range h.all {
		name := fmt.Sprintf("waiter %d, who came at %v, went at %v", i, s.came, s.went)
		late, denied := errors.AsType[*denied](s.err)
		switch {
		case s.err == nil:
			if taken[s.grant] != "" || s.grant.cost != s.cost {
				t.Errorf("%s: wanted %d, got %d, which was also given to %q", name, s.cost, s.grant.cost, taken[s.grant])
			}
			taken[s.grant] = name
		case denied && !late.at.IsZero():
			t.Errorf("%s: told to come back at %v, which nobody knows", name, late.at)
		case denied && !s.tries && (s.until.IsZero() || s.went.Before(s.until)):
			t.Errorf("%s: denied before the time was up, %v", name, s.until)
		case !denied && (s.leaves.IsZero() || s.went.Before(s.leaves)):
			t.Errorf("%s: gave up before %v: %v", name, s.leaves, s.err)
		}
		if !s.leaves.IsZero() && s.went.After(s.leaves) {
			t.Errorf("%s: ended after having left at %v", name, s.leaves)
		}
		if !s.until.IsZero() && s.went.After(s.until) && !s.went.Equal(s.leaves) && !slices.ContainsFunc(h.ends, s.went.Equal) {
			t.Errorf("%s: time was up at %v, and nothing was in flight", name, s.until)
		}
		if s.tries && s.went.After(s.came.Add(2*h.trip)) {
			t.Errorf("%s: a Try", name)
		}
		for j, earlier := range h.all[:i] {
			overtaken := !earlier.tries && earlier.came.Before(s.came) && earlier.went.After(s.went) &&
				earlier.until.IsZero() && earlier.leaves.IsZero()
			if s.err == nil && overtaken {
				t.Errorf("%s: overtook %d, who came at %v and went at %v", name, j, earlier.came, earlier.went)
			}
		}
	}
}
