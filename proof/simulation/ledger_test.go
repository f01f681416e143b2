package simulation_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// grant is places that the store has granted, as the ledger sees them.
type grant struct {
	process *process
	key     string
	places  int
	token   uint64
	at      time.Time
	until   time.Time
	unknown bool // to its process: the call came too late, or twice
}

// ledger is the store, and a model of it that is told all that reaches the store. It wants to know, whenever
// places are granted, that there are enough, and that whoever believes to have some does have them.
type ledger struct {
	t     *rapid.T
	store core.Store

	mu       sync.Mutex
	grants   map[core.Receipt]*grant
	latest   map[string]uint64    // the greatest token of each key
	changed  map[string]time.Time // when places were last granted or given back
	releaser map[string]*process  // who gave places back then; nil: they were granted
	works    func() []*work       // those that may believe to hold places
}

// line is where waiters wait in order: in a process, for so many places of a key under a plan.
type line struct {
	process *process
	key     string
	limit   core.Limit
	cost    int
}

// now returns the time as the store's clock shows it.
func now() time.Time { return time.Now().Truncate(time.Microsecond) }

func newLedger(t *rapid.T) *ledger {
	return &ledger{
		t: t, store: core.NewMemory(), grants: make(map[core.Receipt]*grant),
		latest: make(map[string]uint64), changed: make(map[string]time.Time), releaser: make(map[string]*process),
	}
}

// idOf returns what of a receipt identifies a holder.
func idOf(r core.Receipt) core.Receipt { return core.Receipt{Note: r.Note} }

// decide has the store decide a call of a process. unknown says that the process never knows the holder.
func (l *ledger) decide(of *process, c *core.Call, unknown bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := make(map[string]int)
	for i := range c.Checks {
		held[c.Checks[i].Key] = l.held(c.Checks[i].Key)
	}
	if _, err := l.store.Decide(context.Background(), []core.Call{*c}); err != nil {
		return err
	}
	passed := !slices.ContainsFunc(c.Decisions, func(d core.Decision) bool { return !d.Allowed })
	for i := range c.Checks {
		check, d := &c.Checks[i], &c.Decisions[i]
		if !isPlace(check.Limit) || check.Mode != core.Charge {
			continue
		}
		n := check.Limit.Capacity()
		if fits := held[check.Key]+check.Units() <= n; fits != d.Allowed {
			l.t.Errorf("%d of %d places are held, and %d more are allowed: %v", held[check.Key], n, check.Units(), d.Allowed)
		}
		if !passed || c.Receipts == nil {
			continue
		}
		if d.Token <= l.latest[check.Key] {
			l.t.Errorf("token %d after %d", d.Token, l.latest[check.Key])
		}
		l.latest[check.Key] = d.Token
		l.changed[check.Key], l.releaser[check.Key] = now(), nil
		l.grants[idOf(c.Receipts[i])] = &grant{
			process: of, key: check.Key, places: check.Units(), token: d.Token, at: now(), until: now().Add(lease), unknown: unknown,
		}
		l.believe()
	}
	return nil
}

// settle has the store settle a list for a process.
func (l *ledger) settle(of *process, list []core.Settlement) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.store.Settle(context.Background(), list); err != nil {
		return err
	}
	for i := range list {
		s := &list[i]
		if !isPlace(s.Check.Limit) {
			continue
		}
		id := idOf(s.Receipt)
		g := l.grants[id]
		lives := g != nil && g.until.After(now())
		if s.Renew && s.Lost == lives {
			l.t.Errorf("a renewal is lost: %v, and the lease lives: %v", s.Lost, lives)
		}
		switch {
		case s.Renew && lives:
			g.until = now().Add(lease)
		case !s.Renew && lives:
			l.changed[g.key], l.releaser[g.key] = now(), of
			delete(l.grants, id)
		}
	}
	return nil
}

// held returns how many places of a key are held now. l is locked.
func (l *ledger) held(key string) (places int) {
	for _, g := range l.grants {
		if g.key == key && g.until.After(now()) {
			places += g.places
		}
	}
	return places
}

// expiredAt returns when places of a key were last free because a lease had ended. l is locked.
func (l *ledger) expiredAt(key string) (latest time.Time) {
	for _, g := range l.grants {
		if g.key == key && !g.until.After(now()) && g.until.After(latest) {
			latest = g.until
		}
	}
	return latest
}

// believe wants whoever believes to hold places to hold them. l is locked.
func (l *ledger) believe() {
	holds := make(map[string]map[uint64]bool)
	for _, g := range l.grants {
		if g.until.After(now()) {
			if holds[g.key] == nil {
				holds[g.key] = make(map[uint64]bool)
			}
			holds[g.key][g.token] = true
		}
	}
	for _, w := range l.works() {
		if w.permit.Err() == nil && !holds[w.key][w.permit.Token()] {
			l.t.Errorf("process %d believes to hold token %d of %s", w.process.number, w.permit.Token(), w.key)
		}
	}
}

// nextExpiry returns when the next lease ends, or false.
func (l *ledger) nextExpiry() (next time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.grants {
		if g.until.After(now()) && (!ok || g.until.Before(next)) {
			next, ok = g.until, true
		}
	}
	return next, ok
}
