package checked

// world says what can happen in a search. The zero value of a field means that it cannot.
type world struct {
	name       string
	holders    int
	n          int8
	lease      int8 // ticks on the store's clock
	ticks      int8 // how long the search looks ahead
	duplicates bool // an acquire may be executed twice, other requests any number of times, at any time later
	older      bool // renewals that were given up for a newer one may still be executed, and be answered
	timed      bool // the search keeps how long ago the store has granted or renewed
	drift      bool // clocks of processes may miss a tick in a lease
	crash      bool
	shrink     bool // n becomes one less, once
	failovers  int8
	outage     int8 // ticks that a failover takes, more than the tokens are ahead of the clock; 0 has it take no time at all
	forward    int8 // the store's clock may step so far forward, once
	back       int8 // and back, once
	resource   bool // holders work on a resource that checks their tokens
	fault      fault
}

// fault is a mistake that the model makes on purpose. The search must catch it.
type fault int

const (
	none fault = iota
	deadlineFromReply
	deadlineFromSending
	noMargin
	olderReplyCounts
	oneTooMany
	twoSteps
	cleanUpAfterCounting
	renewalAddsMissing
	renewalOfDead
	renewalOfAll
	releaseByCount
	releaseOfAll
	shrinkingEvicts
	tokenFromClock
	tokenFromLast
)

var faults = map[fault]string{
	deadlineFromReply:    "the deadline counts from the reply",
	deadlineFromSending:  "the deadline moves when a renewal is sent, whatever becomes of it",
	noMargin:             "the holder believes for the whole lease, while its clock may be slow",
	olderReplyCounts:     "the reply to an older renewal counts for the newest",
	oneTooMany:           "acquire adds while count <= n",
	twoSteps:             "acquire counts in one step and adds in another",
	cleanUpAfterCounting: "acquire drops the expired after it has counted",
	renewalAddsMissing:   "a renewal adds a missing member",
	renewalOfDead:        "a renewal revives an expired member",
	renewalOfAll:         "a renewal moves the expiry of all members",
	releaseByCount:       "a release removes the oldest member",
	releaseOfAll:         "a release removes the key",
	shrinkingEvicts:      "acquire evicts what is above n",
	tokenFromClock:       "the token is the clock",
	tokenFromLast:        "the token is the last one + 1",
}

// deadline is the age at which a holder stops believing.
func (w *world) deadline() int8 {
	if w.fault == noMargin {
		return w.lease
	}
	return w.lease - margin
}

// apart says whether it matters which holder is which: not if they differ in their names alone.
func (w *world) apart() bool { return w.crash || w.drift }

// first is the state in which the search begins.
func (w *world) first() state {
	s := state{now: start, n: w.n, slip: [2]int8{w.lease, w.lease}}
	for h := range s.holder {
		s.holder[h].wait = -1
		s.holder[h].since = w.lease
	}
	return s
}
