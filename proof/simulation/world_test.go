package simulation_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// longestPoll is how long after it was given back in another process a place is noticed at the latest.
const longestPoll = 100 * time.Millisecond

// patience is how long a waiter is overtaken before others have to wait for it.
const patience = 500 * time.Millisecond

type world struct {
	t         *rapid.T
	ledger    *ledger
	processes []*process
	n         int // how many places there are, for those who come now

	mu    sync.Mutex
	works []*work             // in the order in which they came
	heads map[line]*headSince // who has been the first waiter, since when
}

type headSince struct {
	work *work
	at   time.Time
}

func severalProcesses(t *rapid.T) {
	w := &world{t: t, ledger: newLedger(t), n: 3, heads: make(map[line]*headSince)}
	w.ledger.works = w.holding
	for i := range rapid.IntRange(1, 5).Draw(t, "processes") {
		w.processes = append(w.processes, newProcess(i, w.ledger))
	}
	defer w.end()
	steps := rapid.SampledFrom([]time.Duration{
		0, time.Microsecond, time.Millisecond, 10 * time.Millisecond, 110 * time.Millisecond, budget, time.Second, lease / 3, lease, time.Minute,
	})
	t.Repeat(map[string]func(*rapid.T){
		"begin": func(t *rapid.T) { w.begin(drawWork(t, w.process(t), w.n)) },
		"begin several": func(t *rapid.T) {
			p := w.process(t)
			for range rapid.IntRange(2, 4).Draw(t, "works") {
				w.begin(drawWork(t, p, w.n))
				synctest.Wait()
			}
		},
		"finish": func(t *rapid.T) {
			if one := w.work(t, holds); one != nil {
				w.finish(one, rapid.IntRange(0, 2).Draw(t, "way"))
			}
		},
		"forget": func(t *rapid.T) {
			if one := w.work(t, holds); one != nil && rapid.IntRange(0, 4).Draw(t, "really") == 4 {
				w.mu.Lock()
				one.state, one.left = over, true
				w.mu.Unlock()
			}
		},
		"leave": func(t *rapid.T) {
			if one := w.work(t, waits); one != nil {
				w.mu.Lock()
				one.left = true
				w.mu.Unlock()
				one.cancel()
			}
		},
		"time passes": func(t *rapid.T) { time.Sleep(steps.Draw(t, "time")) },
		"a lease ends": func(t *rapid.T) {
			if at, ok := w.ledger.nextExpiry(); ok {
				time.Sleep(time.Until(at) + rapid.SampledFrom([]time.Duration{-time.Microsecond, 0, time.Microsecond}).Draw(t, "around"))
			}
		},
		"weather": func(t *rapid.T) {
			w.process(t).setFates(rapid.SliceOfN(fates, 0, 4).Draw(t, "fates"))
		},
		"calm": func(t *rapid.T) { w.process(t).setFates(nil) },
		"pause, or go on": func(t *rapid.T) {
			w.process(t).pause()
		},
		"kill": func(t *rapid.T) {
			if rapid.IntRange(0, 3).Draw(t, "really") == 3 {
				w.process(t).kill()
			}
		},
		"close": func(t *rapid.T) {
			if rapid.IntRange(0, 5).Draw(t, "really") == 5 {
				p := w.process(t)
				go func() { _ = p.limiter.Close() }()
			}
		},
		"renumber": func(t *rapid.T) { w.n = rapid.IntRange(1, 5).Draw(t, "places in all") },
		"": func(*rapid.T) {
			synctest.Wait()
			w.check()
		},
	})
}

func (w *world) process(t *rapid.T) *process {
	return rapid.SampledFrom(w.processes).Draw(t, "process")
}

// work returns one of the works of living processes in a state, or nil.
func (w *world) work(t *rapid.T, state int) *work {
	var some []*work
	for _, one := range w.inState(state) {
		if one.process.lives() && !one.left {
			some = append(some, one)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return rapid.SampledFrom(some).Draw(t, "work")
}

func (w *world) inState(state int) (some []*work) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.works {
		if one.state == state {
			some = append(some, one)
		}
	}
	return some
}

// lines returns where somebody has waited for a key.
func (w *world) lines(key string) (all []line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.works {
		if at := one.line(); one.key == key && !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	return all
}

// holding returns the works that have a permit.
func (w *world) holding() []*work { return w.inState(holds) }

// begin begins a work, which then waits or holds its places until it is told to finish.
func (w *world) begin(one *work) {
	ctx, cancel := context.WithCancel(context.Background())
	one.cancel, one.began = cancel, now()
	w.mu.Lock()
	w.works = append(w.works, one)
	w.mu.Unlock()
	go func() {
		permit, reservation, err := one.acquire(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		one.permit, one.reservation, one.state = permit, reservation, holds
		if err == nil {
			return
		}
		one.state = over
		if _, limited := errors.AsType[*core.LimitedError](err); !limited && !errors.Is(err, context.Canceled) && core.FailureOf(err) == "other" {
			w.t.Errorf("process %d: %v", one.process.number, err)
		}
	}()
}

// finish gives back the places of a work.
func (w *world) finish(one *work, way int) {
	w.mu.Lock()
	one.state = over
	w.mu.Unlock()
	go func() {
		defer one.cancel()
		if err := one.giveBack(one.permit, one.reservation, way); err != nil {
			w.t.Errorf("process %d: %v", one.process.number, err)
		}
		if one.permit.Err() == nil {
			w.t.Errorf("process %d believes to hold what it has given back", one.process.number)
		}
	}()
}

// check looks at the laws when nothing more happens at this time.
func (w *world) check() {
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	w.ledger.believe()
	for _, key := range []string{"a", "b"} {
		w.checkStore(key)
		for _, at := range w.lines(key) {
			w.checkWaiters(at)
		}
	}
	w.checkGrants()
}

// checkStore wants as many places of a key to be held in the store as the ledger says. It is locked.
func (w *world) checkStore(key string) {
	d, err := core.New(w.ledger.store).Peek(context.Background(), key, placesOf(20))
	if held := w.ledger.held(key); err != nil || 20-d.Remaining != held {
		w.t.Errorf("%d places of %s are held in the store, want %d: %v", 20-d.Remaining, key, held, err)
	}
}

// checkGrants wants processes that are well to hold nothing but what they know of. The ledger is locked.
func (w *world) checkGrants() {
	known := make(map[string]map[uint64]bool)
	w.mu.Lock()
	for _, one := range w.works {
		if one.permit != nil && (one.state == holds || one.left) {
			if known[one.key] == nil {
				known[one.key] = make(map[uint64]bool)
			}
			known[one.key][one.permit.Token()] = true
		}
	}
	w.mu.Unlock()
	for _, g := range w.ledger.grants {
		// The call itself may have been unanswered, and the one before it that gives places back.
		if g.unknown || !g.until.After(now()) || now().Sub(g.at) < 3*budget || !g.process.calmSince(g.at) || known[g.key][g.token] {
			continue
		}
		w.t.Errorf("process %d has not given back token %d of %s after %v", g.process.number, g.token, g.key, now().Sub(g.at))
	}
}

// checkWaiters wants the waiters of a process who want the same to be served in order, and soon. The ledger is locked.
func (w *world) checkWaiters(at line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var head *work
	var latest, together uint64 // tokens of those who began before, and of those who began in the same instant, in any order
	var instant time.Time
	passed, most := 0, 5
	for _, one := range w.works {
		if one.line() != at || !one.waits {
			continue
		}
		if one.began.After(instant) {
			instant, latest = one.began, max(latest, together)
		}
		inOrder := at.process.calmSince(one.began.Add(-budget)) // those whose calls are on their way may pass each other
		switch {
		case one.state == waits && head == nil:
			head = one
		case !inOrder:
		case one.permit != nil && head != nil && !head.left && at.process.calmSince(head.began.Add(-budget)) && !head.rated:
			if passed++; passed > most { // as many as are asked for at the same time
				w.t.Errorf("process %d: token %d of %s was granted before its turn", at.process.number, one.permit.Token(), at.key)
			}
		case one.permit != nil && one.permit.Token()+uint64(time.Millisecond/time.Microsecond) <= latest && !one.rated:
			w.t.Errorf("process %d: token %d of %s was granted after %d", at.process.number, one.permit.Token(), at.key, latest)
		case one.permit != nil && !one.rated:
			together = max(together, one.permit.Token())
		}
	}
	if head == nil {
		delete(w.heads, at)
		return
	}
	since := w.heads[at]
	if since == nil || since.work != head {
		since = &headSince{head, now()}
		w.heads[at] = since
	}
	if head.rated || w.ledger.held(at.key)+head.cost > head.limit.Capacity() || w.blocked(head) {
		since.at = now()
		return
	}
	changed, expired, free := w.ledger.changed[at.key], w.ledger.expiredAt(at.key), since.at
	for _, latest := range []time.Time{changed, expired} {
		if latest.After(free) {
			free = latest
		}
	}
	switch waited := now().Sub(free); {
	case !at.process.calmSince(free.Add(-lease)): // calls on their way may take a while
	case waited > longestPoll:
		w.t.Errorf("process %d: the first waiter for %s has waited for %v, and its places are free", at.process.number, at.key, waited)
	case w.ledger.releaser[at.key] == at.process && changed.Equal(now()) && since.at.Before(changed) && expired.Before(changed):
		w.t.Errorf("process %d: it has given back places of %s, and its first waiter waits", at.process.number, at.key)
	}
}

// blocked reports whether a waiter has to wait for another one that has been overtaken for its patience.
func (w *world) blocked(one *work) bool {
	return slices.ContainsFunc(w.works, func(older *work) bool {
		return older.state == waits && older.waits && older.process == one.process && older.key == one.key &&
			older != one && !older.began.After(one.began) && now().Sub(older.began) >= patience && older.limit.Capacity() >= one.limit.Capacity()
	})
}

// end lets everything come to its end, and wants all places to be free then.
func (w *world) end() {
	for _, p := range w.processes {
		p.setFates(nil)
		if p.link.paused != nil {
			p.pause()
		}
	}
	for _, one := range w.inState(waits) {
		one.cancel()
	}
	time.Sleep(budget)
	for _, one := range w.holding() {
		w.finish(one, 0)
	}
	time.Sleep(lease)
	for _, p := range w.processes {
		_ = p.limiter.Close()
	}
	time.Sleep(2 * lease)
	synctest.Wait()
	if left := w.inState(waits); len(left) > 0 {
		w.t.Errorf("%d still wait", len(left))
	}
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	for _, key := range []string{"a", "b"} {
		if w.checkStore(key); w.ledger.held(key) > 0 {
			w.t.Errorf("%d places of %s are held in the end", w.ledger.held(key), key)
		}
	}
}
