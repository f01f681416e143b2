package checked

// acquire is what the store does for an acquire: it drops the expired, counts, and adds if there
// is room.
func (s *state) acquire(w *world, h int) bool {
	if w.fault != cleanUpAfterCounting {
		s.dropExpired()
	}
	count := int8(0)
	for _, expiry := range s.store.expiry {
		if expiry != 0 {
			count++
		}
	}
	if w.fault == cleanUpAfterCounting {
		s.dropExpired()
	}
	for w.fault == shrinkingEvicts && count > s.n {
		s.store.expiry[s.oldest()] = 0
		count--
	}
	if count >= s.n && (w.fault != oneTooMany || count > s.n) {
		return false
	}
	if w.fault == twoSteps {
		s.holder[h].flight |= counted
		return true
	}
	s.grant(w, h)
	return true
}

// grant adds a member, with the next token.
func (s *state) grant(w *world, h int) {
	s.store.expiry[h] = s.now + w.lease
	if w.timed {
		s.holder[h].since = 0
	}
	switch w.fault {
	case tokenFromClock:
		s.store.last = s.now
	case tokenFromLast:
		s.store.last++
	default:
		s.store.last = max(s.store.last+1, s.now)
	}
	s.newest = max(s.newest, s.store.last)
	if w.resource {
		s.turns++
	}
}

// dropExpired removes the members whose lease has ended.
func (s *state) dropExpired() {
	for h, expiry := range s.store.expiry {
		if expiry <= s.now {
			s.store.expiry[h] = 0
		}
	}
}

// renew is what the store does for a renewal: it moves the expiry of a member whose lease has not ended.
func (s *state) renew(w *world, h int) bool {
	switch {
	case s.lives(h):
	case w.fault == renewalAddsMissing:
	case w.fault == renewalOfDead && s.store.expiry[h] != 0:
	default:
		return false
	}
	s.store.expiry[h] = s.now + w.lease
	if w.timed {
		s.holder[h].since = 0
	}
	for other := range s.store.expiry {
		if w.fault == renewalOfAll && s.lives(other) {
			s.store.expiry[other] = s.now + w.lease
		}
	}
	return true
}

// remove is what the store does for a release: it removes the member.
func (s *state) remove(w *world, h int) {
	switch w.fault {
	case releaseByCount:
		s.store.expiry[s.oldest()] = 0
	case releaseOfAll:
		s.store.expiry = [most]int8{}
	default:
		s.store.expiry[h] = 0
	}
	s.holder[h].since = w.lease
}

// oldest returns the member whose lease ends first, or any holder if there is no member.
func (s *state) oldest() int {
	first := 0
	for h, expiry := range s.store.expiry {
		if expiry != 0 && (s.store.expiry[first] == 0 || expiry < s.store.expiry[first]) {
			first = h
		}
	}
	return first
}

// nextOfTime has a tick pass, for all clocks or for all but one.
func (w *world) nextOfTime(s *state, yield func(a action, to state)) {
	if s.ticks >= w.ticks {
		return
	}
	yield(action{tick, -1, 0}, s.later(w, -1))
	for p := 0; w.drift && p < len(s.slip); p++ {
		if s.slip[p] == w.lease {
			yield(action{tick, p, 0}, s.later(w, p))
		}
	}
}

// later returns s a tick later. The clock of the process slow does not notice it.
func (s *state) later(w *world, slow int) state {
	to := *s
	to.now++
	to.ticks++
	for p := range to.slip {
		to.slip[p] = min(to.slip[p]+1, w.lease)
		if p == slow {
			to.slip[p] = 1
		}
	}
	for h := range w.holders {
		x := &to.holder[h]
		x.since = min(x.since+1, w.lease)
		if w.process(h) == slow {
			continue
		}
		if x.phase == acquiring || x.phase == holding {
			x.age = min(x.age+1, w.lease)
		}
		if x.wait >= 0 {
			x.wait = min(x.wait+1, w.lease)
		}
	}
	return to
}

// nextOfStore has something happen to the store itself.
func (w *world) nextOfStore(s *state, yield func(a action, to state)) {
	if s.steps == 0 {
		for _, by := range []int8{w.forward, -w.back} {
			if by != 0 && s.now+by >= start {
				to := *s
				to.now += by
				to.steps++
				yield(action{clockSteps, -1, int(by)}, to)
			}
		}
	}
	if w.failovers > 0 {
		if s.fails < w.failovers && s.replica != s.store {
			to := *s
			to.replica = to.store
			yield(action{replicate, -1, 0}, to)
		}
		if s.fails < w.failovers && (w.outage == 0 || s.store.last < s.now+w.outage) && s.ticks+w.outage <= w.ticks {
			to := *s
			for range w.outage {
				to = to.later(w, -1)
			}
			to.fails++
			to.store = to.replica
			yield(action{failover, -1, 1}, to)
			to.store, to.replica = store{}, store{}
			yield(action{failover, -1, 2}, to)
		}
	}
	if w.shrink && s.shrinks == 0 {
		to := *s
		to.shrinks++
		to.n--
		yield(action{shrinks, -1, 0}, to)
	}
}
