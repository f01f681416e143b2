package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/internal/redistest"
)

// However processes take, wait for and give back places of one key, under plans of several sizes and with headroom, and
// whichever of them die meanwhile:
//
//   - nobody is granted more than its ceiling leaves, and whoever is granted holds it
//   - nobody is denied what is free, unless it is kept for a waiter that has been overtaken for its patience
//   - who is denied is known, and who is served or has left is not
//   - whatever is given back goes to the waiters that fit, the one that came first before all others, and they are told
//   - places that are given back without telling whose are as many as are held at most, and none that are kept for a waiter
//   - no waiter passes one that came before and wants the same, or one that has been overtaken for its patience
//   - in the end everybody who still asks is served, and the dead cost the others no more than a second
func TestOrderOfWaiters(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	prefix := redistest.Prefix(t)
	subscription := client.PSubscribe(t.Context(), prefix+":waiting:*")
	defer func() { _ = subscription.Close() }()
	if _, err := subscription.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	keys := 0
	rapid.Check(t, func(rt *rapid.T) {
		keys++
		o := &order{T: rt, client: client, told: subscription, key: fmt.Sprint("key:", keys), now: 1763683200_000_000}
		o.store = newStore(client, func(c *Config) {
			c.Prefix, c.Clock = prefix, func() int64 { return o.now }
		})
		defer func() { _ = o.store.Close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"try":     func(*rapid.T) { o.ask(o.draw("", 0)) },
			"arrive":  func(*rapid.T) { o.arrive() },
			"ask":     func(*rapid.T) { o.with((*asker).waits, o.ask) },
			"release": func(*rapid.T) { o.with((*asker).holds, o.release) },
			"oldest":  func(*rapid.T) { o.giveBackOldest() },
			"renew":   func(*rapid.T) { o.with((*asker).holds, o.renew) },
			"leave":   func(*rapid.T) { o.with((*asker).waits, o.leave) },
			"die":     func(*rapid.T) { o.with((*asker).lives, o.forget) },
			"reset":   func(*rapid.T) { o.reset() },
			"time":    func(*rapid.T) { o.now += rapid.SampledFrom(pauses).Draw(rt, "pause").Microseconds() },
		})
		o.serveAll()
	})
}

// length is how long a lease of the test is, and life how long a waiter lives that does not ask.
const (
	length   = 5 * time.Second
	life     = 900 * time.Millisecond
	patience = 500 * time.Millisecond
)

var pauses = []time.Duration{
	time.Microsecond, time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, patience - time.Microsecond, patience, life - time.Microsecond, life, length,
}

// plans are limits of one name, by their sizes.
var plans = func() (specs []*exact.Spec) {
	var identity *exact.Spec
	for capacity := 1; capacity <= 5; capacity++ {
		p := exact.Params{Algorithm: exact.Concurrent, Capacity: capacity, Events: capacity, Period: length, Name: "plan"}
		if identity == nil {
			identity = exact.NewSpec(p.Identity(), nil)
		}
		specs = append(specs, exact.NewSpec(p, identity))
	}
	return specs
}()

// asker is a call for places: one that tries, if its waiter is nil, or one that waits.
type asker struct {
	check  call.Check
	waiter *call.Waiter
	ends   int64 // of what it holds
	gone   bool
}

func (a *asker) ceiling() int { return a.check.Spec.Capacity - a.check.Headroom }
func (a *asker) holds() bool  { return !a.gone && a.ends > 0 }
func (a *asker) waits() bool  { return !a.gone && a.ends == 0 }
func (a *asker) lives() bool  { return !a.gone }
func (a *asker) name() string { return string(a.waiter.AppendName(nil)) }
func (a *asker) label() string {
	return fmt.Sprintf("a call for %d up to %d", a.check.Units, a.ceiling())
}

// order is a history of calls about one key.
type order struct {
	*rapid.T

	client *redis.Client
	store  *Store
	told   *redis.PubSub
	key    string
	now    int64
	askers []*asker // who wait or hold
	lines  int
}

// seat is a waiter as Redis knows it.
type seat struct {
	name          string
	since, lives  int64
	ceiling, cost int
}

// toldOnly reports whether nothing is kept for a waiter that has its turn at an instant.
func (s *seat) toldOnly(now int64) bool {
	return strings.Contains(s.name, "~") && now-s.since < patience.Microseconds()
}

// seen is what Redis knows of a key.
type seen struct {
	now     int64
	waiters []seat
	holders map[string]int64 // when they end
	used    int
	called  int // places that are left to waiters who have just been told, and nothing is kept for
}

func (s *seen) String() string {
	return fmt.Sprintf("at %d %d are used, of %v, %d are left to those who were told, and %+v wait", s.now, s.used, s.holders, s.called, s.waiters)
}

// living returns the waiters that live, in the order in which they came.
func (s *seen) living() (list []seat) {
	for _, w := range s.waiters {
		if w.lives > s.now {
			list = append(list, w)
		}
	}
	slices.SortFunc(list, func(a, b seat) int { return cmp.Compare(a.since, b.since) })
	return list
}

func (s *seen) knows(name string) bool {
	return slices.ContainsFunc(s.waiters, func(w seat) bool { return w.name == name })
}

// blocks returns a waiter that came before an instant, does not fit, and keeps those up to a ceiling waiting.
func (s *seen) blocks(ceiling int, before int64) bool {
	return slices.ContainsFunc(s.living(), func(w seat) bool {
		return w.since < before && w.ceiling >= ceiling && s.now-w.since >= patience.Microseconds() && w.cost > w.ceiling-s.used-s.called
	})
}

// look reads what Redis knows.
func (o *order) look() *seen {
	list, err := o.client.ZRangeWithScores(context.Background(), o.store.Name(o.key, plans[0]), 0, -1).Result()
	if err != nil {
		o.Fatal(err)
	}
	s, lives, further, beyond := &seen{now: o.now, holders: map[string]int64{}}, map[string]int64{}, 0, 0
	overdue := map[string]int64{}
	for _, z := range list {
		name, score := z.Member.(string), int64(z.Score)
		switch {
		case name == ".":
		case name == "*":
			further = int(score + 8200000000000000)
		case name[0] == '@':
			lives[name[1:]] = score + 8000000000000000
		case name[0] == '!':
			overdue[name[1:]] = score + 5000000000000000
		case score < 0:
			class := int(score + 9000000000000000)
			since, _ := strconv.ParseInt(name[:16], 10, 64)
			s.waiters = append(s.waiters, seat{name: name, since: since, ceiling: class >> 20, cost: class & (1<<20 - 1)})
		default:
			s.holders[name] = score
			beyond += call.HolderPlaces(name) - 1
			if score > o.now {
				s.used += call.HolderPlaces(name)
			}
		}
	}
	for i := range s.waiters {
		w := &s.waiters[i]
		w.lives = lives[w.name]
		if since, ok := overdue[w.name]; ok && (since != w.since/1000 || w.lives-life.Microseconds()-w.since < patience.Microseconds()) {
			o.Errorf("%q is said to be overdue since %d", w.name, since)
		}
		delete(lives, w.name)
		delete(overdue, w.name)
	}
	if further != beyond || len(lives) > 0 || len(overdue) > 0 {
		o.Errorf("%d further places are counted, want %d; %v are said to live, %v to be overdue, and do not wait", further, beyond, lives, overdue)
	}
	return s
}

// draw draws a call. It waits if it has an id.
func (o *order) draw(id string, age int64) *asker {
	a := &asker{check: call.Check{Key: o.key, Spec: plans[rapid.IntRange(1, len(plans)).Draw(o.T, "plan")-1], Units: 1, Holder: call.NewHolder()}}
	if n := a.check.Spec.Capacity; n > 1 && rapid.IntRange(0, 2).Draw(o.T, "like most") == 2 {
		a.check.Units = rapid.IntRange(1, n).Draw(o.T, "cost")
		a.check.Headroom = rapid.IntRange(0, n-a.check.Units).Draw(o.T, "headroom")
	}
	if id != "" {
		a.waiter = &call.Waiter{ID: id, Age: age}
	}
	return a
}

// arrive has a call come, be denied perhaps, and wait then. It may have waited in its process already.
func (o *order) arrive() {
	o.lines++
	id := fmt.Sprintf("process%d-%d", o.lines%3, o.lines)
	if rapid.IntRange(0, 4).Draw(o.T, "told only") == 4 {
		id = "~" + id
	}
	o.ask(o.draw(id, rapid.SampledFrom([]int64{0, 0, 1000, 600_000}).Draw(o.T, "age")))
}

// with does something with one of the calls that has a property.
func (o *order) with(has func(*asker) bool, do func(*asker)) {
	var some []*asker
	for _, a := range o.askers {
		if has(a) {
			some = append(some, a)
		}
	}
	if len(some) > 0 {
		do(some[rapid.IntRange(0, len(some)-1).Draw(o.T, "call")])
	}
}

// ask asks for the places of a call.
func (o *order) ask(a *asker) {
	before := o.look()
	kept := false
	check := a.check
	if a.waiter != nil {
		own := *a.waiter
		check.Waiter = &own
		if own.Since == 0 {
			own.Since = o.now - own.Age
		}
		kept = before.keeps(string(own.AppendName(nil)), a.check.Units)
	}
	c := callOf(check)
	if _, err := o.store.Decide(context.Background(), []*call.Call{c}); err != nil {
		o.Fatal(err)
	}
	after, since := o.look(), o.now
	if a.waiter != nil {
		if a.waiter.Since == 0 {
			a.waiter.Since = o.now - a.waiter.Age
		}
		since = a.waiter.Since
	}
	o.handed(before, after, a)
	if !slices.Contains(o.askers, a) && (a.waiter != nil || c.Passed()) {
		o.askers = append(o.askers, a)
	}
	if !c.Passed() {
		if a.check.Units <= a.ceiling()-after.used-after.called && !after.blocks(a.ceiling(), since) {
			o.Errorf("%s is denied, and %d are used", a.label(), after.used)
		}
		switch {
		case a.waiter == nil:
		case !after.knows(a.name()):
			o.Errorf("%s is denied, and not known to wait", a.label())
		case c.Checks[0].Usage.Fourth != a.waiter.Since:
			o.Errorf("%s is told that it waits since %d, want %d", a.label(), c.Checks[0].Usage.Fourth, a.waiter.Since)
		}
		return
	}
	a.ends = o.now + length.Microseconds()
	if name := call.HolderName(a.check.Holder); after.holders[name]+after.holders[fmt.Sprint(name, "*", a.check.Units)] != a.ends {
		o.Errorf("%s is granted, and does not hold its places until %d: %v", a.label(), a.ends, after)
	}
	if after.used > a.ceiling() {
		o.Errorf("%s is granted, and %d are used then", a.label(), after.used)
	}
	if a.waiter != nil && after.knows(a.name()) {
		o.Errorf("%s is granted, and known to wait", a.label())
	}
	if !kept {
		o.passes(after, since, a.ceiling(), a.check.Units)
	}
}

// keeps reports whether places are kept for a waiter.
func (s *seen) keeps(name string, places int) bool {
	if name = "+" + name; places > 1 {
		name += "*" + strconv.Itoa(places)
	}
	return s.holders[name] > s.now
}

// passes wants a call that was served to have passed no waiter that should have been served before.
func (o *order) passes(after *seen, since int64, ceiling, cost int) {
	for _, w := range after.living() {
		switch {
		case w.since >= since:
		case w.ceiling == ceiling && w.cost == cost:
			o.Errorf("%q has come before, and wants the same as whoever is served", w.name)
		case w.ceiling >= ceiling && after.now-w.since >= patience.Microseconds():
			o.Errorf("%q has been overtaken for its patience, and is again by one for %d up to %d since %d: %v", w.name, cost, ceiling, since, after)
		case w.cost <= w.ceiling-(after.used+after.called-cost) && !after.blocks(w.ceiling, w.since):
			o.Errorf("%q has come before, and fits", w.name)
		}
	}
}

// handed wants those whom an operation has served to be told, to have their places kept, and to be the right ones. by is
// whoever has asked, or nil.
func (o *order) handed(before, after *seen, by *asker) {
	var want []string
	var served []seat
	for _, w := range before.living() {
		if after.knows(w.name) || by != nil && by.waiter != nil && w.name == by.name() {
			continue
		}
		if served = append(served, w); w.toldOnly(after.now) {
			after.called += w.cost
		}
	}
	for _, w := range served {
		id := w.name[17:]
		process, line, _ := strings.Cut(strings.TrimPrefix(id, "~"), "-")
		want = append(want, process+" "+line)
		if !w.toldOnly(after.now) && !after.keeps(w.name, w.cost) {
			o.Errorf("%q is not known any more, and nothing is kept for it", w.name)
		}
		o.passes(after, w.since, w.ceiling, w.cost)
	}
	var got []string
	for range want {
		message, err := o.told.ReceiveTimeout(context.Background(), time.Minute)
		if err != nil {
			o.Fatalf("%v are to be told: %v", want, err)
		}
		m := message.(*redis.Message)
		got = append(got, m.Channel[strings.LastIndexByte(m.Channel, ':')+1:]+" "+m.Payload)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		o.Errorf("%q are told, want %q", got, want)
	}
}

// correct sends corrections, and wants nobody to wait beside what is free then.
func (o *order) correct(by *asker, list ...call.Correction) {
	before := o.look()
	if err := o.store.Settle(context.Background(), list); err != nil {
		o.Fatal(err)
	}
	after := o.look()
	o.handed(before, after, by)
	if before.used == after.used && by == nil {
		return
	}
	for _, w := range after.living() {
		if w.cost <= w.ceiling-after.used-after.called && !after.blocks(w.ceiling, w.since) {
			o.Errorf("%q waits beside what is free: %v, and before %v", w.name, after, before)
		}
	}
}

func (o *order) correction(a *asker, of exact.Correction) call.Correction {
	of.Events = -a.check.Units
	return call.Correction{Correction: of, Key: o.key, Spec: a.check.Spec}
}

func (o *order) release(a *asker) {
	o.correct(nil, o.correction(a, exact.Correction{Holder: a.check.Holder}))
	o.forget(a)
}

// giveBackOldest gives back places of whoever holds them: never those that are kept for a waiter.
func (o *order) giveBackOldest() {
	places := rapid.IntRange(1, 4).Draw(o.T, "given back")
	before := o.look()
	want := max(0, before.heldNow()-places)
	o.correct(nil, call.Correction{Correction: exact.Correction{Events: -places, Oldest: true}, Key: o.key, Spec: plans[4]})
	after := o.look()
	if got := after.heldNow(); got != want {
		o.Errorf("%d of %d places are given back, and %d are held then: %v, and before %v", places, before.heldNow(), got, after, before)
	}
	for _, a := range slices.Clone(o.askers) {
		name := call.HolderName(a.check.Holder)
		if a.check.Units > 1 {
			name += "*" + strconv.Itoa(a.check.Units)
		}
		if a.holds() && a.ends > o.now && after.holders[name] != a.ends {
			o.forget(a) // it may have kept some of its places, and is not told
		}
	}
}

// heldNow returns how many places are held, those that are kept for waiters left aside.
func (s *seen) heldNow() (places int) {
	for name, ends := range s.holders {
		if ends > s.now && !strings.HasPrefix(name, "+") {
			places += call.HolderPlaces(name)
		}
	}
	return places
}

func (o *order) renew(a *asker) {
	list := []call.Correction{o.correction(a, exact.Correction{Holder: a.check.Holder, Renew: true})}
	if err := o.store.Settle(context.Background(), list); err != nil {
		o.Fatal(err)
	}
	if lost := a.ends <= o.now; list[0].Lost != lost {
		o.Errorf("places are lost: %t, want %t", list[0].Lost, lost)
	}
	if list[0].Lost {
		o.forget(a)
	} else {
		a.ends = o.now + length.Microseconds()
	}
}

func (o *order) leave(a *asker) {
	own := o.correction(a, exact.Correction{})
	own.Leaves = a.waiter
	o.correct(a, own)
	if s := o.look(); s.knows(a.name()) || s.keeps(a.name(), a.check.Units) {
		o.Errorf("%q has left, and is known", a.name())
	}
	o.forget(a)
}

// forget ends what is known of a call here: it is over, or its process is dead.
func (o *order) forget(a *asker) {
	a.gone = true
	o.askers = slices.DeleteFunc(o.askers, func(other *asker) bool { return other == a })
}

func (o *order) reset() {
	if rapid.IntRange(0, 9).Draw(o.T, "really") < 9 {
		return
	}
	o.correct(nil, call.Correction{Key: o.key, Spec: plans[4], Reset: true})
	for _, a := range slices.Clone(o.askers) {
		if a.holds() {
			o.forget(a)
		}
	}
}

// serveAll has all who wait ask from time to time, while whoever is served gives back soon.
func (o *order) serveAll() {
	for range 2 * (len(o.askers) + 40) {
		for _, a := range slices.Clone(o.askers) {
			if a.holds() {
				o.release(a)
			}
		}
		if len(o.askers) == 0 {
			return
		}
		o.now += (250 * time.Millisecond).Microseconds()
		for _, a := range slices.Clone(o.askers) {
			o.ask(a)
		}
	}
	o.Errorf("%d are not served: %+v", len(o.askers), o.look())
}

// hundred is a limit of 100 places.
var hundred = exact.NewSpec(exact.Params{Algorithm: exact.Concurrent, Capacity: 100, Events: 100, Period: time.Minute, Name: "hundred"}, nil)

// hall is the places of one key, with a clock that a test sets.
type hall struct {
	*testing.T

	store *Store
	now   int64
}

func newHall(t *testing.T) *hall {
	h := &hall{T: t, now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).UnixMicro()}
	h.store = newStore(redistest.Shared(t).Client(t), func(c *Config) {
		c.Prefix, c.Clock = redistest.Prefix(t), func() int64 { return h.now }
	})
	t.Cleanup(func() { _ = h.store.Close() })
	return h
}

// ask asks for places, and reports whether they are granted. waiter is nil for a call that does not wait.
func (h *hall) ask(holder exact.Holder, places int, waiter *call.Waiter) bool {
	h.Helper()
	return h.askBelow(0, holder, places, waiter)
}

// askBelow is ask with a headroom.
func (h *hall) askBelow(headroom int, holder exact.Holder, places int, waiter *call.Waiter) bool {
	h.Helper()
	c := callOf(call.Check{Key: "key", Spec: hundred, Units: places, Headroom: headroom, Holder: holder, Waiter: waiter})
	if _, err := h.store.Decide(context.Background(), []*call.Call{c}); err != nil {
		h.Fatal(err)
	}
	if waiter != nil && !c.Passed() {
		waiter.Since = c.Checks[0].Usage.Fourth
	}
	return c.Passed()
}

func (h *hall) release(holder exact.Holder, places int) {
	h.Helper()
	list := []call.Correction{{Correction: exact.Correction{Events: -places, Holder: holder}, Key: "key", Spec: hundred}}
	if err := h.store.Settle(context.Background(), list); err != nil {
		h.Fatal(err)
	}
}

// waiters returns the waiters of as many processes.
func waiters(n int) []*call.Waiter {
	list := make([]*call.Waiter, n)
	for i := range list {
		list[i] = &call.Waiter{ID: fmt.Sprintf("process%d-1", i)}
	}
	return list
}

// The waiter that came first is served, however many others want other numbers of places, also where these are more than a script
// looks at.
func TestOldestWaiterAmongManyWants(t *testing.T) {
	h := newHall(t)
	var holders []exact.Holder
	for range 100 {
		holder := call.NewHolder()
		if !h.ask(holder, 1, nil) {
			t.Fatal("denied")
		}
		holders = append(holders, holder)
	}
	all := waiters(50)
	costs := func(i int) int { return 60 - i }
	withHeadroom := waiters(40) // older, and waiting for as long as the room is used
	for i, w := range withHeadroom {
		w.ID = fmt.Sprintf("batch%d-1", i)
		w.Age = 10_000_000
		h.askBelow(60+i, call.NewHolder(), 1, w)
	}
	for range 4 {
		for i, w := range all {
			if h.ask(call.NewHolder(), costs(i), w) {
				t.Fatal("granted")
			}
			h.now += 1000
			w.Age += 200_000
		}
		for i, w := range withHeadroom {
			w.Age += 200_000
			h.askBelow(60+i, call.NewHolder(), 1, w)
		}
		h.now += 150_000
	}
	for _, holder := range holders[:59] {
		h.release(holder, 1)
		if h.ask(call.NewHolder(), 1, nil) {
			t.Fatal("a call that does not wait is granted")
		}
	}
	h.release(holders[59], 1)
	if !h.ask(call.NewHolder(), costs(0), all[0]) {
		t.Error("the oldest waiter is denied")
	}
}

// A waiter of a call that needs more than its places is only told at first, and has them kept once its patience is over, so that calls
// that do not wait cannot take them all the time.
func TestPlacesAreKeptForACallThatNeedsMore(t *testing.T) {
	h := newHall(t)
	holder := call.NewHolder()
	h.ask(holder, 100, nil)
	w := &call.Waiter{ID: "~process-1"}
	for range 4 {
		if h.ask(call.NewHolder(), 1, w) {
			t.Fatal("granted")
		}
		h.now += 200_000
		w.Age += 200_000
	}
	h.release(holder, 100)
	if h.ask(call.NewHolder(), 100, nil) {
		t.Error("the place is taken")
	}
	if !h.ask(call.NewHolder(), 1, w) {
		t.Error("the waiter is denied")
	}
}

// A waiter for places stays before the calls that came after it when the clock of Redis steps back.
func TestWaiterForPlacesOutlivesAStepOfTheClock(t *testing.T) {
	h := newHall(t)
	holders := []exact.Holder{call.NewHolder(), call.NewHolder()}
	for _, holder := range holders {
		h.ask(holder, 50, nil)
	}
	w := &call.Waiter{ID: "process-1"}
	for i := range 8 {
		if h.ask(call.NewHolder(), 60, w) {
			t.Fatal("granted")
		}
		h.now += 200_000
		w.Age += 200_000
		if i == 3 {
			h.now -= time.Minute.Microseconds()
		}
	}
	h.release(holders[0], 50)
	if h.ask(call.NewHolder(), 50, nil) {
		t.Error("a call that does not wait is granted what an older one waits for")
	}
	h.release(holders[1], 50)
	last := call.NewHolder()
	if !h.ask(last, 60, w) {
		t.Error("the waiter is denied")
	}
	h.release(last, 60)
	if !h.ask(call.NewHolder(), 100, nil) {
		t.Error("places are kept for a waiter that has been served")
	}
}

// However many keys one call gives places of back, its script looks at a bounded number of waiters. The others ask by themselves.
func TestPlacesOfManyKeysAreGivenBackInBoundedTime(t *testing.T) {
	const keys, wants = 16, 20
	server := redistest.Start(t)
	client := server.Client(t)
	store := newStore(client, func(c *Config) { c.Prefix = redistest.Prefix(t) })
	defer func() { _ = store.Close() }()
	list := make([]call.Correction, keys)
	for i := range list {
		key, holder := fmt.Sprint("key", i), call.NewHolder()
		ask := func(places int, holder exact.Holder, waiter *call.Waiter) {
			c := callOf(call.Check{Key: key, Spec: hundred, Units: places, Holder: holder, Waiter: waiter})
			if _, err := store.Decide(t.Context(), []*call.Call{c}); err != nil || c.Passed() != (waiter == nil) {
				t.Fatal(c.Passed(), err)
			}
		}
		ask(100, holder, nil)
		for cost, waiter := range waiters(wants) {
			ask(100-cost, call.NewHolder(), waiter)
		}
		list[i] = call.Correction{Correction: exact.Correction{Events: -100, Holder: holder}, Key: key, Spec: hundred}
	}
	if err := client.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := store.Settle(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	stats := client.Info(t.Context(), "commandstats").Val()
	looks := regexp.MustCompile(`cmdstat_zrange:calls=(\d+)`).FindStringSubmatch(stats)
	scripts := regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`).FindStringSubmatch(stats)
	if looks == nil || scripts == nil {
		t.Fatal(stats)
	}
	n, err := strconv.Atoi(looks[1])
	if err != nil || n > keys*wants/2 {
		t.Errorf("%d looks at waiters in %s scripts, of %d waiters: %v", n, scripts[1], keys*wants, err)
	}
}
