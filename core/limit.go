package core

import (
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Limit is an algorithm with its numbers: an immutable, comparable value. Two limits are equal (==) if their kinds and
// numbers are. There are three kinds, and no others:
//
//   - [Quota] counts over time: [Leaky], [Shaping], [TokenBucket], [GCRA], [FixedWindow], [SlidingWindow], [SlidingLog],
//     [Calendar] and [Unlimited]. [Balance] counts prepaid units, and no time.
//   - [Places] are held and given back: [Concurrent].
//   - [Bans] keep keys out: [Ban.Limit].
//
// A verb of a [Limiter] takes the kinds that it can answer: [Limiter.Allow] a Quota and [Limiter.Acquire] Places. A
// [Check] takes each of them, and so does [Limiter.Peek].
//
// The constructors never fail. Validate, and every verb of a [Limiter], returns an
// error for a limit that makes no sense. A nil Limit is an error, too, and so is a zero Quota;
// for no limit, use [Unlimited].
//
// A limit's state belongs to a key and to the limit's identity. The identity of
// an unnamed limit is its algorithm and numbers, so two limits with the same
// numbers share the state of a key, wherever in a program they stand. The identity
// of a named limit is its name and algorithm alone.
type Limit interface {
	// Name returns the limit's given name, or one derived from its algorithm and
	// numbers, such as "leaky:10:1/s". A derived name, too, can stand in a header
	// field as it is.
	Name() string
	// Identity returns the common part of all limits with the same state: the algorithm and the name of a named limit,
	// without numbers, and otherwise the limit itself. Two limits share the state of a key if their identities are equal.
	// A key with an identity can be the key of a map of states. The identity of a limit with a given name is not valid:
	// it serves to compare. [Quota.Exact] makes no difference.
	Identity() Limit
	// Algorithm returns the name of the limit's algorithm, as in its String: one of
	// "leaky", "shaping", "token-bucket", "gcra", "fixed-window", "sliding-window",
	// "sliding-log", "concurrent", "ban", "calendar", "balance" and "fair-share", or "" for a zero Quota and [Unlimited].
	Algorithm() string
	// Capacity returns how many units pass at once when the limit is fresh: [math.MaxInt] under
	// [Unlimited].
	Capacity() int
	// Rate returns the pace of the limit: the drain or refill of a bucket, or capacity per window. [Unlimited] has the
	// zero Rate, and a [Calendar] limit with windows of different lengths has a Period of 0.
	Rate() Rate
	// Validate returns nil if the limit can be used, and otherwise an error with the
	// reason.
	Validate() error
	// String returns the limit in its canonical form, which [ParseLimit] reads back:
	//
	//	leaky 10, 1/s
	//	token-bucket 100, 5/2s
	//	token-bucket 20, 10/m, debt 100
	//	sliding-window 1000, 1h
	//	login: fixed-window 5, 15m
	//	logins: ban 5, 10m, first 10m, factor 2, longest 7d, forget 1d
	//	calendar 10000, month@15 Europe/Berlin
	//	credits: balance
	//
	//	unlimited
	//
	// The number after the algorithm is the capacity, then comes the rate of a
	// bucket, the length of a window or the [Period] of a calendar. A given name stands in front.
	String() string
	// MarshalText implements [encoding.TextMarshaler] with the canonical form. A
	// limit that is not valid is an error.
	MarshalText() ([]byte, error)

	known() *exact.Spec
}

// Quota is a [Limit] that counts over time: units pass up to a capacity, and more when some have drained or a window has closed. A
// Quota in a configuration is read by [Quota.UnmarshalText].
type Quota struct{ limit }

// Places are a [Limit] of calls at once: a call takes a place and gives it back when its work is done. [Concurrent]
// makes it.
type Places struct{ limit }

// Bans are the [Limit] of a [Ban]: it fits as long as a key is not out. [Ban.Limit] makes it.
type Bans struct{ limit }

// limit is the common part of all kinds.
type limit struct {
	spec *exact.Spec // one for all equal limits, see exact.SpecOf; nil in a zero limit
}

// limitOf returns the limit with a spec, of the kind of its algorithm.
func limitOf(s *exact.Spec) Limit {
	switch s.Algorithm.Kind() {
	case exact.Places:
		return Places{limit{s}}
	case exact.Bans:
		return Bans{limit{s}}
	default:
		return Quota{limit{s}}
	}
}

// limitWith returns the common part of the limits with some Params.
func limitWith(p exact.Params) limit {
	switch p {
	case exact.Params{}:
		return limit{}
	case exact.Unlimited.Params:
		return Unlimited.limit
	}
	return limit{exact.SpecOf(p)}
}

// known returns the limit's spec, or exact.Zero for a zero limit.
func (l limit) known() *exact.Spec {
	if l.spec == nil {
		return exact.Zero
	}
	return l.spec
}

// specOf returns the spec of a limit, or exact.Zero if the limit is nil.
func specOf(l Limit) *exact.Spec {
	if l == nil {
		return exact.Zero
	}
	return l.known()
}

// Named returns the quota with a name of its own. Its state is then kept when its numbers change: a client that has used
// 7 of 10 has used 7 of 20 after an upgrade, and a change of rate counts from that moment on. If the new rate counts in
// other fractions of an event, a bucket rounds the used units up to one of them: they rise by less than an event, so that
// Remaining may be one lower, and never higher.
//
// A name starts with a letter or '*' and goes on with letters, digits and
// !#$%&'*+.^_`|~:/- so that it can stand in a header field as it is. It is at
// most 64 bytes long. The empty name makes the quota unnamed again. Names that begin
// with "weir-" are reserved, and not valid.
func (q Quota) Named(name string) Quota { return Quota{q.named(name)} }

// Named returns the places with a name of their own, as [Quota.Named] does. When their number becomes smaller, no holder
// loses a place.
func (p Places) Named(name string) Places { return Places{p.named(name)} }

func (l limit) named(name string) limit {
	if l == Unlimited.limit {
		return l
	}
	p := l.known().Params
	p.Name = name
	return limitWith(p)
}

// ownNamed is Named for a quota of this package, which may have a reserved name.
func (q Quota) ownNamed(name string) Quota {
	p := q.known().Params
	p.Name, p.Own = name, true
	return Quota{limitWith(p)}
}

// Exact returns the quota without leases: [Lease] asks the store about every check of it. Use it for limits that must not
// admit one unit too much. It shares its state with the quota that is not Exact, and its text ends with ", exact".
func (q Quota) Exact() Quota {
	if q == Unlimited {
		return q
	}
	p := q.known().Params
	p.Exact = true
	return Quota{limitWith(p)}
}

// WithDebt returns the quota with debt: settlements ([Reservation.Settle], [Limiter.Charge]) use up to most units more than
// the capacity, where the excess is otherwise forgiven. Checks never do: nothing passes until the debt is paid. So a client
// that declares too little pays for its units, later. The text of such a quota ends with ", debt 50" or ", debt unlimited".
//
// The debt of a [Leaky], a [TokenBucket] and a [GCRA] drains: in any time τ no more units are charged than the capacity, the
// units that drain in τ, and the debt. A [FixedWindow] that closes in debt is followed by others at once, each of which
// pays as much as its capacity. Of a [Calendar] the next window pays, so its debt is at most the capacity. Another limit
// with debt, a debt of less than 0, and the share of a limit with debt ([FairShare]) are not valid. 0 is no debt.
//
// A most of [math.MaxInt] is as much as can be counted: a client then uses no more than the rate in the long run, however
// little it declares. It is not valid for a [Calendar].
//
// In debt, Remaining is 0, RetryAfter is the wait until the debt is paid and the cost fits, and a refund gives back exactly
// the units that were charged. A [Limiter.HoldBack] makes no debt. A clock that steps back is a debt of as long under
// [GCRA], which knows an instant alone. A limit with a name keeps its used units when its debt changes. [Unlimited] has none.
func (q Quota) WithDebt(most int) Quota {
	if q == Unlimited {
		return q
	}
	p := q.known().Params
	p.Debt = most
	return Quota{limitWith(p)}
}

// Debt returns how many units more than the capacity settlements may use: see [Quota.WithDebt].
func (q Quota) Debt() int { return q.known().Debt }

func (l limit) Name() string { return l.known().Label() }

func (l limit) Identity() Limit {
	if l.spec == nil {
		return Quota{}
	}
	return limitOf(l.spec.Identity())
}

func (l limit) Algorithm() string { return l.known().Algorithm.String() }

func (l limit) Capacity() int { return l.known().Capacity }

func (l limit) Rate() Rate {
	s := l.known()
	return Rate{Events: s.Events, Period: s.Period}
}

// Share returns the part of the quota that one of n processes keeps when they cannot agree: of the
// capacity, rounded up, and of the rate. All parts together may be a little more than the quota. Where
// traffic is spread unevenly, a process may have too small a part. The name stays. n of less than 1 is
// like 1.
func (q Quota) Share(n int) Quota { return Quota{q.share(n)} }

// Share returns the part of the places that one of n processes keeps when they cannot agree, as [Quota.Share] does.
func (p Places) Share(n int) Places { return Places{p.share(n)} }

func (l limit) share(n int) limit {
	if n <= 1 || l == Unlimited.limit || l.Validate() != nil {
		return l
	}
	return limitWith(l.spec.Share(n))
}

func (l limit) Validate() error {
	if l.spec != nil && l.spec.Problem() == nil {
		return nil
	}
	return l.problem()
}

// problem is the slow path of Validate, apart so that the compiler inlines the fast one.
func (l limit) problem() error { return invalid("core: %w", l.known().Problem()) }

func (l limit) String() string { return l.known().String() }

// ParseLimit reads a limit in the form that its String has. White space
// around the comma may be left out and elsewhere doubled, and durations may have any form
// that [time.ParseDuration] takes, or a whole number of days ("7d"). A rate may also be per
// "second", "minute", "hour" or "day". The limit is validated.
//
// A type switch on the result tells the kinds apart. [Quota.UnmarshalText] and [Places.UnmarshalText] read one kind alone.
func ParseLimit(text string) (Limit, error) {
	p, err := exact.Parse(text)
	if err != nil {
		return nil, invalid("core: limit %q: %w", text, err)
	}
	l := limitWith(p)
	if err := l.Validate(); err != nil {
		return nil, err
	}
	return limitOf(l.spec), nil
}

func (l limit) MarshalText() ([]byte, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	return []byte(l.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler] with [ParseLimit]. A limit that is no Quota is an error. On an
// error the quota is left as it was.
func (q *Quota) UnmarshalText(text []byte) error {
	l, err := ParseLimit(string(text))
	if err != nil {
		return err
	}
	own, ok := l.(Quota)
	if !ok {
		return invalid("core: %s is not a quota: it has to be counted over time", l)
	}
	*q = own
	return nil
}

// UnmarshalText implements [encoding.TextUnmarshaler] with [ParseLimit]. A limit that is not made of Places is an error.
// On an error the places are left as they were.
func (p *Places) UnmarshalText(text []byte) error {
	l, err := ParseLimit(string(text))
	if err != nil {
		return err
	}
	own, ok := l.(Places)
	if !ok {
		return invalid("core: %s is not a number of places, which begins with %q", l, "concurrent")
	}
	*p = own
	return nil
}

// Rate is a number of events per period, such as ten per second.
//
// The two fields are kept as given: two per two seconds and one per second fill
// and drain a bucket at the same pace, but they are different Rates, print
// differently and make different [Limit] values. The zero Rate is not valid.
type Rate struct {
	// Events is how many events pass in a Period. It must be at least 1.
	Events int
	// Period is the time in which they pass. It must be positive.
	Period time.Duration
}

// PerSecond returns the Rate of n events a second.
func PerSecond(n int) Rate { return Rate{Events: n, Period: time.Second} }

// PerMinute returns the Rate of n events a minute.
func PerMinute(n int) Rate { return Rate{Events: n, Period: time.Minute} }

// PerHour returns the Rate of n events an hour.
func PerHour(n int) Rate { return Rate{Events: n, Period: time.Hour} }

// PerDay returns the Rate of n events in 24 hours.
func PerDay(n int) Rate { return Rate{Events: n, Period: 24 * time.Hour} }

// Per returns the Rate of n events in each period of length d.
func Per(n int, d time.Duration) Rate { return Rate{Events: n, Period: d} }

// String returns the rate in its canonical form: "10/s", "100/h", "5/2s".
func (r Rate) String() string { return string(exact.AppendRate(nil, r.Events, r.Period)) }
