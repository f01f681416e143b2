package core_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/internal/faultproxy"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// fleet is limiters that share a server, as several processes do.
func fleet(t *testing.T, client redis.UniversalClient, n int, options ...core.Option) (all []*core.Limiter, prefix string) {
	t.Helper()
	prefix, all = redistest.Prefix(t), make([]*core.Limiter, n)
	quiet := core.WithLogger(slog.New(slog.DiscardHandler))
	options = append(options, core.WithPrefix(prefix), core.WithBudget(patient), quiet)
	for i := range all {
		all[i] = core.New(core.NewRedis(client, options...), quiet)
		t.Cleanup(func() { _ = all[i].Close() })
	}
	return all, prefix
}

// registered waits until so many waiters are registered under a key.
func registered(t *testing.T, client redis.UniversalClient, key string, want int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		n := 0
		for _, member := range client.ZRange(t.Context(), key, 0, -1).Val() {
			if strings.HasPrefix(member, "@") {
				n++
			}
		}
		if n == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d waiters are registered, want %d: %v", n, want, client.ZRangeWithScores(t.Context(), key, 0, -1).Val())
		}
	}
}

// Places that are given back go to the waiter that came first, whoever gives them back and whichever process it is in.
func TestPlacesGoToWhoeverCameFirstInTheFleet(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	all, prefix := fleet(t, client, 4)
	placesInOrder(t, client, all, prefix, "key")
}

// A place for which somebody waits is free for nobody else.
func TestNobodyTakesThePlaceOfAWaiterOfTheFleet(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	all, prefix := fleet(t, client, 2)
	limit := core.Concurrent(1, time.Minute).Named("one")
	held := acquire(t, all[0], "key", limit)
	served := make(chan *core.Permit)
	go func() {
		p, err := all[1].Acquire(t.Context(), "key", limit)
		if err != nil {
			t.Error(err)
		}
		served <- p
	}()
	registered(t, client, redisKey(prefix, "key", limit), 1)
	held.Release()
	if _, err := all[0].TryAcquire(t.Context(), "key", limit); err == nil {
		t.Error("a place that another waits for")
	}
	(<-served).Release()
}

// A waiter that gives up leaves nothing behind, also where places are kept for it.
func TestWaiterOfAFleetThatGivesUpLeavesNothing(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	all, prefix := fleet(t, client, 2)
	limit := core.Concurrent(1, time.Minute).Named("one")
	held := acquire(t, all[0], "key", limit)
	key := redisKey(prefix, "key", limit)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := all[1].Acquire(ctx, "key", limit)
		ended <- err
	}()
	registered(t, client, key, 1)
	cancel()
	if err := <-ended; err == nil {
		t.Error("a place that another holds")
	}
	registered(t, client, key, 0)
	held.Release()
	acquire(t, all[0], "key", limit).Release()
}

// A process that dies while it waits costs the others its turn, for a second at most.
func TestTurnOfADeadWaiterIsLost(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	all, prefix := fleet(t, client, 1)
	limit := core.Concurrent(1, time.Minute).Named("one")
	held := acquire(t, all[0], "key", limit)
	key := redisKey(prefix, "key", limit)
	now := client.Time(t.Context()).Val().UnixMicro()
	const life = 900_000
	dead := "1000000000000000 nobody-1" // who came long ago
	client.ZAdd(t.Context(), key, redis.Z{Score: -9e15 + 1<<20 + 1, Member: dead}, redis.Z{Score: -8e15 + float64(now+life), Member: "@" + dead})
	held.Release()
	began := time.Now()
	p := acquire(t, all[0], "key", limit)
	if at, took := client.Time(t.Context()).Val().UnixMicro(), time.Since(began); at < now+life || took > 10*time.Second {
		t.Errorf("a place that is kept for a dead waiter was free after %v, want about a second", took)
	}
	p.Release()
}

// held is a hook of a client that holds a script call until it is let go, and counts all.
type held struct {
	next         atomic.Bool
	came, letGo  chan struct{}
	scriptsAsked atomic.Int64
}

func (h *held) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *held) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *held) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if command.Name() == "evalsha" {
			h.scriptsAsked.Add(1)
			if h.next.CompareAndSwap(true, false) {
				close(h.came)
				<-h.letGo
			}
		}
		return next(ctx, command)
	}
}

// A place that is kept for a process goes to the first of its waiters, also if another one was registered before that one joined.
func TestPlacesKeptForAProcessGoToItsFirstWaiter(t *testing.T) {
	server := redistest.Shared(t)
	hook := &held{came: make(chan struct{}), letGo: make(chan struct{})}
	client := server.Client(t)
	client.AddHook(hook)
	prefix := redistest.Prefix(t)
	var now atomic.Int64 // stands still, so that what is kept is kept for good
	now.Store(time.Now().UnixMicro())
	options := []core.Option{core.WithPrefix(prefix), core.WithBudget(patient), core.WithClock(func() time.Time { return time.UnixMicro(now.Load()) })}
	own, other := core.New(core.NewRedis(client, options...)), core.New(core.NewRedis(server.Client(t), options...))
	t.Cleanup(func() { _, _ = own.Close(), other.Close() })
	limit := core.Concurrent(1, time.Minute).Named("one")
	taken := acquire(t, other, "key", limit)

	served := make(chan *core.Permit, 2)
	ask := func() {
		p, err := own.Acquire(t.Context(), "key", limit)
		if err != nil {
			t.Error(err)
		}
		served <- p
	}
	hook.next.Store(true)
	go ask() // comes first
	<-hook.came
	go ask() // and is registered first
	registered(t, client, redisKey(prefix, "key", limit), 1)
	now.Add((800 * time.Millisecond).Microseconds()) // the first one would be registered as the later one
	close(hook.letGo)
	asked := hook.scriptsAsked.Load()
	for deadline := time.Now().Add(patient); hook.scriptsAsked.Load() < asked+2; time.Sleep(time.Millisecond) { // it has joined, and asks
		if time.Now().After(deadline) {
			t.Fatal("nobody asks")
		}
	}
	taken.Release()
	for range 2 {
		select {
		case p := <-served:
			p.Release()
		case <-time.After(patient):
			t.Fatal("a place is kept for a waiter that does not ask")
		}
	}
	registered(t, client, redisKey(prefix, "key", limit), 0)
}

// Headroom and smaller plans keep nobody in the fleet from what is free, and are served when the room is there.
func TestNobodyInTheFleetWaitsBesideFreePlaces(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	all, _ := fleet(t, client, 2)
	ten := core.Concurrent(10, time.Minute).Named("plan")
	for _, c := range []core.Check{
		{Key: "headroom", Limit: ten, Headroom: 9},
		{Key: "small plan", Limit: core.Concurrent(1, time.Minute).Named("plan")},
	} {
		t.Run(c.Key, func(t *testing.T) {
			held := acquire(t, all[0], c.Key, ten)
			ended := make(chan error, 1)
			go func() {
				r, err := all[1].WaitAll(t.Context(), []core.Check{c})
				if err == nil {
					r.Permit(t.Context()).Release()
				}
				ended <- err
			}()
			time.Sleep(700 * time.Millisecond) // longer than its patience
			for range 5 {
				p, err := all[0].TryAcquire(t.Context(), c.Key, ten)
				if err != nil {
					t.Fatal(err)
				}
				p.Release()
			}
			if len(ended) > 0 {
				t.Fatalf("served while the room is used: %v", <-ended)
			}
			held.Release()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// A call for five places is served among calls for one of other processes, though these overtake it at first.
func TestManyPlacesAreGotInTheFleet(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	all, _ := fleet(t, client, 3)
	limit := core.Concurrent(5, time.Minute).Named("five")
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() {
			time.Sleep(time.Duration(i) * 10 * time.Millisecond)
			for ctx.Err() == nil {
				if p, err := all[i%2].Acquire(ctx, "key", limit); err == nil {
					time.Sleep(100 * time.Millisecond)
					p.Release()
				}
			}
		})
	}
	time.Sleep(300 * time.Millisecond)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		began := time.Now()
		r, err := all[2].WaitAll(ctx, []core.Check{{Key: "key", Limit: limit, Cost: 5}})
		if err != nil {
			t.Fatalf("after %v: %v", time.Since(began), err)
		}
		t.Logf("served after %v", time.Since(began))
		r.Permit(t.Context()).Release()
		cancel()
	}
	cancel()
	group.Wait()
}

// A call for places of two limits keeps the place of the smaller one, which is free for no other process, while it waits for the
// larger one.
func TestSmallerLimitIsKeptInTheFleet(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	all, prefix := fleet(t, client, 2)
	few, many := core.Concurrent(1, time.Minute).Named("few"), core.Concurrent(2, time.Minute).Named("many")
	one, two, three := acquire(t, all[0], "key", few), acquire(t, all[0], "key", many), acquire(t, all[0], "key", many)
	served := make(chan *core.Reservation, 1)
	go func() {
		r, err := all[1].WaitAll(t.Context(), []core.Check{{Key: "key", Limit: many}, {Key: "key", Limit: few}})
		if err != nil {
			t.Error(err)
		}
		served <- r
	}()
	registered(t, client, redisKey(prefix, "key", few), 1)
	time.Sleep(700 * time.Millisecond) // longer than its patience
	one.Release()
	isTaken := func() bool {
		d, err := all[0].Peek(t.Context(), "key", few)
		return err == nil && d.Remaining == 0
	}
	for deadline := time.Now().Add(patient); !isTaken(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the call has not taken the smaller limit")
		}
	}
	time.Sleep(1200 * time.Millisecond) // longer than places are kept for a waiter that has been called
	if p, err := all[0].TryAcquire(t.Context(), "key", few); err == nil {
		t.Error("the place of the smaller limit was free for another process")
		p.Release()
	}
	two.Release()
	(<-served).Permit(t.Context()).Release()
	three.Release()
	acquire(t, all[0], "key", few).Release()
	registered(t, client, redisKey(prefix, "key", few), 0)
	registered(t, client, redisKey(prefix, "key", many), 0)
}

// Where Redis does not permit to publish or to subscribe, waiters poll: they are served all the same, and nothing is kept
// for anybody.
func TestWaitersOfAFleetWithoutChannels(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	if err := admin.Do(t.Context(), "acl", "setuser", "mute", "on", ">secret", "~*", "+@all", "resetchannels").Err(); err != nil {
		t.Fatal(err)
	}
	client := server.Client(t, func(o *redis.Options) { o.Username, o.Password = "mute", "secret" })
	all, _ := fleet(t, client, 2)
	limit := core.Concurrent(1, time.Minute).Named("one")
	var group sync.WaitGroup
	served := 0
	var mu sync.Mutex
	for i := range 6 {
		group.Go(func() {
			for range 5 {
				p, err := all[i%2].Acquire(t.Context(), "key", limit)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				served++
				mu.Unlock()
				p.Release()
			}
		})
	}
	group.Wait()
	if served != 30 {
		t.Errorf("%d were served, want 30", served)
	}
}

// waitingFor waits until so many processes are known to wait for units of a limit.
func waitingFor(t *testing.T, client redis.UniversalClient, prefix, key string, limit core.Quota, want int) {
	t.Helper()
	registered(t, client, fmt.Sprintf("%s=%d=waiting", redisKey(prefix, key, limit), limit.Capacity()), want)
}

// Units of a rate go to the waiter that came first, whichever process it is in, and nobody is known once all have been served.
func TestUnitsGoToWhoeverCameFirstInTheFleet(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	for _, limit := range []core.Quota{
		core.Leaky(1, core.PerSecond(2)).Named("leaky"), core.GCRA(3, core.PerSecond(4)).Named("gcra"), core.TokenBucket(3, core.PerSecond(4)).Named("bucket"),
		core.SlidingLog(1, 500*time.Millisecond).Named("log"), core.FixedWindow(1, time.Second).Named("window"),
	} {
		t.Run(limit.String(), func(t *testing.T) {
			t.Parallel()
			unitsInOrder(t, client, "key", limit)
		})
	}
}

// A process that dies while it waits for a rate costs the others no more than a second, however far ahead its next try is.
func TestTurnOfADeadWaiterForARateIsLost(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	const pace = 2 * time.Second
	limit := core.Leaky(1, core.Per(1, pace)).Named("rate")
	for name, wait := range map[string]func(context.Context, *core.Limiter) error{
		"Wait": func(ctx context.Context, l *core.Limiter) error { return l.Wait(ctx, "key", limit) },
		"WaitAll": func(ctx context.Context, l *core.Limiter) error {
			_, err := l.WaitAll(ctx, []core.Check{{Key: "key", Limit: limit}, {Key: "other", Limit: limit}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, prefix := fleet(t, client, 1)
			now := client.Time(t.Context()).Val().UnixMicro()
			if _, err := all[0].Allow(t.Context(), "key", limit); err != nil {
				t.Fatal(err)
			}
			dead := "nobody-1 1"
			client.ZAdd(t.Context(), redisKey(prefix, "key", limit)+"=1=waiting",
				redis.Z{Score: float64(now - 1e6), Member: dead}, redis.Z{Score: -9e15 + float64(now+600e6), Member: "@" + dead})
			ctx, cancel := context.WithTimeout(t.Context(), patient)
			defer cancel()
			began := time.Now()
			if err := wait(ctx, all[0]); err != nil {
				t.Fatal(err)
			}
			at, took := client.Time(t.Context()).Val().UnixMicro(), time.Since(began)
			if at < now+(pace+400*time.Millisecond).Microseconds() || took > pace+10*time.Second {
				t.Errorf("served after %v, want about a second more than %v", took, pace)
			}
		})
	}
}

// A waiter that is alone listens, too: processes that come later call it when it is its turn, and take it for dead if it does not ask.
func TestWaiterThatIsAloneListens(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	for name, wait := range map[string]func(context.Context, *core.Limiter, core.Quota) error{
		"Wait": func(ctx context.Context, l *core.Limiter, limit core.Quota) error { return l.Wait(ctx, "key", limit) },
		"WaitAll": func(ctx context.Context, l *core.Limiter, limit core.Quota) error {
			_, err := l.WaitAll(ctx, []core.Check{{Key: "key", Limit: limit}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			all, prefix := fleet(t, client, 1)
			limit := core.TokenBucket(1, core.PerHour(1))
			if d, err := all[0].Allow(t.Context(), "key", limit); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- wait(ctx, all[0], limit) }()
			for deadline := time.Now().Add(10 * time.Second); len(client.PubSubChannels(t.Context(), prefix+":waiting:*").Val()) == 0; time.Sleep(2 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("nobody listens")
				}
			}
			cancel()
			if err := <-ended; err == nil {
				t.Error("it was served")
			}
		})
	}
}

// Wait, WaitAll and plans of one name with the same ceiling stand in one order, also within a process: none takes all units from the others.
func TestAllWaitersOfAProcessStandInOneOrder(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	limit := core.TokenBucket(10, core.PerSecond(20)).Named("partner")
	alone := func(ctx context.Context, l *core.Limiter, units int) error { return l.WaitN(ctx, "key", limit, units) }
	inAll := func(ctx context.Context, l *core.Limiter, units int) error {
		_, err := l.WaitAll(ctx, []core.Check{{Key: "key", Limit: limit, Cost: units}})
		return err
	}
	heeding := func(ctx context.Context, l *core.Limiter, units int) error {
		return l.WaitN(ctx, "key", limit, units, core.WithHoldBack())
	}
	plan := func(ctx context.Context, l *core.Limiter, units int) error {
		return l.WaitN(ctx, "key", core.TokenBucket(10, core.PerSecond(19)).Named("partner"), units)
	}
	type wait func(ctx context.Context, l *core.Limiter, units int) error
	for name, c := range map[string]struct{ crowd, large wait }{
		"WaitAll among Waits": {alone, inAll}, "Wait among WaitAlls": {inAll, alone}, "another plan": {alone, plan},
		"Wait with a hold-back": {alone, heeding}, "Wait among waits with a hold-back": {heeding, alone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, _ := fleet(t, client, 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var crowd sync.WaitGroup
			for range 8 {
				crowd.Go(func() {
					for ctx.Err() == nil {
						_ = c.crowd(ctx, all[0], 1)
					}
				})
			}
			for d, err := all[0].Peek(ctx, "key", limit); d.Remaining > 0; d, err = all[0].Peek(ctx, "key", limit) {
				if err != nil {
					t.Fatal(err)
				}
			}
			within, giveUp := context.WithTimeout(ctx, 20*time.Second) // it takes half a second
			defer giveUp()
			if err := c.large(within, all[0], 5); err != nil {
				t.Errorf("a waiter for 5 units is overtaken all the time: %v", err)
			}
			cancel()
			crowd.Wait()
		})
	}
}

// A waiter that is held back leaves the order meanwhile: no other leaves room for it. It is served when the hold-back has ended.
func TestWaiterThatIsHeldBackLeavesTheOrder(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	limit := core.TokenBucket(10, core.PerSecond(1000)).Named("partner")
	all, _ := fleet(t, client, 2)
	ctx, cancel := context.WithCancel(t.Context()) // without a deadline, before which the waiter could not be served
	defer cancel()
	ended := make(map[string]chan error)
	for key, holds := range map[string]time.Duration{"long": time.Hour, "short": 500 * time.Millisecond} {
		if err := all[0].HoldBack(ctx, key, holds); err != nil {
			t.Fatal(err)
		}
		told := make(chan error, 1)
		ended[key] = told
		go func() { told <- all[0].WaitN(ctx, key, limit, 10, core.WithHoldBack()) }()
	}
	within, giveUp := context.WithTimeout(ctx, patient)
	defer giveUp()
	var crowd sync.WaitGroup
	for i := range 8 {
		crowd.Go(func() {
			for range 25 {
				if err := all[i%2].WaitN(within, "long", limit, 5); err != nil {
					t.Errorf("a waiter waits beside one that is held back: %v", err)
					return
				}
			}
		})
	}
	crowd.Wait()
	if err := <-ended["short"]; err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended["long"]; err == nil {
		t.Error("a waiter is served while its key is held back")
	}
}

// A waiter notices units that another process has given back, however far away it was told to ask again.
func TestWaiterNoticesAResetOfAnotherProcess(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	limit := core.TokenBucket(10, core.PerHour(1))
	for name, wait := range map[string]func(context.Context, *core.Limiter) error{
		"Wait": func(ctx context.Context, l *core.Limiter) error { return l.Wait(ctx, "key", limit) },
		"WaitAll": func(ctx context.Context, l *core.Limiter) error {
			_, err := l.WaitAll(ctx, []core.Check{{Key: "key", Limit: limit}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, prefix := fleet(t, client, 3)
			if _, err := all[0].AllowN(t.Context(), "key", limit, limit.Capacity()); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 2)
			for i := range cap(ended) { // the second one is behind the first, of another process
				go func() { ended <- wait(t.Context(), all[i]) }()
				waitingFor(t, client, prefix, "key", limit, i+1)
				time.Sleep(200 * time.Millisecond) // long before, so that it leaves all room to the first
			}
			time.Sleep(1300 * time.Millisecond) // both have looked
			if err := all[2].Reset(t.Context(), "key", limit); err != nil {
				t.Fatal(err)
			}
			over := time.After(patient)
			for range cap(ended) {
				select {
				case err := <-ended:
					if err != nil {
						t.Error(err)
					}
				case <-over:
					t.Fatal("it waits beside what is free")
				}
			}
		})
	}
}

// A call for a place that a hold-back denies at its turn is no waiter for the place any more: others have it.
func TestCallThatIsHeldBackIsNoWaiterForItsPlace(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	all, prefix := fleet(t, client, 2)
	limit := core.Concurrent(1, time.Minute).Named("one")
	p, err := all[1].TryAcquire(t.Context(), "key", limit)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := all[0].Acquire(ctx, "key", limit, core.WithHoldBack())
		ended <- err
	}()
	registered(t, client, redisKey(prefix, "key", limit), 1)
	if err := all[1].HoldBack(t.Context(), "key", time.Hour); err != nil {
		t.Fatal(err)
	}
	registered(t, client, redisKey(prefix, "key", limit), 0) // it has asked, as it does in case a message was lost
	p.Release()
	within, giveUp := context.WithTimeout(t.Context(), patient)
	defer giveUp()
	if p, err = all[1].Acquire(within, "key", limit); err != nil {
		t.Fatal(err)
	}
	p.Release()
	cancel()
	if err := <-ended; err == nil {
		t.Error("the call is served while its key is held back")
	}
}

// A waiter that looks whether others have given units back, and does not reach the store, sleeps on.
func TestWaiterThatLooksInVainSleepsOn(t *testing.T) {
	server := redistest.Shared(t)
	limit := core.TokenBucket(1, core.PerHour(1))
	for name, wait := range map[string]func(context.Context, *core.Limiter) error{
		"Wait": func(ctx context.Context, l *core.Limiter) error { return l.Wait(ctx, "key", limit) },
		"WaitAll": func(ctx context.Context, l *core.Limiter) error {
			_, err := l.WaitAll(ctx, []core.Check{{Key: "key", Limit: limit}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var failed atomic.Int64
			trace := core.WithTrace(core.Trace{Batch: func(b core.Batch) {
				if b.Err != nil {
					failed.Add(1)
				}
			}})
			proxy := faultproxy.Start(t, server.Addr())
			others, prefix := fleet(t, server.Client(t), 1)
			sleeper := core.New(core.NewRedis(server.Client(t, func(o *redis.Options) { o.Addr = proxy.Addr() }),
				core.WithPrefix(prefix), core.WithBudget(patient), core.WithLogger(slog.New(slog.DiscardHandler)), trace))
			defer sleeper.Close()
			if _, err := others[0].Allow(t.Context(), "key", limit); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- wait(t.Context(), sleeper) }()
			waitingFor(t, server.Client(t), prefix, "key", limit, 1)
			proxy.Set(faultproxy.Fault{Refuse: true})
			for deadline := time.Now().Add(patient); failed.Load() == 0; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("it does not look")
				}
			}
			proxy.Heal()
			if err := others[0].Reset(t.Context(), "key", limit); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
