package checked

import "fmt"

// kind names an action.
type kind int8

const (
	sendAcquire kind = iota
	executeAcquire
	addCounted // only with the fault twoSteps
	acquireReplyArrives
	sendRenew
	executeRenew
	executeOlderRenew
	renewReplyArrives
	olderRenewReplyArrives
	release
	executeRelease
	beginWork
	work
	crashes
	tick
	clockSteps
	replicate
	failover
	shrinks
)

// action is one step: what happens, to whom, and how.
type action struct {
	kind kind
	who  int
	how  int // for an acquire, 1 if it is granted
}

var words = map[kind]string{
	sendAcquire:            "%s sends an acquire",
	executeAcquire:         "the store executes the acquire of %s",
	addCounted:             "the store adds %s, as it has counted",
	acquireReplyArrives:    "the reply to the acquire of %s arrives",
	sendRenew:              "%s sends a renewal",
	executeRenew:           "the store executes the newest renewal of %s",
	executeOlderRenew:      "the store executes an older renewal of %s",
	renewReplyArrives:      "the reply to the newest renewal of %s arrives",
	olderRenewReplyArrives: "the reply to an older renewal of %s arrives",
	release:                "%s sends a release",
	executeRelease:         "the store executes the release of %s",
	beginWork:              "%s looks at its context, and goes to the resource",
	work:                   "the work of %s reaches the resource",
}

func (a action) String() string {
	switch a.kind {
	case crashes:
		return fmt.Sprintf("process %d crashes", a.who+1)
	case tick:
		if a.who >= 0 {
			return fmt.Sprintf("time passes, and the clock of process %d misses it", a.who+1)
		}
		return "time passes"
	case clockSteps:
		return fmt.Sprintf("the store's clock steps by %+d", a.how)
	case replicate:
		return "the replica catches up"
	case failover:
		if a.how == 1 {
			return "the store fails over to its replica"
		}
		return "the store fails over, and loses everything"
	case shrinks:
		return "n shrinks by 1"
	default:
		return fmt.Sprintf(words[a.kind], name(a.who))
	}
}

// next calls yield with every action that is possible in s, and the state to which it leads.
func (w *world) next(s *state, yield func(a action, to state)) {
	for h := range w.holders {
		w.nextOfHolder(s, h, yield)
		w.nextOfMessages(s, h, yield)
	}
	w.nextOfTime(s, yield)
	w.nextOfStore(s, yield)
	for p := 0; w.crash && p < len(s.slip); p++ {
		to := *s
		for h := range w.holders {
			if w.process(h) == p {
				x := &to.holder[h]
				*x = holder{phase: crashed, flight: x.flight &^ (renewed | olderRenewed | notHeld), wait: -1, since: x.since}
			}
		}
		if to != *s {
			yield(action{crashes, p, 0}, to)
		}
	}
}

// nextOfHolder has a holder act by itself.
func (w *world) nextOfHolder(s *state, h int, yield func(a action, to state)) {
	x := &s.holder[h]
	if x.phase == fresh && (h == 0 || w.apart() || s.holder[h-1].phase != fresh) {
		to := *s
		to.holder[h].phase, to.holder[h].flight = acquiring, acquireSent
		yield(action{sendAcquire, h, 0}, to)
	}
	if s.believes(w, h) {
		to := *s
		y := &to.holder[h]
		if w.older && y.flight&renewSent != 0 {
			y.flight |= olderSent
		}
		if w.older && y.flight&renewed != 0 {
			y.flight |= olderRenewed
		}
		y.flight = y.flight&^(renewed|notHeld) | renewSent
		y.wait = 0
		if w.fault == deadlineFromSending {
			y.age = 0
		}
		yield(action{sendRenew, h, 0}, to)
		if w.resource && !x.begun {
			to := *s
			to.holder[h].begun = true
			yield(action{beginWork, h, 0}, to)
		}
	}
	if x.phase == acquiring || x.phase == holding {
		to := *s
		to.holder[h].leave()
		yield(action{release, h, 0}, to)
	}
	if x.begun {
		to := *s
		to.holder[h].begun = false
		if x.token >= s.fence {
			to.fence, to.served = x.token, max(s.served, x.turn)
		}
		yield(action{work, h, 0}, to)
	}
}

// leave has a holder send its release. What it has begun goes on.
func (x *holder) leave() {
	begun, token, turn := x.begun, x.token, x.turn
	*x = holder{
		phase: gone, flight: x.flight&^(renewed|olderRenewed|notHeld) | releaseSent, wait: -1, since: x.since,
		begun: begun, token: token, turn: turn,
	}
}

// nextOfMessages has a message from or to a holder arrive.
func (w *world) nextOfMessages(s *state, h int, yield func(a action, to state)) {
	x := &s.holder[h]
	if x.flight&(acquireSent|acquireAgain) != 0 {
		w.nextOfAcquire(s, h, yield)
	}
	if x.flight&counted != 0 {
		to := *s
		to.holder[h].flight &^= counted
		to.grant(w, h)
		if x.phase == acquiring {
			to.holder[h].answer(w, &to, true)
		}
		yield(action{addCounted, h, 0}, to)
	}
	if x.reply.there {
		to := *s
		y := &to.holder[h]
		r := y.reply
		y.reply = reply{}
		if w.fault == deadlineFromReply {
			y.age = 0
		}
		switch {
		case !r.granted:
			y.phase, y.age = gone, 0
		case y.age >= w.deadline():
			y.leave()
		default:
			y.phase, y.token, y.turn = holding, r.token, r.turn
		}
		yield(action{acquireReplyArrives, h, 0}, to)
	}
	for _, request := range []struct {
		kind        kind
		sent, reply uint16
	}{{executeRenew, renewSent, renewed}, {executeOlderRenew, olderSent, olderRenewed}} {
		if x.flight&request.sent == 0 {
			continue
		}
		to := *s
		y := &to.holder[h]
		if !w.duplicates {
			y.flight &^= request.sent
		}
		done := to.renew(w, h)
		switch {
		case x.phase != holding || request.kind == executeRenew && x.wait < 0: // nobody waits for the reply
		case done:
			y.flight |= request.reply
		case request.kind == executeRenew:
			y.flight |= notHeld
		}
		yield(action{request.kind, h, 0}, to)
	}
	w.nextOfRenewReplies(s, h, yield)
	if x.flight&releaseSent != 0 {
		to := *s
		if !w.duplicates {
			to.holder[h].flight &^= releaseSent
		}
		to.remove(w, h)
		yield(action{executeRelease, h, 0}, to)
	}
}

// nextOfAcquire has the store execute an acquire.
func (w *world) nextOfAcquire(s *state, h int, yield func(a action, to state)) {
	x := &s.holder[h]
	to := *s
	how := 0
	granted := to.acquire(w, h)
	if granted {
		how = 1
	}
	to.holder[h].flight &^= acquireSent | acquireAgain
	if w.duplicates && x.flight&acquireSent != 0 {
		to.holder[h].flight |= acquireAgain
	}
	if x.reply.there { // it is executed again, and the holder gets only one of the replies
		yield(action{executeAcquire, h, how}, to)
	}
	added := granted && w.fault != twoSteps
	if x.phase == acquiring && (added || !granted) {
		to.holder[h].answer(w, &to, granted)
	}
	yield(action{executeAcquire, h, how}, to)
}

// nextOfRenewReplies has the reply to a renewal arrive.
func (w *world) nextOfRenewReplies(s *state, h int, yield func(a action, to state)) {
	x := &s.holder[h]
	if x.flight&renewed != 0 {
		to := *s
		y := &to.holder[h]
		y.flight &^= renewed
		if s.believes(w, h) { // a permit that has ended does not come back
			y.age = y.wait
			if w.fault == deadlineFromReply {
				y.age = 0
			}
			y.wait = -1
		}
		yield(action{renewReplyArrives, h, 0}, to)
	}
	if x.flight&notHeld != 0 {
		to := *s
		to.holder[h].leave()
		yield(action{renewReplyArrives, h, 1}, to)
	}
	if x.flight&olderRenewed != 0 {
		to := *s
		y := &to.holder[h]
		y.flight &^= olderRenewed
		if w.fault == olderReplyCounts && s.believes(w, h) && y.wait >= 0 {
			y.age = y.wait
		}
		yield(action{olderRenewReplyArrives, h, 0}, to)
	}
}

// answer puts the reply to an acquire in flight.
func (x *holder) answer(w *world, s *state, granted bool) {
	x.reply = reply{there: true, granted: granted}
	if granted && w.resource {
		x.reply.token, x.reply.turn = s.store.last, s.turns
	}
}
