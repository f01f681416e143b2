package exact

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"
	"unique"

	"github.com/weir-go/ratelimit/core/internal/calendar"
	"github.com/weir-go/ratelimit/internal/unexported"
)

// Params are a limit as the user gives it. They are comparable.
type Params struct {
	// Algorithm is how the limit counts.
	Algorithm Algorithm
	// Name is the limit's given name. A limit without a name has "".
	Name string
	// Capacity is how many events pass at once when the limit is fresh.
	Capacity int
	// Debt is how many events more than the Capacity settlements may use; [math.MaxInt] is as many as can be counted. Checks may not.
	Debt int
	// Events pass in each Period: the rate of a meter. Those of a window are the Capacity.
	Events int
	// Period is the period of the rate, or the length of the window. Where a calendar cuts windows of
	// several lengths it is 0.
	Period time.Duration
	// Ban are the terms of a ban, and zero for other algorithms.
	Ban BanTerms
	// Calendar says which windows a calendar cuts, if the algorithm is [Algorithm.Dated].
	Calendar unique.Handle[calendar.Period]
	// Fair are the terms of a share ([Algorithm.Shares]).
	Fair unique.Handle[FairTerms]
	// Own says that the limit is made by this library, so that its name may begin with [Reserved].
	Own bool
	// Exact says that the store decides every check, also if a process could decide it by itself. It changes neither the
	// state nor an answer.
	Exact bool
}

const (
	// Reserved begins the names of this library's own limits.
	Reserved = "weir-"
	// LongestName bounds the name of a limit, which becomes part of a key and of
	// a header.
	LongestName = 64
)

// Share returns the part of a limit that one of n processes keeps: of the capacity, rounded up, and of the rate.
func (p Params) Share(n int) Params {
	if p.Algorithm.Prepaid() { // the store alone knows how many are left
		return p
	}
	p.Capacity = (p.Capacity-1)/n + 1
	if p.Debt > 0 && p.Debt < math.MaxInt {
		p.Debt = (p.Debt-1)/n + 1
	}
	if p.Algorithm.Windowed() {
		p.Events = p.Capacity
		return p
	}
	high, period := bits.Mul64(uint64(p.Period), uint64(n))
	if high != 0 || period > uint64(Longest) {
		period = uint64(Longest)
	}
	p.Period = time.Duration(period)
	return p
}

// Identity returns the Params that all limits with the same state have in common: the algorithm and
// name of a named limit, and otherwise the Params themselves, unless they are Exact.
func (p Params) Identity() Params {
	if p.Algorithm == FairShare {
		p = p.unweighted()
	}
	if p.Name == "" {
		p.Exact = false
		return p
	}
	return Params{Algorithm: p.Algorithm, Name: p.Name, Fair: p.Fair}
}

// Traits follow from the Params, and are worked out once.
type Traits struct {
	// StateName is the part of a state's name that tells the limit from all limits with another [Spec.Identity]: the derived
	// name of a limit without a name, and otherwise the algorithm and the given name after an equals sign, which no name
	// contains. It is "" if there is a [Spec.Problem]. That of a shadow ends with ShadowSuffix.
	StateName string
	// Counted says that the algorithm counts units over time: it neither holds places nor bans.
	Counted bool
	// Delayed says that the algorithm delays admitted requests: see [Spec.Delay].
	Delayed bool
	// Prepaid says that the units never come back by themselves: no wait helps.
	Prepaid bool
	// Shared says that the limit is a tenant's share of another one, so that a check is decided beside that of its cap.
	Shared bool
	// Plain says that nothing is wrong with the limit, and that its checks are decided alone.
	Plain bool
	// Mended says that a check that asks whether it fits mends the state also if it is not charged.
	Mended bool
	// Told are the traits that packages outside of core are told.
	Told unexported.Traits
	// Load is by how much more a check takes of a script than one of a bucket, in such checks. Itemized says that a state remembers
	// each event by itself.
	Load     int
	Itemized bool
	// Forgives says that the limit could have debt, and has none: settlements forgive the units beyond its capacity.
	Forgives bool
	// Owed is how many events of the Full units only settlements may use: the Debt, as far as it can be counted.
	Owed int
	// MostFitting is how many events fit at most: the capacity, of which the share of a tenant with a weight has several.
	MostFitting int
	// Observed is how many numbers of a [Usage] a script replies with: those of the algorithm, and one more for the window that pays
	// the debt of a calendar's window.
	Observed int
	// Noted says that reservations under the limit have to be noted to be settled.
	Noted bool
	// MostCharged is how many events a charge can have that is settled: the capacity with the debt. Holders keep all their places when
	// a named limit is made smaller.
	MostCharged int
	// MostNeeded is how many events a check needs at most: one more than the capacity, which never fit, or one if any number of them
	// fits where one does.
	MostNeeded int
	// UnitArgument is the Weight as an argument of a script: the cost of one event. It is made once, and of the type in
	// which a client takes it.
	UnitArgument any
}

// Spec is a limit in whole numbers, with all that follows from them. It never changes, and any
// number of goroutines may use it at once. [NewSpec] makes it.
type Spec struct {
	Params
	Units
	Traits

	problem    error // why it cannot be asked
	arithmetic arithmetic
	identity   *Spec
	shadow     atomic.Pointer[Spec] // nil: it has not been needed yet
	shadowOf   *Spec                // nil: it is no shadow
	arguments  arguments

	calendar *calendar.Calendar // nil: none cuts its windows
	eras     eras               // of the calendar
	offsets  *offsets           // nil: all keys have the same windows
}

var errNoAlgorithm = errors.New("the zero Limit has no algorithm: use a constructor such as core.Leaky, or core.Unlimited")

// Zero is a Spec of the zero Params. It is not valid.
var Zero = NewSpec(Params{}, nil)

const unlimitedName = "unlimited"

// Unlimited is the Spec of a limit that admits everything. It has no algorithm, so it must not be
// asked. Its capacity is [math.MaxInt].
var Unlimited = newUnlimited()

func newUnlimited() *Spec {
	s := NewSpec(Params{Name: unlimitedName, Capacity: math.MaxInt}, nil)
	s.problem = nil
	return s
}

// NewSpec returns the Spec of some Params. identity is the Spec of [Params.Identity], or nil if
// those are the Params themselves. If the Params make no sense, [Spec.Problem] says why.
func NewSpec(p Params, identity *Spec) *Spec {
	s := &Spec{Params: p, arithmetic: table[p.Algorithm].arithmetic, identity: identity}
	s.Units, s.problem = p.units()
	s.Traits = traitsOf(&p)
	if identity == nil {
		s.identity = s
	}
	if s.problem == nil && p.Algorithm.Dated() {
		s.calendar, s.problem = p.calendar()
		if s.calendar != nil && p.Calendar.Value().Jitter > 0 {
			s.offsets = new(offsets)
		}
	}
	if p.Debt > 0 && s.problem == nil {
		s.Owed, s.Each = int(s.Full/s.Weight)-p.Capacity, p.each()
		s.MostCharged += s.Owed
		if s.Each > 0 && p.Algorithm.Dated() {
			s.Observed++
		}
	}
	if s.Plain = s.problem == nil && !s.Shared; s.problem == nil {
		s.arguments, s.StateName, s.UnitArgument = newArguments(s), s.stateName(), s.Weight
	}
	return s
}

// traitsOf returns the traits of the limit that some Params make, except its StateName.
func traitsOf(p *Params) Traits {
	t := Traits{
		Counted: p.Algorithm != None && p.Algorithm.Kind() == Quota, Delayed: p.Algorithm.Delays(), Prepaid: p.Algorithm.Prepaid(),
		MostFitting: p.Capacity, MostNeeded: min(p.Capacity, math.MaxInt-1) + 1, MostCharged: p.Capacity,
		Load: max(1, table[p.Algorithm].load) - 1, Itemized: p.Algorithm.Lists(), Observed: table[p.Algorithm].observed, Noted: p.Algorithm.Noted(),
	}
	if p.Algorithm.Holds() {
		t.MostCharged = mostLogged
	}
	t.Forgives = table[p.Algorithm].owes && p.Debt == 0
	if p.Algorithm.Bans() {
		t.Mended, t.MostNeeded = true, 1
	}
	if p.Algorithm.Shares() {
		terms := p.fairTerms()
		terms.traits(p, &t)
	}
	t.Told.Shares, t.Told.Prepaid = t.Shared, t.Prepaid
	t.Told.Reserves = p.Algorithm.Unreserved() == ""
	if t.Counted {
		t.Told.Delays, t.Told.Windowed, t.Told.Dated = t.Delayed, p.Algorithm.Windowed(), p.Algorithm.Dated()
	}
	return t
}

// units returns the whole numbers in which a limit counts, or the reason why it cannot be asked.
func (p *Params) units() (Units, error) {
	if p.Algorithm == None {
		return Units{}, errNoAlgorithm
	}
	if p.Capacity < 1 {
		return Units{}, fmt.Errorf("%s: capacity %d is less than 1", p, p.Capacity)
	}
	if p.Events < 1 {
		return Units{}, fmt.Errorf("%s: rate of %d events is less than 1", p, p.Events)
	}
	if p.Period <= 0 && !p.Algorithm.Dated() && !p.Algorithm.Prepaid() {
		return Units{}, fmt.Errorf("%s: period %v is not positive", p, p.Period)
	}
	if err := checkName(p.Name); err != nil {
		return Units{}, err
	}
	if strings.HasPrefix(p.Name, Reserved) && !p.Own {
		return Units{}, fmt.Errorf("limit name %q begins with %q, as this package's own do: choose another name", p.Name, Reserved)
	}
	whole, err := p.withDebt()
	if err != nil {
		return Units{}, fmt.Errorf("%s: %w", p, err)
	}
	u, err := table[p.Algorithm].arithmetic.units(&whole)
	if err != nil {
		return Units{}, fmt.Errorf("%s: %w", p, err)
	}
	return u, nil
}

// checkName reports whether a given name is both a Token and a String of
// RFC 9651, as the RateLimit header fields of today and tomorrow need it.
func checkName(name string) error {
	if len(name) > LongestName {
		return fmt.Errorf("limit name of %d bytes is longer than %d", len(name), LongestName)
	}
	for i, c := range name {
		if c >= utf8.RuneSelf || !isNameByte(byte(c)) || i == 0 && !isLetter(byte(c)) && c != '*' {
			return fmt.Errorf("limit name %q has %q at byte %d: use a letter first, then letters, digits and !#$%%&'*+.^_`|~:/-", name, c, i)
		}
	}
	return nil
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func isNameByte(c byte) bool {
	if isLetter(c) || '0' <= c && c <= '9' {
		return true
	}
	switch c {
	case '!', '#', '$', '%', '&', '\'', '*', '+', '.', '^', '_', '`', '|', '~', ':', '/', '-':
		return true
	}
	return false
}

// Problem returns nil if the spec can be asked, and otherwise the reason why it cannot.
func (s *Spec) Problem() error { return s.problem }

// Identity returns the Spec that all specs with the same state have in common: for a named limit that
// of its name and algorithm, and otherwise the spec itself.
func (s *Spec) Identity() *Spec { return s.identity }

// ShadowSuffix ends the StateName of a shadow.
const ShadowSuffix = "=shadow"

// Shadow returns the Spec under which the shadow checks of a limit count, in states of their own. It
// has the same numbers and another [Spec.Identity]. A shadow's shadow is itself.
func (s *Spec) Shadow() *Spec {
	if s.shadowOf != nil {
		return s
	}
	if shadow := s.shadow.Load(); shadow != nil {
		return shadow
	}
	shadow := &Spec{
		Params: s.Params, Units: s.Units, problem: s.problem, arithmetic: s.arithmetic, shadowOf: s, arguments: s.arguments,
		Traits: s.Traits, calendar: s.calendar,
	}
	shadow.StateName += ShadowSuffix
	if s.offsets != nil {
		shadow.offsets = new(offsets)
	}
	if shadow.identity = shadow; s.identity != s {
		shadow.identity = s.identity.Shadow()
	}
	if s.shadow.CompareAndSwap(nil, shadow) {
		return shadow
	}
	return s.shadow.Load()
}

// For returns the Spec under which a key counts: that of a limit with jitter has windows which begin later,
// by a part of the jitter that is the same for a key everywhere. Its [Spec.Identity] is that of the limit.
func (s *Spec) For(key string) *Spec {
	if s.offsets == nil {
		return s
	}
	return s.offsetFor(key)
}

// IsShadow reports whether the Spec was returned by [Spec.Shadow].
func (s *Spec) IsShadow() bool { return s.shadowOf != nil }

// Observe returns the usage of a state at an instant, and whether the state has to be repaired: it is from the future, or
// was left by other numbers of a named limit. cost is that of the check: the Usage of a log tells how long to wait for
// it.
func (s *Spec) Observe(st *State, now int64, cost int) (u Usage, repair bool) {
	return s.arithmetic.observe(s, st, now, cost)
}

// ObserveCharge is Observe for a check that charges its cost. If that fits, the usage is as a script tells it, which does not look then
// when the next place is free.
func (s *Spec) ObserveCharge(st *State, now int64, cost int) (u Usage, repair bool) {
	u, repair = s.arithmetic.observe(s, st, now, cost)
	if s.Algorithm.Holds() && s.Fits(u, cost) {
		u.Second = 0
	}
	return u, repair
}

// Store writes the usage observed in a state back into it, with cost events charged. The holder takes the places of a
// limit that holds ([Algorithm.Holds]); others have none.
func (s *Spec) Store(st *State, u Usage, now int64, cost int, h Holder) {
	s.arithmetic.store(s, st, u, now, cost, h)
	st.spec = s
}

// Fits reports whether cost events may pass. They are at least one, and no more than the capacity.
func (s *Spec) Fits(u Usage, cost int) bool { return s.arithmetic.fits(s, u, cost+s.Owed) }

// Wait returns how long it takes until cost events fit that do not fit now, and whether that is a guess: it is unknown when places
// are given back.
func (s *Spec) Wait(u Usage, cost int) (wait int64, guess bool) {
	return s.arithmetic.wait(s, u, cost+s.Owed), s.Algorithm.Holds()
}

// Longer returns how much longer a denied cost waits than a smaller or equal one that is denied at
// the same instant, and whether that follows from the spec alone.
func (s *Spec) Longer(cost, larger int) (wait int64, known bool) {
	if cost == larger {
		return 0, true
	}
	return s.arithmetic.longer(s, cost, larger)
}

// Estimates reports whether the waits under the spec may be estimates, because the numbers of a
// named limit may have changed.
func (s *Spec) Estimates() bool { return s.Name != "" && table[s.Algorithm].estimates }

// Charged returns the usage after cost events that fit.
func (s *Spec) Charged(u Usage, cost int) Usage { return s.arithmetic.charged(s, u, cost) }

// Left returns how many whole events still fit, the wait until more do, or 0 if nothing is used, and that of Reset.
func (s *Spec) Left(u Usage) (remaining int, next, reset int64) {
	remaining, next, reset = s.arithmetic.left(s, u)
	if remaining -= s.Owed; remaining < 0 { // it is in debt
		remaining, next = 0, s.arithmetic.wait(s, u, 1+s.Owed)
	}
	return remaining, next, reset
}

// Remaining returns how many whole events still fit.
func (s *Spec) Remaining(u Usage) int {
	remaining, _, _ := s.Left(u)
	return remaining
}

// Reset returns the wait until nothing is used.
func (s *Spec) Reset(u Usage) int64 { return s.arithmetic.reset(s, u) }

// Keep returns the instant until which a state must be kept after a usage: until nothing is used, and
// longer if the state has to be remembered beyond that.
func (s *Spec) Keep(u Usage, now int64) int64 {
	until := now + s.Reset(u)
	if s.Algorithm.Holds() {
		until += remembered
	}
	switch {
	case s.Algorithm.Dated() && u.Used > 0:
		until = now + u.Fourth
	case s.Each > 0 && !s.Algorithm.Dated():
		until = max(until, now+u.Third)
	case s.Prepaid:
		until = keepBalance(s, u, now)
	}
	return until
}

// Delay returns how long a check is delayed by a usage before it in the queue, if undelayed events of the
// queue cause no delay. It is for algorithms that delay ([Algorithm.Delays]).
func (s *Spec) Delay(before Usage, undelayed int) int64 {
	if undelayed > 0 {
		before.Used = max(0, before.Used-s.weighed(int64(undelayed)))
	}
	return s.Reset(before)
}

// Spacing returns the shortest time that a cost takes after another one has left no room for it. It
// is 0 for a window, which may have room for many at once.
func (s *Spec) Spacing(cost int) int64 {
	if s.Drain == 0 {
		return 0
	}
	ticks := min(s.Weigh(cost)/s.Drain, math.MaxInt64/s.Tick/int64(time.Microsecond))
	return ticks * s.Tick
}

// GivesWay reports whether a state may be forgotten at an instant, given its usage as observed for one event: its key has room. A
// holder that is forgotten would let another one in, and a token could come twice.
func (s *Spec) GivesWay(u Usage, now int64) bool {
	if s.Prepaid {
		return false
	}
	if s.Algorithm.Holds() {
		return s.Unused(u) && u.Fourth < now
	}
	return s.Fits(u, 1)
}

// Difference returns how many events a charge of some units lacks to their real cost, or has too many if it is below 0.
func (s *Spec) Difference(units, cost int) (events int) {
	most := s.MostCharged
	return max(-most, min(cost, most)) - min(units, most)
}

// WeighCheck returns the weight of the cost of a check, or one unit more than the capacity if the cost exceeds it. Strikes that
// exceed it fit as fewer do.
func (s *Spec) WeighCheck(cost int) int64 {
	switch {
	case cost <= s.Capacity:
		return s.Weigh(cost)
	case s.MostNeeded > s.Capacity:
		return s.Full + 1
	}
	return s.Full
}

// Weigh returns the weight of events in units. They are no more than the capacity, or one more.
func (s *Spec) Weigh(events int) int64 { return int64(events) * s.Weight }
