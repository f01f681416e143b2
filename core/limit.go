package core

import (
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Limit is an algorithm with its numbers: an immutable, comparable value, made
// by [Leaky], [Shaping], [TokenBucket], [GCRA], [FixedWindow], [SlidingWindow],
// [SlidingLog], [Concurrent], [Calendar] or [ParseLimit].
//
// The constructors never fail. Validate, and every verb of a [Limiter], returns an
// error for a limit that makes no sense. The zero Limit is not valid; for no limit,
// use [Unlimited].
//
// A limit's state belongs to a key and to the limit's identity. The identity of
// an unnamed limit is its algorithm and numbers, so two limits with the same
// numbers share the state of a key, wherever in a program they stand. The identity
// of a named limit is its name and algorithm alone. See [Limit.Identity].
type Limit struct {
	spec *exact.Spec // one for all equal limits, see exact.SpecOf; nil in the zero Limit
}

// limitOf returns the limit with some Params.
func limitOf(p exact.Params) Limit {
	switch p {
	case exact.Params{}:
		return Limit{}
	case exact.Unlimited.Params:
		return Unlimited
	}
	return Limit{exact.SpecOf(p)}
}

// known returns the limit's spec, which is exact.Zero for the zero Limit.
func (l Limit) known() *exact.Spec {
	if l.spec == nil {
		return exact.Zero
	}
	return l.spec
}

// Named returns the limit with a name of its own. Its state is then kept when its numbers change: a client that has used
// 7 of 10 has used 7 of 20 after an upgrade, and a change of rate counts from that moment on. If the new rate counts in
// other fractions of an event, a bucket rounds the used units up to one of them: they rise by less than an event, so that
// Remaining may be one lower, and never higher.
//
// A name starts with a letter or '*' and goes on with letters, digits and
// !#$%&'*+.^_`|~:/- so that it can stand in a header field as it is. It is at
// most 64 bytes long. The empty name makes the limit unnamed again. Names that begin
// with "weir-" are reserved, and not valid.
func (l Limit) Named(name string) Limit {
	if l == Unlimited {
		return l
	}
	p := l.known().Params
	p.Name = name
	return limitOf(p)
}

// ownNamed is Named for a limit of this package, which may have a reserved name.
func (l Limit) ownNamed(name string) Limit {
	p := l.known().Params
	p.Name, p.Own = name, true
	return limitOf(p)
}

// Exact returns the limit without leases: [Lease] asks the store about every check of it. Use it for limits that must not
// admit one unit too much. It shares its state with the limit that is not Exact, and its text ends with ", exact".
func (l Limit) Exact() Limit {
	if l == Unlimited {
		return l
	}
	p := l.known().Params
	p.Exact = true
	return limitOf(p)
}

// Name returns the limit's given name, or one derived from its algorithm and
// numbers, such as "leaky:10:1/s". A derived name, too, can stand in a header
// field as it is.
func (l Limit) Name() string { return l.known().Label() }

// Identity returns the common part of all limits with the same state: the algorithm and the name of a named limit,
// without numbers, and otherwise the limit itself. Two limits share the state of a key if their identities are equal. A
// key with an identity can be the key of a map of states. The identity of a limit with a given name is not valid: it
// serves to compare. [Limit.Exact] makes no difference.
func (l Limit) Identity() Limit {
	if l.spec == nil {
		return l
	}
	return Limit{l.spec.Identity()}
}

// Algorithm returns the name of the limit's algorithm, as in its String: one of
// "leaky", "shaping", "token-bucket", "gcra", "fixed-window", "sliding-window",
// "sliding-log", "concurrent", "ban" and "calendar", or "" for the zero Limit and [Unlimited].
func (l Limit) Algorithm() string { return l.known().Algorithm.String() }

// Capacity returns how many units pass at once when the limit is fresh: [math.MaxInt] under
// [Unlimited].
func (l Limit) Capacity() int { return l.known().Capacity }

// Rate returns the pace of the limit: the drain or refill of a bucket, or capacity per window. [Unlimited] has the zero
// Rate, and a [Calendar] limit with windows of different lengths has a Period of 0.
func (l Limit) Rate() Rate {
	s := l.known()
	return Rate{Events: s.Events, Period: s.Period}
}

// Share returns the part of the limit that one of n processes keeps when they cannot agree: of the
// capacity, rounded up, and of the rate. All parts together may be a little more than the limit. Where
// traffic is spread unevenly, a process may have too small a part. The name stays. n of less than 1 is
// like 1. The part of the limit of a [Ban] is all of it.
func (l Limit) Share(n int) Limit {
	if n <= 1 || l == Unlimited || l.Validate() != nil || l.spec.Algorithm.Bans() {
		return l
	}
	return limitOf(l.spec.Share(n))
}

// Validate returns nil if the limit can be used, and otherwise an error with the
// reason.
func (l Limit) Validate() error {
	if l.spec != nil && l.spec.Problem() == nil {
		return nil
	}
	return l.problem()
}

// problem is the slow path of Validate, apart so that the compiler inlines the fast one.
func (l Limit) problem() error { return invalid("core: %w", l.known().Problem()) }

// String returns the limit in its canonical form, which [ParseLimit] reads back:
//
//	leaky 10, 1/s
//	token-bucket 100, 5/2s
//	sliding-window 1000, 1h
//	login: fixed-window 5, 15m
//	logins: ban 5, 10m, first 10m, factor 2, longest 7d, forget 1d
//	calendar 10000, month@15 Europe/Berlin
//
//	unlimited
//
// The number after the algorithm is the capacity, then comes the rate of a
// bucket, the length of a window or the [Period] of a calendar. A given name stands in front.
func (l Limit) String() string { return l.known().String() }

// ParseLimit reads a limit in the form that [Limit.String] writes. White space
// around the comma may be left out and elsewhere doubled, and durations may have any form
// that [time.ParseDuration] takes, or a whole number of days ("7d"). A rate may also be per
// "second", "minute", "hour" or "day". The limit is validated.
func ParseLimit(text string) (Limit, error) {
	p, err := exact.Parse(text)
	if err != nil {
		return Limit{}, invalid("core: limit %q: %w", text, err)
	}
	l := limitOf(p)
	if err := l.Validate(); err != nil {
		return Limit{}, err
	}
	return l, nil
}

// MarshalText implements [encoding.TextMarshaler] with the canonical form. A
// limit that is not valid is an error.
func (l Limit) MarshalText() ([]byte, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	return []byte(l.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler] with [ParseLimit]. On an
// error the limit is left as it was.
func (l *Limit) UnmarshalText(text []byte) error {
	parsed, err := ParseLimit(string(text))
	if err != nil {
		return err
	}
	*l = parsed
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
