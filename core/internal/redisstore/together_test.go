package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/calendar"
	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/memory"
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
func together(t *testing.T, r *Store, g *gate, times int, ask func(i int)) {
	t.Helper()
	awaitLoad(t, r.only.checks, 0) // a batch is counted out after its calls have been answered
	g.opened = make(chan struct{})
	var group sync.WaitGroup
	defer group.Wait()
	for i := range times {
		group.Go(func() { ask(i) })
		awaitLoad(t, r.only.checks, i+1)
	}
	close(g.opened)
}

// awaitLoad returns when so many calls wait or are in flight.
func awaitLoad(t *testing.T, of *lane, want int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		waiting, inFlight := of.Load()
		if waiting+inFlight == want {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%d wait and %d are in flight, want %d", waiting, inFlight, want)
			return
		}
	}
}

// both are the stores that have to agree.
type both interface {
	Decide(ctx context.Context, calls []*call.Call) (answered int, err error)
	Settle(ctx context.Context, list []call.Correction) error
}

// rig is a client with a gate, and a clock that stands still.
type rig struct {
	client *redis.Client
	gate   *gate
	now    int64
}

func newRig(t *testing.T) *rig {
	r := &rig{
		client: redistest.Shared(t).Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled, o.ReadTimeout = true, time.Minute }),
		gate:   &gate{opened: make(chan struct{})}, now: 1763683200_123_457,
	}
	r.client.AddHook(r.gate)
	close(r.gate.opened)
	return r
}

// stores returns a store on Redis and two in memory, with the clock of the rig.
func (r *rig) stores(t *testing.T) (onRedis *Store, all []both) {
	clock := func() int64 { return r.now }
	onRedis = newStore(r.client, func(c *Config) {
		c.Clock, c.Prefix, c.InFlight, c.Patience = clock, redistest.Prefix(t), 1, time.Minute
	})
	all = []both{onRedis}
	for range 2 {
		all = append(all, memory.New(memory.Config{MaxKeys: 10_000, Clock: clock, Slack: time.Hour.Microseconds()}))
	}
	return onRedis, all
}

func (r *rig) wait(d time.Duration) { r.now += d.Microseconds() }

// drawSpecs returns a spec, with the algorithms in turn, and another one.
func drawSpecs(random *rand.Rand, round int) (of, other *exact.Spec) {
	capacity := 1 + random.IntN(20)
	window := func(a exact.Algorithm, length time.Duration) exact.Params {
		return exact.Params{Algorithm: a, Capacity: capacity, Events: capacity, Period: length}
	}
	meter := func(a exact.Algorithm, events int, period time.Duration) exact.Params {
		return exact.Params{Algorithm: a, Capacity: capacity, Events: events, Period: period}
	}
	plan, log := meter(exact.Leaky, 1, time.Hour), window(exact.SlidingLog, time.Hour)
	plan.Name, log.Name = "plan", "log"
	all := []exact.Params{
		meter(exact.Leaky, 3, 7*time.Second), meter(exact.Shaping, 1, time.Second), meter(exact.TokenBucket, 7, time.Minute),
		meter(exact.GCRA, 700_000, time.Second), window(exact.FixedWindow, time.Minute), window(exact.SlidingWindow, time.Minute),
		window(exact.SlidingLog, time.Minute), plan, log,
		exact.CalendarParams(capacity, calendar.Period{Unit: calendar.Step, Step: time.Minute}),
	}
	specs := make([]*exact.Spec, len(all))
	for i, p := range all {
		var identity *exact.Spec
		if shared := p.Identity(); shared != p {
			identity = exact.NewSpec(shared, nil)
		}
		specs[i] = exact.NewSpec(p, identity)
	}
	return specs[round%len(specs)], specs[random.IntN(len(specs))]
}

// told is the answers to the checks of a call.
func told(c *call.Call) []call.Answer {
	answers := make([]call.Answer, len(c.Checks))
	for _, group := range c.Groups {
		pass := !slices.ContainsFunc(group, func(c call.Check) bool { return !c.Fits })
		for i := range group {
			answers[group[i].Index] = group[i].Answer(pass, !call.Charges(group))
		}
	}
	return answers
}

// use has others use some of each spec in all stores.
func (r *rig) use(t *testing.T, random *rand.Rand, all []both, specs ...*exact.Spec) {
	for range random.IntN(4) {
		check := call.Check{Key: []string{"a", "b"}[random.IntN(2)], Spec: specs[random.IntN(len(specs))], Units: 1 + random.IntN(4)}
		for _, s := range all {
			if _, err := s.Decide(t.Context(), []*call.Call{callOf(check)}); err != nil {
				t.Fatal(err)
			}
		}
		r.wait(time.Duration(random.IntN(20)) * time.Second)
	}
}

// leaveSome gives some checks a headroom.
func leaveSome(random *rand.Rand, checks []call.Check) {
	for i := range checks {
		if random.IntN(3) == 0 {
			checks[i].Headroom = random.IntN(checks[i].Spec.Capacity + 1)
		}
	}
}

// expectSameLeft wants all stores to say the same about some checks.
func expectSameLeft(t *testing.T, name string, all []both, checks []call.Check) {
	t.Helper()
	var first []call.Answer
	for i, s := range all {
		looking := slices.Clone(checks)
		for j := range looking {
			looking[j].Condition = true
		}
		c := callOf(looking...)
		if _, err := s.Decide(t.Context(), []*call.Call{c}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = told(c)
		} else if got := told(c); !slices.Equal(got, first) {
			t.Fatalf("%s: store %d says\n%+v, want\n%+v", name, i, got, first)
		}
	}
}

// Calls that ask the same and wait together are decided as if they had come one after the other.
func TestCallsThatAskTheSameAreDecidedInOrder(t *testing.T) {
	random := repeatable.Random(t)
	rig := newRig(t)
	for round := range 150 {
		of, other := drawSpecs(random, round)
		checks := []call.Check{{Key: "a", Spec: of, Units: 1 + random.IntN(3)}}
		switch random.IntN(5) {
		case 0:
			checks = append(checks, call.Check{Key: "b", Spec: other, Units: 1 + random.IntN(2)})
		case 1:
			checks = append(checks, call.Check{Key: "a", Spec: other.Shadow(), Units: 1})
		case 2:
			checks = append(checks, call.Check{Key: "b", Spec: other, Units: 1 + random.IntN(of.Capacity), Condition: true})
		case 3:
			checks = append(checks, call.Check{Key: "a", Spec: of, Units: 1}) // which adds up
		}
		leaveSome(random, checks)
		onRedis, all := rig.stores(t)
		rig.use(t, random, all, of, other)
		times := 2 + random.IntN(25)
		if random.IntN(10) == 0 {
			for i := range checks {
				checks[i].Condition = true
			}
		}
		name := fmt.Sprintf("round %d: %d times %+v", round, times, checks)
		got, want := make([]*call.Call, times), make([]*call.Call, times)
		ask := func(s both, into []*call.Call, i int) {
			into[i] = callOf(slices.Clone(checks)...)
			maySettle(into[i])
			if _, err := s.Decide(t.Context(), into[i:i+1]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		together(t, onRedis, rig.gate, times, func(i int) { ask(all[0], got, i) })
		for i := range times {
			ask(all[1], want, i)
			if got, want := told(got[i]), told(want[i]); !slices.Equal(got, want) {
				t.Fatalf("%s: number %d is told\n%+v, want\n%+v", name, i, got, want)
			}
		}
		// Each receipt gives back just its own charge.
		rig.wait(time.Duration(random.IntN(3)) * time.Second)
		for _, i := range random.Perm(times)[:times/2] {
			for j, calls := range [2][]*call.Call{got, want} {
				giveBackAll(t, all[j], calls[i])
			}
		}
		expectSameLeft(t, name+", when half is given back", all[:2], checks)
	}
}

// giveBackAll gives back what a call was charged.
func giveBackAll(t *testing.T, s both, c *call.Call) {
	t.Helper()
	var list []call.Correction
	for _, group := range c.Groups {
		if !slices.ContainsFunc(group, func(c call.Check) bool { return !c.Fits }) {
			for _, one := range call.Reversal(group) {
				one.Firm = false
				list = append(list, one)
			}
		}
	}
	if len(list) == 0 {
		return
	}
	if err := s.Settle(t.Context(), list); err != nil {
		t.Fatal(err)
	}
}

// A call that is asked several times is granted as often as fits, and leaves the state that as many
// calls leave.
func TestACallOfSeveralTimesIsGrantedAsOftenAsFits(t *testing.T) {
	random := repeatable.Random(t)
	rig := newRig(t)
	for round := range 150 {
		of, other := drawSpecs(random, round)
		checks := []call.Check{{Key: "a", Spec: of, Units: 1 + random.IntN(3)}}
		switch random.IntN(3) {
		case 0:
			checks = append(checks, call.Check{Key: "b", Spec: other, Units: 1 + random.IntN(2)})
		case 1:
			checks = append(checks, call.Check{Key: "b", Spec: other, Units: 1, Condition: true})
		}
		leaveSome(random, checks)
		_, all := rig.stores(t)
		rig.use(t, random, all, of, other)
		times := 2 + random.IntN(25)
		name := fmt.Sprintf("round %d: %d times %+v", round, times, checks)
		var calls [2]*call.Call
		for i, s := range all[:2] {
			calls[i] = callOf(slices.Clone(checks)...)
			calls[i].Times = times
			maySettle(calls[i])
			if answered, err := s.Decide(t.Context(), calls[i:i+1]); err != nil || answered != 1 {
				t.Fatalf("%s: %d, %v", name, answered, err)
			}
		}
		if got, want := told(calls[0]), told(calls[1]); calls[0].Granted != calls[1].Granted || !slices.Equal(got, want) {
			t.Fatalf("%s: %d are granted, %+v, want %d, %+v", name, calls[0].Granted, got, calls[1].Granted, want)
		}
		granted := 0
		for range times {
			single := callOf(slices.Clone(checks)...)
			if _, err := all[2].Decide(t.Context(), []*call.Call{single}); err != nil {
				t.Fatal(err)
			}
			if !single.Passed() {
				break
			}
			granted++
		}
		if calls[0].Granted != granted {
			t.Fatalf("%s: %d are granted, and one by one %d", name, calls[0].Granted, granted)
		}
		expectSameLeft(t, name, all, checks)
		rig.wait(time.Duration(random.IntN(3)) * time.Second)
		for i, s := range all[:2] {
			giveBackAll(t, s, calls[i])
		}
		expectSameLeft(t, name+", given back", all[:2], checks)
	}
}
