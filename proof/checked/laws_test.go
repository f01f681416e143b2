package checked

// law is a claim about every state, or about every step from one state to another.
type law struct {
	name    string
	ofState func(w *world, s *state) bool
	ofStep  func(w *world, from, to *state, a action) bool
}

var (
	// Law 1.
	atMostN = law{name: "never more than n unexpired holders in the store", ofState: func(w *world, s *state) bool {
		return s.living() <= int(w.n)
	}}
	// Law 2.
	belief = law{name: "whoever believes is an unexpired holder in the store", ofState: func(w *world, s *state) bool {
		for h := range w.holders {
			if s.believes(w, h) && !s.lives(h) {
				return false
			}
		}
		return true
	}}
	// What follows from laws 1 and 2 for the world outside.
	atMostNBelieve = law{name: "never more than n believe", ofState: func(w *world, s *state) bool {
		return s.believing(w) <= int(w.n)
	}}
	twiceNBelieve = law{name: "never more than 2n believe", ofState: func(w *world, s *state) bool {
		return s.believing(w) <= 2*int(w.n)
	}}
	// How far a failover, and a clock that steps forward, break it.
	nMoreBelieve = law{name: "never more than n and another n for each failover or clock step believe", ofState: func(w *world, s *state) bool {
		return s.believing(w) <= int(w.n*(1+s.fails+s.steps))
	}}
	// Law 3, for the place of a crashed holder and of any other.
	exactlyTheLease = law{name: "a place is held for exactly the lease since it was last granted or renewed, unless it is released", ofState: func(w *world, s *state) bool {
		for h := range w.holders {
			if s.lives(h) != (s.holder[h].since < w.lease) {
				return false
			}
		}
		return true
	}}
	deadStaysDead = law{name: "a holder whose lease has ended does not come back without an acquire", ofStep: func(w *world, from, to *state, a action) bool {
		for h := range w.holders {
			if !from.lives(h) && to.lives(h) && a.kind != executeAcquire && a.kind != addCounted {
				return false
			}
		}
		return true
	}}
	freeIsGranted = law{name: "an acquire is granted if and only if fewer than n are unexpired", ofStep: func(_ *world, from, to *state, a action) bool {
		if a.kind != executeAcquire {
			return true
		}
		return (a.how == 1) == (from.living() < int(from.n))
	}}
	// Law 4.
	releaseRemovesOnlyItself = law{name: "a release removes its own holder and nobody else, however often it is executed", ofStep: func(w *world, from, to *state, a action) bool {
		if a.kind != executeRelease {
			return true
		}
		for h := range w.holders {
			if h != a.who && from.store.expiry[h] != to.store.expiry[h] {
				return false
			}
		}
		return to.store.expiry[a.who] == 0 && to.store.last == from.store.last
	}}
	// Law 6.
	tokensGrow = law{name: "the tokens of a key grow strictly", ofStep: func(_ *world, from, to *state, a action) bool {
		return !a.grants() || to.store.last > from.newest
	}}
	// Law 7.
	shrinkingEvictsNobody = law{name: "shrinking n evicts nobody, and admits nobody until the count is below", ofStep: func(w *world, from, to *state, a action) bool {
		switch a.kind {
		case shrinks:
			return from.store == to.store
		case executeAcquire:
			for h := range w.holders {
				if from.lives(h) && !to.lives(h) {
					return false
				}
			}
			return a.how == 0 || from.living() < int(from.n)
		default:
			return true
		}
	}}
	// Fencing.
	servedInOrder = law{name: "the resource accepts no work once it has accepted work of a later grant", ofStep: func(_ *world, from, to *state, a action) bool {
		x := &from.holder[a.max0()]
		return a.kind != work || x.token < from.fence || x.turn >= from.served
	}}
	lateIsRefused = law{name: "the resource accepts no work of a holder whose place another one has got", ofStep: func(_ *world, from, to *state, a action) bool {
		x := &from.holder[a.max0()]
		return a.kind != work || x.token < from.fence || x.turn >= from.turns || from.lives(a.who)
	}}
	newestIsServed = law{name: "the resource refuses nobody who believes and was granted last", ofStep: func(w *world, from, _ *state, a action) bool {
		return a.kind != work || !from.believes(w, a.who) || from.holder[a.who].turn < from.turns || from.holder[a.who].token >= from.fence
	}}
	rightfulIsServed = law{name: "the resource refuses nobody who believes", ofStep: func(w *world, from, _ *state, a action) bool {
		return a.kind != work || !from.believes(w, a.who) || from.holder[a.who].token >= from.fence
	}}
)

// grants says whether the store adds a member.
func (a action) grants() bool { return a.kind == executeAcquire && a.how == 1 || a.kind == addCounted }

// max0 returns the holder of an action, or the first where the action has none.
func (a action) max0() int { return max(a.who, 0) }
