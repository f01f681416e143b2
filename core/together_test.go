package core

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/internal/redistest"
	"github.com/weir-go/ratelimit/internal/repeatable"
)

// gate holds the script calls of a client while it is closed.
type gate struct{ opened chan struct{} }

func (g *gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if command.Name() == "evalsha" {
			<-g.opened
		}
		return next(ctx, command)
	}
}

func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// together asks a store the same several times, so that all but the first wait together, in
// order. ask is told which of them it is.
func together(t *testing.T, r *Redis, g *gate, times int, ask func(i int)) {
	t.Helper()
	awaitLoad(t, r, 0) // a batch is counted out after its calls have been answered
	g.opened = make(chan struct{})
	var group sync.WaitGroup
	defer group.Wait()
	for i := range times {
		group.Go(func() { ask(i) })
		awaitLoad(t, r, i+1)
	}
	close(g.opened)
}

// awaitLoad returns when so many calls wait or are in flight.
func awaitLoad(t *testing.T, r *Redis, want int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		waiting, inFlight := r.only.checks.Load()
		if waiting+inFlight == want {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%d wait and %d are in flight, want %d", waiting, inFlight, want)
			return
		}
	}
}

// Calls that ask the same and wait together are decided as if they had come one after the other.
func TestCallsThatAskTheSameAreDecidedInOrder(t *testing.T) {
	random := repeatable.Random(t)
	now := time.UnixMicro(1763683200_123_457)
	clock := func() time.Time { return now }
	g := &gate{}
	client := redistest.Shared(t).Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	client.AddHook(g)
	g.opened = make(chan struct{})
	close(g.opened)
	newStore := func() *Redis {
		return NewRedis(client, WithClock(clock), WithPrefix(redistest.Prefix(t)), WithBudget(time.Minute), WithInFlight(1))
	}
	for round := range 150 {
		capacity := 1 + random.IntN(20)
		limits := []Limit{
			Leaky(capacity, Per(3, 7*time.Second)), Shaping(capacity, PerSecond(1)), TokenBucket(capacity, PerMinute(7)),
			GCRA(capacity, PerSecond(700_000)), FixedWindow(capacity, time.Minute), SlidingWindow(capacity, time.Minute),
			SlidingLog(capacity, time.Minute), Leaky(capacity, PerHour(1)).Named("plan"), SlidingLog(capacity, time.Hour).Named("log"),
		}
		limit, other := limits[round%len(limits)], limits[random.IntN(len(limits))]
		cost := 1 + random.IntN(3)
		checks := []Check{{Key: "a", Limit: limit, Cost: cost}}
		switch random.IntN(5) {
		case 0:
			checks = append(checks, Check{Key: "b", Limit: other, Cost: 1 + random.IntN(2)})
		case 1:
			checks = append(checks, Check{Key: "a", Limit: other, Cost: 1, Shadow: true})
		case 2:
			checks = append(checks, Check{Key: "b", Limit: other, Cost: 1 + random.IntN(capacity), Mode: Condition})
		case 3:
			checks = append(checks, Check{Key: "a", Limit: limit, Cost: 1}) // which adds up
		}
		stores := []Store{newStore(), NewMemory(WithClock(clock))}
		for range random.IntN(4) { // others have used some of it
			before := []Check{{Key: []string{"a", "b"}[random.IntN(2)], Limit: []Limit{limit, other}[random.IntN(2)], Cost: 1 + random.IntN(4)}}
			for _, s := range stores {
				if err := s.Decide(t.Context(), before, make([]Decision, 1)); err != nil {
					t.Fatal(err)
				}
			}
			now = now.Add(time.Duration(random.IntN(20)) * time.Second)
		}
		times := 2 + random.IntN(25)
		peek := random.IntN(10) == 0
		name := fmt.Sprintf("round %d: %d times %v, peek %t", round, times, checks, peek)
		got, want := make([][]Decision, times), make([][]Decision, times)
		moments := [2][][]Moment{make([][]Moment, times), make([][]Moment, times)}
		ask := func(s Store, i int, into [][]Decision, at [][]Moment) {
			into[i], at[i] = make([]Decision, len(checks)), make([]Moment, len(checks))
			own := slices.Clone(checks)
			var err error
			if peek {
				err = s.Peek(t.Context(), own, into[i])
			} else {
				err = s.Reserve(t.Context(), own, into[i], at[i])
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		together(t, stores[0].(*Redis), g, times, func(i int) { ask(stores[0], i, got, moments[0]) })
		for i := range times {
			ask(stores[1], i, want, moments[1])
			if !slices.Equal(got[i], want[i]) {
				t.Fatalf("%s: number %d is told\n%+v, want\n%+v", name, i, got[i], want[i])
			}
		}
		// What each is told of its charge gives back just that.
		now = now.Add(time.Duration(random.IntN(3)) * time.Second)
		if peek {
			continue
		}
		for _, i := range random.Perm(times)[:times/2] {
			for at, s := range stores {
				own := slices.Clone(checks)
				reservation := &Reservation{limiter: New(s), checks: own, decisions: want[i], moments: moments[at][i]}
				if err := reservation.Cancel(t.Context()); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
		var left [2][]Decision
		for at, s := range stores {
			left[at] = make([]Decision, len(checks))
			if err := s.Peek(t.Context(), checks, left[at]); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(left[0], left[1]) {
			t.Fatalf("%s: when half is given back, there is\n%+v, want\n%+v", name, left[0], left[1])
		}
	}
}
