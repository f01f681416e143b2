package script

import (
	"fmt"
	"hash/maphash"
	"strconv"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Request is a call, or a list of corrections, in the words of a script.
type Request struct {
	Keys      []any           // strings
	Arguments []any           // for each check its limit, its cost and its holder, of a correction some more
	Of        exact.Algorithm // that of all checks, or Mixed
	Numbers   int             // expected in the reply
	Instant   bool            // the instant of the decision is wanted
	Times     int             // how often it is asked
	// Plain says that it is one check or one correction. The script of the task [OwnCheck], [OwnReserve] or [OwnSettle] decides it, or
	// carries it out, if the state is as its limit leaves it: see [Unknown]. It has no Arguments until
	// [Request.Explain].
	Plain bool
	// Reserves says that it is plain, and that its check reserves: [OwnReserve] decides it.
	Reserves bool
	// Releases says that each of the corrections gives back one place and is asked nothing: the script of the
	// task Release carries them out in fewer words, see [AppendReleases].
	Releases bool

	// Reserving are the checks, or the corrections, with charges that are given back at their end unless they are
	// settled.
	Reserving []Reserving

	checks int // or corrections
	load   int // by how much more they take than as many checks of a bucket, in such checks
	noted  int // how many of them are noted
	logged int // units that a list would have to remember, each time the call is asked, or holders that are removed
	// alike says that the same request may be asked several times at once: no two of its checks
	// are about one state.
	alike bool
	names []word // of holders
	plain plainCheck
	// settled is the one correction of a request that is plain, or nil.
	settled *call.Correction
}

// plainCheck is the one check of a request that is plain.
type plainCheck struct {
	words    [6]any // see exact.Spec.CheckWords
	cost     any    // see costOf; of a pair the word for it
	units    any    // the cost of a pair
	spec     *exact.Spec
	charged  bool
	noted    bool
	headroom int
	clock    func() int64
	share    *exact.Spec // of the cap that the check is of; nil: there is one check alone
}

// word is a text among the words of a script call. Its room is used again with its request.
type word struct{ text []byte }

// MarshalBinary returns the text, as the client sends it.
func (w *word) MarshalBinary() ([]byte, error) { return w.text, nil }

// String returns the text, for code that prints calls.
func (w *word) String() string { return string(w.text) }

// nameOf returns the name of a holder among the words of a script call. Behind the name of a waiter, which may be nil,
// stands its registration.
func (r *Request) nameOf(h exact.Holder, waits *call.Waiter) any {
	if len(r.names) < cap(r.names) {
		r.names = r.names[:len(r.names)+1]
	} else {
		r.names = append(r.names, word{}) // words that were returned before stay where they are
	}
	w := &r.names[len(r.names)-1]
	if waits == nil {
		w.text = call.AppendHolderName(w.text[:0], h)
		return w
	}
	w.text = append(call.AppendHolderName(append(w.text[:0], '?'), h), ' ')
	w.text = append(strconv.AppendInt(w.text, max(0, waits.Age), 10), ' ')
	w.text = append(strconv.AppendInt(w.text, waits.Since, 10), ' ')
	w.text = append(w.text, waits.ID...)
	return w
}

// empty makes a request ready to be used again.
func (r *Request) empty() {
	clear(r.Keys)
	clear(r.Arguments)
	clear(r.Reserving)
	*r = Request{Keys: r.Keys[:0], Arguments: r.Arguments[:0], Reserving: r.Reserving[:0], names: r.names[:0]}
}

// SetChecks makes the request decide groups of checks, as often as times says. clock returns the
// server's time as far as it is known here, in microseconds, and the prefix begins every key.
func (r *Request) SetChecks(groups [][]call.Check, times int, wantInstant bool, clock func() int64, prefix string) {
	r.empty()
	if len(groups) == 1 && len(groups[0]) == 1 && r.setPlain(&groups[0][0], times, wantInstant, clock, prefix) {
		return
	}
	if len(groups) == 1 && len(groups[0]) == 2 && r.setPair(groups[0], times, wantInstant, prefix) {
		return
	}
	r.Instant, r.Times, r.alike = wantInstant, times, times == 1 && !call.Meet(groups)
	for _, group := range groups {
		for i := range group {
			c := &group[i]
			r.Keys = append(r.Keys, call.Name(prefix, c.Key, c.Spec))
			r.appendCheck(c, i < len(group)-1, among(group, i), clock)
			if c.Either || c.Spec.Shared { // each of the calls may be charged another one, or leaves less to share
				r.alike = false
			}
			r.involve(c.Spec)
			r.Numbers += numbersOf(c)
			r.checks++
			if c.Noted() {
				r.noted++
			}
			if len(groups) > 1 && c.Spec.Algorithm.Dated() { // one of the groups may have to be asked again
				r.alike = false
			}
			if c.ReserveFor > 0 {
				r.Instant, r.alike = true, false
				r.reserve(c)
			}
			if c.Spec.Itemized && c.Charge {
				r.logged += c.Events(times)
			}
		}
	}
}

// setPlain is SetChecks of one check. It returns false, and does nothing, unless the script of the task [OwnCheck] or [OwnReserve]
// knows such a check.
func (r *Request) setPlain(c *call.Check, times int, wantInstant bool, clock func() int64, prefix string) bool {
	reserves := c.Settled && c.Noted() || c.ReserveFor > 0
	if !ownChecks[c.Spec.Algorithm] || c.Spec.Each > 0 || c.Either || c.OnDenial || c.Costs != nil ||
		reserves && (times > 1 || c.Looks() || !ownReserves[c.Spec.Algorithm]) {
		return false
	}
	r.Keys = append(r.Keys, call.Name(prefix, c.Key, c.Spec))
	r.Plain, r.Of, r.Numbers, r.checks = true, c.Spec.Algorithm, c.Spec.Observed, 1
	r.Instant, r.Times, r.alike = wantInstant, times, times == 1
	r.plain = plainCheck{
		words: c.Spec.CheckWords(c.Charge, c.Headroom, clock), cost: costOf(c), spec: c.Spec, charged: c.Charge, headroom: c.Headroom, clock: clock,
	}
	r.load = c.Spec.Load
	if c.Spec.Itemized && c.Charge {
		r.logged = c.Events(times)
	}
	if reserves {
		r.reserveAlone(c)
	}
	return true
}

// setPair is SetChecks of the check of a cap and that of a tenant's share of it. It returns false, and does nothing, unless the script
// of the task [OwnCheck] knows the two.
func (r *Request) setPair(group []call.Check, times int, wantInstant bool, prefix string) bool {
	of, share := &group[0], &group[1]
	if !share.Spec.Shared || times > 1 || of.Looks() || of.Noted() || of.ReserveFor > 0 {
		return false
	}
	r.Keys = append(r.Keys, call.Name(prefix, of.Key, of.Spec), call.Name(prefix, share.Key, share.Spec))
	r.Plain, r.Of, r.checks, r.load = true, share.Spec.Algorithm, len(group), share.Spec.Load
	r.Numbers = of.Spec.Observed + share.Spec.Observed
	r.Instant, r.Times = wantInstant, times
	r.plain = plainCheck{
		words: of.Spec.CheckWords(of.Charge, of.Headroom, nil), cost: share.Spec.PairWord(of.Spec.WeighCheck(of.Cost)), units: costOf(of),
		spec: of.Spec, charged: of.Charge, headroom: of.Headroom, share: share.Spec,
	}
	return true
}

// reserveAlone makes a plain request one for the script of the task [OwnReserve]: its check reserves.
func (r *Request) reserveAlone(c *call.Check) {
	r.Reserves = true
	if c.Noted() {
		r.plain.noted, r.plain.words[0] = true, "2"
		r.noted = 1
		r.Numbers++ // that of the note
	}
	if c.ReserveFor > 0 {
		r.Instant, r.alike = true, false
		r.reserve(c)
	}
}

// Explain makes a plain request one that decide.lua or settle.lua takes for any state of the key.
func (r *Request) Explain() {
	r.Plain, r.Reserves = false, false
	if r.settled != nil {
		r.appendCorrection(r.settled, nil)
		return
	}
	p := &r.plain
	if p.share != nil {
		r.Arguments = append(r.Arguments, p.spec.LimitArgument(p.charged, true, exact.Alone, p.headroom, nil), p.units, nil)
		r.Arguments = append(r.Arguments, p.share.LimitArgument(p.charged, false, exact.Alone, 0, nil), p.units, nil)
		return
	}
	if p.noted {
		r.Arguments = append(r.Arguments, p.spec.NoteArgument(false, false, exact.Alone, p.headroom), p.cost, nil)
		return
	}
	r.Arguments = append(r.Arguments, p.spec.LimitArgument(p.charged, false, exact.Alone, p.headroom, p.clock), p.cost, nil)
}

// HasOwnCheck reports whether there is a script of the task [OwnCheck] for an algorithm.
func HasOwnCheck(of exact.Algorithm) bool { return ownChecks[of] }

var ownChecks = func() (all [exact.Count + 1]bool) {
	for of := range exact.All() {
		all[of] = isThere(OwnCheck, of)
	}
	return all
}()

// HasOwnReserve reports whether there is a script of the task [OwnReserve] for an algorithm.
func HasOwnReserve(of exact.Algorithm) bool { return ownReserves[of] }

var ownReserves = func() (all [exact.Count + 1]bool) {
	for of := range exact.All() {
		all[of] = isThere(OwnReserve, of)
	}
	return all
}()

// involve notes the algorithm of a check, or of a correction, that is not counted yet.
func (r *Request) involve(s *exact.Spec) {
	a := s.Algorithm
	r.load += s.Load
	if r.checks == 0 {
		r.Of = a
	} else if r.Of != a {
		r.Of = Mixed
	}
}

// wordsOfCheck is how many of a request's arguments a check has.
const wordsOfCheck = 3

// appendCheck appends the words of a check for limit.lua and calls.lua, and its holder, or nil if it takes no places.
func (r *Request) appendCheck(c *call.Check, more bool, among exact.Among, clock func() int64) {
	limit, name := any(nil), any(nil)
	switch c.Spec.Algorithm.Kind() {
	case exact.Places:
		if c.Charge { // each call has a holder of its own, and a token
			name, r.Instant, r.alike = r.nameOf(c.Holder, c.Waiter), true, false
		}
	case exact.Bans:
		if c.Charge || c.OnDenial { // a ban may begin between two of them
			r.alike = false
		}
		if !c.Charge && !c.Looks() {
			limit = c.Spec.HeedArgument(c.OnDenial, more)
		}
	case exact.Quota:
		if c.Noted() {
			limit = c.Spec.NoteArgument(r.Times > 1 && !c.InOrder, more, among, c.Headroom)
		}
	}
	if limit == nil {
		limit = c.Spec.LimitArgument(c.Charge, more, among, c.Headroom, clock)
	}
	r.Arguments = append(r.Arguments, limit, costOf(c), name)
}

// costOf returns the cost of a check in the limit's units, or one more than the capacity if the cost exceeds it, or all of its
// costs.
func costOf(c *call.Check) any {
	switch {
	case c.Costs != nil:
		return listedCosts(c)
	case c.Units == 1 && c.Cost == 1: // most are
		return c.Spec.UnitArgument
	case c.Looks(): // it has nothing to fit
		return int64(0)
	}
	return c.Spec.WeighCheck(c.Cost)
}

// among returns where the check at a place of a group stands among alternatives.
func among(group []call.Check, place int) exact.Among {
	switch {
	case !group[place].Either:
		return exact.Alone
	case place+1 < len(group) && group[place+1].Or:
		return exact.Followed
	}
	return exact.Last
}

// listedCosts returns the costs of a check in the limit's units, with commas in between.
func listedCosts(c *call.Check) string {
	b := make([]byte, 0, 16*len(c.Costs))
	for i, cost := range c.Costs {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, c.Spec.Weigh(cost), 10)
	}
	return string(b)
}

// SetCorrections makes the request one to carry out corrections. clock and prefix are as in
// SetChecks.
func (r *Request) SetCorrections(list []call.Correction, clock func() int64, prefix string) {
	r.empty()
	r.Releases = true
	r.Plain = len(list) == 1 && ownSettlements[list[0].Spec.Algorithm] != noOwnSettlement && isPlainSettlement(&list[0])
	for i := range list {
		c := &list[i]
		r.Keys = append(r.Keys, call.Name(prefix, c.Key, c.Spec))
		if r.Plain {
			settled := *c
			r.settled = &settled
			if c.At.Order > 0 {
				r.noted = 1
			}
		} else {
			r.appendCorrection(c, clock)
		}
		if c.Oldest { // as many members may be removed
			r.logged -= c.Events
		}
		if c.Reserved {
			r.close(c)
		}
		r.Releases = r.Releases && !r.Plain && releases(c)
		r.involve(c.Spec)
		r.Numbers++ // with the observation behind it, if that is wanted
		r.checks++
	}
}

// ownSettlement tells how the script of the task [OwnSettle] finds the charges of an algorithm.
type ownSettlement uint8

const (
	noOwnSettlement ownSettlement = iota // there is no such script
	byNumber                             // by their numbers, in the notes of the state
	byInstant
)

var ownSettlements = func() (all [exact.Count + 1]ownSettlement) {
	for of := range exact.All() {
		switch {
		case !isThere(OwnSettle, of):
		case of.Noted():
			all[of] = byNumber
		default:
			all[of] = byInstant
		}
	}
	return all
}()

// HasOwnSettle reports whether there is a script of the task [OwnSettle] for an algorithm.
func HasOwnSettle(of exact.Algorithm) bool { return ownSettlements[of] != noOwnSettlement }

// isPlainSettlement reports whether the script of the task [OwnSettle] knows such a correction.
func isPlainSettlement(c *call.Correction) bool {
	if c.Events == 0 && !c.Reserved || c.Spec.Each > 0 || c.Raise || c.Reset || c.Renew || c.Length > 0 || c.Leaves != nil {
		return false
	}
	switch ownSettlements[c.Spec.Algorithm] {
	case byNumber:
		return c.At.Order > 0
	case byInstant:
		return c.At.At > 0
	case noOwnSettlement:
	}
	return false
}

// appendCorrection appends the words of a correction for settle.lua.
func (r *Request) appendCorrection(c *call.Correction, clock func() int64) {
	r.Arguments = append(r.Arguments, c.Spec.LimitArgument(false, false, exact.Alone, 0, clock))
	switch {
	case c.Leaves != nil:
		r.Arguments = append(r.Arguments, unitsOf(c), string(c.Leaves.AppendName(nil)), 0, "leave")
	case c.OfPlaces():
		r.Arguments = append(r.Arguments, unitsOf(c), r.nameOf(c.Holder, nil), 0, how(c))
	default:
		r.Arguments = append(r.Arguments, unitsOf(c), usedThen(c), c.At.At, how(c))
	}
	switch {
	case c.Length > 0:
		r.Arguments[len(r.Arguments)-4], r.Arguments[len(r.Arguments)-3] = c.Length, c.Reason
	case c.TopUp != "":
		r.Arguments[len(r.Arguments)-3] = c.TopUp
	}
}

// numbersOf returns how many numbers a reply has of a check.
func numbersOf(c *call.Check) int {
	if c.Noted() {
		return c.Spec.Observed + 1
	}
	return c.Spec.Observed
}

// usedThen returns the word for the usage after a correction's charge, with the number of the charge if it was noted.
func usedThen(c *call.Correction) any {
	if !c.Noted() {
		return c.At.Used
	}
	b := append(strconv.AppendInt(nil, c.At.Used, 10), ' ')
	return string(strconv.AppendInt(b, c.At.Order, 10))
}

// releases reports whether a correction gives back one place and is asked nothing.
func releases(c *call.Correction) bool {
	return c.OfPlaces() && c.Events == -1 && !c.Renew && !c.Raise && !c.Wanted && c.Leaves == nil
}

// The words of settle.lua for each correction.
const (
	wordsOfCorrection = 5
	holderOfPlace     = 2 // the place of a holder among them
)

// AppendReleases appends to the keys of a script call, or else to its other words, those of requests with corrections
// that are Releases.
func (r *Request) AppendReleases(words []any, keys bool) []any {
	for i := range r.checks {
		if keys {
			words = append(words, r.Keys[i])
		} else {
			words = append(words, r.Arguments[i*wordsOfCorrection+holderOfPlace])
		}
	}
	return words
}

// back is the units of a correction that gives back one unit, or one place, so that they need not be made.
var back any = int64(-1)

// unitsOf returns how many units of the limit a correction adds.
func unitsOf(c *call.Correction) any {
	if units := c.Spec.Weigh(c.Events); units != -1 {
		return units
	}
	return back
}

// how returns the word of settle.lua for a correction, a string: as an interface, which a constant becomes without being
// copied.
func how(c *call.Correction) (word any) {
	switch {
	case c.Raise:
		word = "raise"
	case c.Reset:
		word = "reset"
	case c.Renew:
		word = "renew"
	case c.Oldest:
		word = "oldest"
	case c.Length > 0:
		word = "ban"
	case c.TopUp != "":
		word = "topup"
	case c.OfTurn():
		word = "last"
	default:
		word = "settle"
	}
	if c.Wanted {
		return fmt.Sprint(word, "?")
	}
	return word
}

// SeveralKeys reports whether the script is told of more than one key.
func (r *Request) SeveralKeys() bool {
	for i := range r.Keys {
		if r.Keys[i] != r.Keys[0] {
			return true
		}
	}
	return len(r.Reserving) > 0
}

// Weight returns the weight of a request that is asked times times, in checks of a bucket. Reservations are noted. A sliding log is
// searched, and gets an instant for each unit.
func (r *Request) Weight(times int) int {
	return r.checks + r.noted*(weightOfNoted-1) + r.load + len(r.Reserving) + r.logged*times/unitsPerWeight
}

// Instants returns how many instants a request adds to logs, if it is asked so often.
func (r *Request) Instants(times int) int { return r.logged * times }

const (
	// weightOfNoted is the weight of a noted check: measured, 23 to 30 µs of Redis where a plain one took 9 to 12.
	weightOfNoted = 3
	// unitsPerWeight is how many instants of a log weigh as much as a check of a bucket.
	unitsPerWeight = 100
)

var seed = maphash.MakeSeed()

// Hash returns a number that is the same for requests which ask the same, and 0 for one that is never
// asked together with another.
func (r *Request) Hash() uint64 {
	if !r.alike {
		return 0
	}
	var hash uint64
	for i := range r.Keys {
		const prime = 0x100000001b3                                  // of the FNV hash, so that the order counts
		hash = hash*prime ^ maphash.String(seed, r.Keys[i].(string)) //nolint:forcetypeassert // they are strings
	}
	return hash
}

// Same reports whether two requests ask the same.
func Same(a, b *Request) bool {
	if !b.alike || a.Plain != b.Plain || len(a.Keys) != len(b.Keys) || len(a.Arguments) != len(b.Arguments) {
		return false
	}
	if a.Plain {
		return a.Keys[0] == b.Keys[0] && a.plain.words == b.plain.words && a.plain.cost == b.plain.cost
	}
	for i := range a.Keys {
		if a.Keys[i] != b.Keys[i] {
			return false
		}
	}
	for i := range a.Arguments {
		if a.Arguments[i] != b.Arguments[i] {
			return false
		}
	}
	return true
}
