package core

import (
	"fmt"
	"math"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Never is the RetryAfter of a check that no wait can help, because its cost, or its cost and its
// [Check.Headroom] together, exceeds the capacity of the limit.
const Never time.Duration = math.MaxInt64

// Check asks: may Cost units pass under Limit for Key?
type Check struct {
	// Key names the client or thing that is limited: "ip:203.0.113.9", "user:42". It may be any non-empty string; long or
	// unprintable ones are hashed by the store.
	Key string
	// Limit is the limit to ask.
	Limit Limit
	// Cost is the number of units to ask for. The default is 1; a negative cost is an error. To ask
	// for nothing, set Mode to [Look].
	Cost int
	// Mode tells how the units are asked for. The default is [Charge].
	Mode Mode
	// Shadow makes the check a call of its own that travels with the others. It is
	// decided alone and charged to a state of its own: it neither denies the other
	// checks nor is spared when they are denied. If it alone cannot be answered, its
	// Decision is Degraded and has nothing but the Limit: that is no denial.
	Shadow bool
	// Undelayed is the number of units of a [Shaping] limit's queue that pass without a Delay, like nginx's "delay=": the
	// first unit of a burst and this many behind it pass at once, and the others at the limit's pace. The default is 0,
	// which delays all but the first. With any other limit it is an error.
	Undelayed int
	// Headroom is how many units have to be left after the charge. The check passes only if its Cost and
	// its Headroom fit together, and is charged the Cost alone. So less important traffic leaves something
	// for traffic that asks for the same key and limit with less: where batch jobs ask with a Headroom of 200 and
	// users with 0, batch jobs stop while 200 units are left for users, who never notice them.
	//
	// The default is 0, which leaves nothing for others. A negative Headroom is an error ([ErrInvalid]), and so
	// is one with [Look], which asks for nothing. If Cost and Headroom exceed the capacity together, the check is
	// denied with a RetryAfter of [Never]. A [Condition] passes if both would fit.
	//
	// RetryAfter is the wait until both fit. The other numbers of the [Decision] are those of the limit:
	// Remaining counts the units that this check has to leave for others, too. Each check of a
	// key and limit in a call has its own Headroom, on top of its own cost and of those before it.
	// Settlements, refunds and the Delay of a [Shaping] limit know nothing of it.
	Headroom int
	// Or makes the check an alternative of the one before it in the call: see [FirstOf], which sets it. The default is no
	// alternative. With Or, the first check of a call is an error ([ErrInvalid]), and so is a check with another Shadow
	// than the check before it.
	Or bool
	// ReserveFor is for how long [Limiter.Reserve] reserves the units. If they are not settled by then, on the store's
	// clock, the store takes the process that has reserved them for dead and gives them back as if they had been settled
	// at 0. That happens once, and by itself, when the next check of the key and limit that has a ReserveFor is decided.
	// Other checks do not look, and cost no more than ever: they find the units used until then.
	//
	// A call, and a settlement of such reservations, gives back 4 at most, the latest to end, so that it does not hold
	// the store up. The rest stays charged until later ones: meanwhile the key has less left than it should, never more.
	// A reservation that has not been given back yet can still be settled as if its time were not over.
	//
	// It is right for tokens per minute. It is wrong for money, since a process that has died has spent that all the
	// same. Make it longer than the longest request: a settlement that comes after the units were given back charges the
	// whole real cost, as of now.
	//
	// The default is 0, which reserves for good. Any other time has to be from a millisecond to a day ([ErrInvalid]). It
	// is an error under a [Concurrent] limit, which has its lease, a [Shaping] one, which hands turns on, or a [Calendar]
	// one. Checks of a call about one key and limit have the same one. Verbs with charges that cannot be settled do not
	// take it. For a check that is not charged it means nothing.
	ReserveFor time.Duration
}

// Mode tells how a [Check] asks for its units.
type Mode uint8

const (
	// Charge charges the units if the call passes.
	Charge Mode = iota
	// Condition lets the call pass only if the units fit, and charges nothing for them. A condition
	// may not ask about the same key and limit as a check that is charged, unless it is an
	// alternative ([FirstOf]).
	Condition
	// Look tells the numbers and is always allowed. It charges nothing and creates no key. The Cost
	// of such a check is 0.
	Look
	// OnDenial lets the call pass only if no ban is in force, and strikes if the call is denied all the same: by
	// another check that is neither a ban nor a shadow. It is for the limit of a [Ban] alone, and the Cost is how many
	// strikes a denial is. They are made in the same round trip. It is the one thing that a denied call charges.
	OnDenial
)

func (m Mode) String() string {
	switch m {
	case Charge:
		return "Charge"
	case Condition:
		return "Condition"
	case Look:
		return "Look"
	case OnDenial:
		return "OnDenial"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// Units returns how many units a check asks for: its Cost, or 1 where that is 0, and none if it only
// looks.
func (c *Check) Units() int {
	switch {
	case c.Mode == Look:
		return 0
	case c.Cost == 0:
		return 1
	}
	return c.Cost
}

// asksBan reports whether a check asks about a ban without charging it.
func (c *Check) asksBan() bool {
	return (c.Mode == Condition || c.Mode == OnDenial) && c.Limit.spec != nil && c.Limit.spec.Algorithm.Bans()
}

// spec returns the spec under which a check counts.
func (c *Check) spec() *exact.Spec {
	if c.Shadow {
		return c.Limit.spec.Shadow().For(c.Key)
	}
	return c.Limit.spec.For(c.Key)
}

// sameState reports whether two checks are answered from one state.
func sameState(a, b *Check) bool {
	return a.Key == b.Key && a.Shadow == b.Shadow && a.Limit.spec.Identity() == b.Limit.spec.Identity()
}

// checkOf returns a check for n units, which may be 0.
func checkOf(key string, limit Limit, n int) Check {
	c := Check{Key: key, Limit: limit, Cost: n}
	if n == 0 {
		c.Mode = Look
	}
	return c
}

// Decision is the answer to one [Check].
//
// Take a leaky bucket of 10 that drains one a second, and a client that has just sent
// 10 requests at once. The tenth Decision says Allowed, Remaining 0, NextAfter 1s and
// ResetAfter 10s. An eleventh request at the same moment is denied with RetryAfter 1s.
// Half a second later, RetryAfter would be 500ms and ResetAfter 9.5s.
type Decision struct {
	// Allowed says whether this check passes. A call of several checks passes if all of them are allowed, except those
	// that are Waived.
	Allowed bool
	// Waived says that another one of the check's alternatives counts in its place, so that this
	// Decision neither denies the call nor costs anything: see [FirstOf]. It is false for a check that
	// has no alternatives.
	Waived bool
	// Degraded says that the store could not answer, and this process has decided by itself:
	// see the Fallback mode of package guard. The numbers are those of the process's share of the
	// limit ([Limit.Share]). A shadow check is not decided then.
	Degraded bool
	// Leased says that this process has decided by itself, from units that the store had charged ahead of time: see
	// [Lease]. The numbers are estimates then: those of the latest lease, less the units spent since.
	Leased bool
	// Limit is the limit that was asked.
	Limit Limit
	// Remaining is how many whole units are left: after the charge, or as they are now if
	// the check was not charged, because the call was denied, was a Peek or cost nothing.
	// NextAfter and ResetAfter are about the same instant. 0 ≤ Remaining ≤ capacity.
	Remaining int
	// RetryAfter is 0 if Allowed. Otherwise it is the exact wait after which the same
	// check passes if the key is not used meanwhile, or [Never]. If Estimated, it is a guess.
	RetryAfter time.Duration
	// NextAfter is the time until Remaining grows by one if the key is not used
	// meanwhile. It is 0 when nothing has been used. A check that fits and takes places of a [Concurrent]
	// limit is told the limit's lease, since no store looks when others' places are free.
	NextAfter time.Duration
	// ResetAfter is the time until the key is as good as new.
	ResetAfter time.Duration
	// Delay is how long the caller should hold an allowed request back, so that
	// requests leave at an even pace. Only [Shaping] limits set it.
	Delay time.Duration
	// Estimated says that RetryAfter is no more than a guess: it is not known when a place of a [Concurrent] limit will
	// be given back. A store tells when enough leases end if none is renewed; a [Limiter] tells how long places have
	// lately been held, once it has seen that.
	Estimated bool
	// Began says that strikes have begun a [Ban].
	Began bool
	// Token is the token of the places of a [Concurrent] limit that were taken, and otherwise 0. It is greater than the
	// tokens of all calls that took places of the key before: see [Permit.Token].
	Token uint64
}

// Denies reports whether the Decision denies its call, unless its check is a shadow: it is neither Allowed nor Waived.
func (d Decision) Denies() bool { return !d.Allowed && !d.Waived }

// Denied returns the decision that denies a call, and whether one does:
//
//	decisions, err := limiter.AllowAll(ctx, checks...)
//	if err != nil {
//		return err
//	}
//	if denial, denied := core.Denied(decisions); denied {
//		return fmt.Errorf("%v is used up: come again in %v", denial.Limit, denial.RetryAfter)
//	}
//
// Of several it is the one with the longest RetryAfter, and the first of these: absent other traffic, the call passes
// then. Decisions that are Waived do not count. Decisions do not know whether their check is a shadow, so leave those of
// shadow checks out.
func Denied(decisions []Decision) (denial Decision, denied bool) {
	for i := range decisions {
		if d := &decisions[i]; d.Denies() && (!denied || d.RetryAfter > denial.RetryAfter) {
			denial, denied = *d, true
		}
	}
	return denial, denied
}
