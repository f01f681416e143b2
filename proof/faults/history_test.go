package faults_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/repeatable"
)

const (
	processes = 3
	askers    = 6 // in each process
	capacity  = 25
	pairs     = 2  // keys of a round
	turns     = 12 // of an asker in a round
)

// instant is when everything in a history happens: while time stands still, what a key
// has used is a whole number, whatever the algorithm.
var instant = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// work is what a process does: it asks about a pair of keys for a while, a round, and
// then about another.
type work struct {
	Addr, Prefix string
	Process      int
	Seed         uint64 // of its random numbers
}

// operation is something asked, and what was told.
type operation struct {
	Client, Round int
	Kind          string     // "take", "charge", "refund", "peek" or "reset"
	Costs         [pairs]int // or 1 for what was peeked or reset

	Failure   core.Failure // if it failed: it may have been done, or be done yet
	Allowed   [pairs]bool
	Remaining [pairs]int

	Call, Return int64 // Unix nanoseconds
}

// used is the state of a round's keys.
type used [pairs]int

// model is what can be asked, and what it does to a pair of keys.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		rounds := make(map[int][]porcupine.Operation)
		for _, o := range history {
			round := o.Input.(operation).Round
			rounds[round] = append(rounds[round], o)
		}
		partitions := make([][]porcupine.Operation, 0, len(rounds))
		for _, operations := range rounds {
			partitions = append(partitions, operations)
		}
		return partitions
	},
	Init: func() any { return used{} },
	Step: func(state, input, _ any) (bool, any) {
		before, o := state.(used), input.(operation)
		after, told := before, before
		fits := [pairs]bool{}
		pass := true
		for i, cost := range o.Costs {
			fits[i] = before[i]+cost <= capacity
			pass = pass && fits[i]
		}
		for i, cost := range o.Costs {
			switch {
			case o.Kind == "take" && pass:
				after[i] += cost
				told[i] = after[i]
			case o.Kind == "charge":
				after[i] = min(capacity, before[i]+cost)
			case o.Kind == "refund":
				after[i] = max(0, before[i]-cost)
			case o.Kind == "reset" && cost > 0:
				after[i] = 0
			}
		}
		if o.Failure != "" || o.Kind != "take" && o.Kind != "peek" {
			return true, after
		}
		for i, cost := range o.Costs {
			if cost > 0 && (o.Allowed[i] != fits[i] || o.Remaining[i] != capacity-told[i]) {
				return false, before
			}
		}
		return true, after
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
}

// historyOf returns operations in the checker's words. What failed may be done at any
// time after it was asked; done last, it is as if it had not been.
func historyOf(operations []operation) []porcupine.Operation {
	history := make([]porcupine.Operation, len(operations))
	for i, o := range operations {
		history[i] = porcupine.Operation{ClientId: o.Client, Input: o, Call: o.Call, Return: o.Return}
		if o.Failure != "" {
			history[i].Return = math.MaxInt64
		}
	}
	return history
}

// run asks until it is stopped.
func (w work) run(stopped <-chan struct{}, tell func(operation)) {
	// With one batch in flight, calls that come meanwhile share the next one.
	client := redis.NewClient(&redis.Options{Addr: w.Addr, MaxRetries: -1, ContextTimeoutEnabled: w.Process%2 == 0})
	defer client.Close()
	store := core.NewRedis(client, core.WithPrefix(w.Prefix), core.WithLogger(discard),
		core.WithInFlight(1), core.WithClock(func() time.Time { return instant }))
	defer store.Close()
	limiter := core.New(store)
	everybody(askers, func(i int) {
		a := asker{limiter: limiter, client: w.Process*askers + i, random: rand.New(rand.NewPCG(w.Seed, uint64(i)))}
		for {
			select {
			case <-stopped:
				return
			default:
				a.turn(tell)
			}
		}
	})
}

// asker makes one call after the other.
type asker struct {
	limiter     *core.Limiter
	client      int
	random      *rand.Rand
	round, took int
}

// limitOf returns the limit of a round: each has another algorithm.
func limitOf(round int) core.Quota {
	names := make([]string, 0, len(slow))
	for name := range slow {
		names = append(names, name)
	}
	slices.Sort(names)
	return slow[names[round%len(names)]](capacity)
}

func keyOf(round, i int) string { return fmt.Sprintf("round %d key %d", round, i) }

// turn makes one call. An asker that has failed goes on to the next round, so that there
// are few in a round whose effect is unknown: each of them makes the check harder.
func (a *asker) turn(tell func(operation)) {
	o := operation{Client: a.client, Round: a.round, Kind: "take"}
	key := a.random.IntN(pairs)
	o.Costs[key] = 1
	switch n := a.random.IntN(100); {
	case n < 20:
		o.Kind = "peek"
	case n < 23:
		o.Kind = "reset"
	case n < 26:
		o.Kind, o.Costs[key] = "charge", 1+a.random.IntN(4)
	case n < 33:
		o.Kind, o.Costs[key] = "refund", 1+a.random.IntN(4)
	case n < 55:
		o.Costs[1-key] = 1 + a.random.IntN(3)
		fallthrough
	default:
		o.Costs[key] = 1 + a.random.IntN(3)
	}
	// Nobody leaves: what a caller who leaves was charged is given back, which is a second operation.
	o.Call = time.Now().UnixNano()
	err := a.ask(context.Background(), &o)
	o.Return = time.Now().UnixNano()
	a.took++
	o.Failure = core.FailureOf(err)
	if err == nil || mayBeCharged(err) {
		tell(o)
	}
	if err != nil || a.took == turns {
		a.round, a.took = a.round+1, 0
	}
	time.Sleep(time.Duration(a.random.Int64N(int64(4 * time.Millisecond))))
}

func (a *asker) ask(ctx context.Context, o *operation) error {
	limit := limitOf(o.Round)
	var checks []core.Check
	var which []int
	for i, cost := range o.Costs {
		if cost > 0 {
			checks = append(checks, core.Check{Key: keyOf(o.Round, i), Limit: limit, Cost: cost})
			which = append(which, i)
		}
	}
	var decisions []core.Decision
	var err error
	switch o.Kind {
	case "take":
		decisions, err = a.limiter.AllowAll(ctx, checks...)
	case "peek":
		decisions = make([]core.Decision, 1)
		decisions[0], err = a.limiter.Peek(ctx, checks[0].Key, limit)
	case "charge":
		_, err = a.limiter.Charge(ctx, checks[0].Key, limit, checks[0].Cost)
	case "refund":
		_, err = a.limiter.Refund(ctx, checks[0].Key, limit, checks[0].Cost)
	case "reset":
		err = a.limiter.Reset(ctx, checks[0].Key, limit)
	}
	if err != nil {
		return err
	}
	for i, d := range decisions {
		o.Allowed[which[i]], o.Remaining[which[i]] = d.Allowed, d.Remaining
	}
	return nil
}

// What several processes ask at the same time, with calls that share round trips,
// and while the server and the network fail, can be put in an order in which each got
// the right answer: as if they had asked one after the other. A call that failed
// may have been charged or not; nothing else is unknown.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	s := newSite(t, keepsAll...)
	w := work{Addr: s.proxy.Addr(), Prefix: s.prefix}
	children := make([]*child, 0, processes)
	random := repeatable.Random(t)
	for w.Process = range processes {
		w.Seed = random.Uint64()
		children = append(children, startChild(t, w))
	}
	s.awaitCalls(t, 200)
	for _, fault := range passing {
		fault.begin(t, s)
		time.Sleep(2 * budget) // how long it lasts, and no wait for anything
		fault.end(t, s)
		s.awaitCalls(t, 100)
	}
	var operations []operation
	for _, c := range children {
		operations = append(operations, c.end(t)...)
	}
	unknown := 0
	for _, o := range operations {
		if o.Failure != "" {
			unknown++
		}
	}
	t.Logf("%d operations, %d of which failed", len(operations), unknown)
	if len(operations) < 1000 || unknown < 20 {
		t.Errorf("%d operations with %d failures prove little", len(operations), unknown)
	}
	checkHistory(t, operations)
}

// checkHistory wants operations to be linearizable.
func checkHistory(t *testing.T, operations []operation) {
	t.Helper()
	slices.SortFunc(operations, func(a, b operation) int { return cmp.Compare(a.Call, b.Call) })
	for _, round := range model.Partition(historyOf(operations)) {
		if result := porcupine.CheckOperationsTimeout(model, round, patience); result != porcupine.Ok {
			var lines strings.Builder
			for _, o := range round {
				fmt.Fprintf(&lines, "%+v\n", o.Input)
			}
			t.Fatalf("this history of %v is %v:\n%s", limitOf(round[0].Input.(operation).Round), result, lines.String())
		}
	}
}

// awaitCalls returns when the server has decided so many more calls.
func (s *site) awaitCalls(t *testing.T, n int) {
	t.Helper()
	before := -1
	await(t, "the server is asked", func() error {
		calls, err := s.calls(t)
		if err != nil || before < 0 || calls < before { // counted anew after a restart
			before = calls
			return fmt.Errorf("it has been %d times (%w)", calls, err)
		}
		if calls < before+n {
			return fmt.Errorf("it has been %d times", calls)
		}
		return nil
	})
}

func (s *site) calls(t *testing.T) (int, error) {
	statistics, err := s.admin.Info(t.Context(), "commandstats").Result()
	if err != nil {
		return 0, err
	}
	calls := 0
	if _, line, found := strings.Cut(statistics, "cmdstat_evalsha:calls="); found {
		_, err = fmt.Sscanf(line, "%d,", &calls)
	}
	return calls, err
}

// The check finds what is wrong with a history.
func TestHistoriesThatCannotBe(t *testing.T) {
	take := func(client int, call, ret int64, cost, remaining int) operation {
		o := operation{Client: client, Kind: "take", Call: call, Return: ret}
		o.Costs[0], o.Allowed[0], o.Remaining[0] = cost, true, remaining
		return o
	}
	lost := take(2, 0, 1, 2, 0)
	lost.Failure = core.TimedOut
	for name, test := range map[string]struct {
		operations []operation
		want       bool
	}{
		"one after the other":         {[]operation{take(0, 0, 1, 1, 24), take(1, 2, 3, 2, 22)}, true},
		"at the same time":            {[]operation{take(0, 0, 3, 1, 22), take(1, 1, 2, 2, 23)}, true},
		"in the wrong order":          {[]operation{take(0, 0, 1, 1, 22), take(1, 2, 3, 2, 23)}, false},
		"charged twice":               {[]operation{take(0, 0, 1, 1, 23)}, false},
		"not charged":                 {[]operation{take(0, 0, 1, 1, 24), take(1, 2, 3, 1, 24)}, false},
		"failed, and charged":         {[]operation{lost, take(0, 2, 3, 1, 22)}, true},
		"failed, and not charged":     {[]operation{lost, take(0, 2, 3, 1, 24)}, true},
		"failed, and charged later":   {[]operation{lost, take(0, 2, 3, 1, 24), take(0, 4, 5, 1, 21)}, true},
		"failed, and charged twice":   {[]operation{lost, take(0, 2, 3, 1, 20)}, false},
		"failed, and charged in part": {[]operation{lost, take(0, 2, 3, 1, 23)}, false},
	} {
		if got := porcupine.CheckOperations(model, historyOf(test.operations)); got != test.want {
			t.Errorf("%s: linearizable %t, want %t", name, got, test.want)
		}
	}
}
