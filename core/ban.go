package core

import (
	"context"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
)

// Ban keeps a key out for a while when it has had too many strikes, such as five wrong passwords, and for longer
// each time:
//
//	brute := core.Ban{Strikes: core.SlidingLog(5, 10*time.Minute), First: 10 * time.Minute}.Named("logins")
//
// The strike that uses up Strikes begins a ban. The first ban lasts First; each one that follows before the others are
// forgotten lasts Factor times longer, up to Longest. Each lasts up to a tenth longer than that, so that a client cannot
// time its end. While a ban is in force, nothing is counted, and to ask does not prolong it.
//
// A Ban is a value that can be compared and copied. All Bans with one name, or with the same numbers and no name, share
// the bans of a key: [Ban.Limit] has the identity. The zero Ban is not valid.
type Ban struct {
	// Strikes sets how many strikes in which time begin a ban: a [SlidingLog] of at most 1,000.
	Strikes Quota
	// First is how long the first ban lasts: from a millisecond to 10 years. The default is the window of Strikes.
	First time.Duration
	// Factor is how much longer each ban is than the one before, from 1 to 1,000. The default is 2.
	Factor int
	// Longest is how long a ban lasts at most, jitter aside: up to 10 years, and no less than First. The default is seven
	// days, or First if that is longer. To keep a client out for ever, use a list.
	Longest time.Duration
	// Forget is how long after the end of a ban the next one is still longer: up to 10 years. Then the key is as
	// good as new. The default is a day.
	Forget time.Duration
	// Extend begins a ban anew with each strike during it, so that it ends only when the key has been quiet for as
	// long as the ban lasts. A check that charges a ban, or that has the Mode [OnDenial], strikes when the ban denies
	// it. The default is that no strike counts during a ban.
	Extend bool

	name string
}

// Named returns the ban with a name: see [Quota.Named]. The bans of a key are then kept when the numbers
// change, and all services that use the name share them.
func (b Ban) Named(name string) Ban {
	b.name = name
	return b
}

// Limit returns the limit under which a [Check] asks about the ban. Its units are strikes. A check that is charged
// strikes if it passes; with the Mode [Condition] it only asks, and with [OnDenial] it strikes if the call is denied.
// It passes unless a ban is in force, however many strikes it costs. RetryAfter is then exactly the time until the ban
// ends, and Remaining how many strikes are left.
//
// If the ban makes no sense, neither does the limit: its Validate says why.
func (b Ban) Limit() Bans {
	return Bans{limitWith(exact.BanParams(b.name, b.Strikes.known().Params, exact.BanTerms{
		First: b.First, Factor: b.Factor, Longest: b.Longest, Forget: b.Forget, Extend: b.Extend,
	}))}
}

// Validate returns nil if the ban can be used, and otherwise an error ([ErrInvalid]) with the reason.
func (b Ban) Validate() error {
	if err := b.Strikes.Validate(); err != nil {
		return invalid("core: the strikes of a ban: %w", err)
	}
	if p := b.Strikes.known().Params; p.Algorithm != exact.SlidingLog || p.Name != "" {
		return invalid("core: the strikes of a ban are %s, want a SlidingLog without a name", b.Strikes)
	}
	return b.Limit().Validate()
}

// String returns the ban in its canonical form, which [ParseBan] reads back, with its defaults:
//
//	logins: ban 5, 10m, first 10m, factor 2, longest 7d, forget 1d
//
// That of a ban with Extend ends with ", extend".
func (b Ban) String() string { return b.Limit().String() }

// ParseBan reads a ban in the form that [Ban.String] writes, and validates it. [ParseLimit] reads the same as the
// limit of the ban.
func ParseBan(text string) (Ban, error) {
	limit, err := ParseLimit(text)
	if err != nil {
		return Ban{}, err
	}
	bans, ok := limit.(Bans)
	if !ok {
		return Ban{}, invalid("core: %s is no ban, which begins with %q", limit, "ban")
	}
	return bans.Ban(), nil
}

// Ban returns the ban of the limit, with its defaults.
func (b Bans) Ban() Ban {
	p := b.known().Params
	return Ban{
		Strikes: SlidingLog(p.Capacity, p.Period), name: p.Name,
		First: p.Ban.First, Factor: p.Ban.Factor, Longest: p.Ban.Longest, Forget: p.Ban.Forget, Extend: p.Ban.Extend,
	}
}

// Banned returns for how long a key is still banned, or 0 if it is not. It changes nothing.
func (l *Limiter) Banned(ctx context.Context, key string, ban Ban) (left time.Duration, err error) {
	if err := ban.Validate(); err != nil {
		return 0, err
	}
	d, err := l.Peek(ctx, key, ban.Limit())
	return d.RetryAfter, err
}

// Strike adds n strikes to a key. A ban that is in force stays as it is, unless it extends. The [Decision] tells the
// strikes that are left, and whether a ban has begun ([Decision.Began]). A negative n is an error.
func (l *Limiter) Strike(ctx context.Context, key string, ban Ban, n int) (Decision, error) {
	if err := ban.Validate(); err != nil {
		return Decision{}, err
	}
	return l.settleOne(ctx, Settlement{Check: checkOf(key, ban.Limit(), 0), Cost: n}, n)
}

// Forgive forgets the strikes of a key: after a login that succeeds. A ban that is in force stays as it is, and so does
// the memory of earlier ones: see [Limiter.Lift].
func (l *Limiter) Forgive(ctx context.Context, key string, ban Ban) (Decision, error) {
	if err := ban.Validate(); err != nil {
		return Decision{}, err
	}
	all := ban.Strikes.Capacity() // as many as begin a ban, so that a key has fewer
	return l.settleOne(ctx, Settlement{Check: checkOf(key, ban.Limit(), all)}, all)
}

// Ban bans a key by hand from now on for a time, in place of a ban that is in force. The reason is for readers of the
// list of bans: at most 200 bytes. The next ban by strikes is not longer for it.
//
// A time that is not positive or is longer than 10 years, and a longer reason, are errors ([ErrInvalid]).
func (l *Limiter) Ban(ctx context.Context, key string, ban Ban, d time.Duration, reason string) error {
	if err := ban.Validate(); err != nil {
		return err
	}
	if err := validateBan(d, reason); err != nil {
		return err
	}
	check := checkOf(key, ban.Limit(), 0)
	if err := validate([]Check{check}); err != nil {
		return err
	}
	return l.settle(ctx, []Settlement{{Check: check, BanFor: d, Reason: reason}})
}

// Lift ends the ban of a key, and forgets its strikes and its earlier bans. A key that is not banned is no error. A
// cache of denials (denialcache.New) in another process may go on denying for ten seconds.
func (l *Limiter) Lift(ctx context.Context, key string, ban Ban) error {
	if err := ban.Validate(); err != nil {
		return err
	}
	return l.Reset(ctx, key, ban.Limit())
}

// validateBan returns the reason why a ban by hand cannot have its length or its reason, or nil.
func validateBan(lasts time.Duration, reason string) error {
	const longestReason, longest = 200, 10 * 365 * 24 * time.Hour
	if lasts < time.Microsecond || lasts > longest {
		return invalid("core: a ban of %v is not from 1µs to %v", lasts, longest)
	}
	if len(reason) > longestReason {
		return invalid("core: a reason of %d bytes is longer than %d", len(reason), longestReason)
	}
	return nil
}
