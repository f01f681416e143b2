package core

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
)

// Trace has functions for metrics and logs: stores and limiters call them on events that their callers do not see; see
// [WithTrace]. They are called on the goroutines of the store and of its callers, by many at once, and must not block.
// Nil functions are not called, and cost nothing. If a function panics, on any goroutine, that is logged, and the work
// goes on as if it had returned: see [WithLogger].
type Trace struct {
	// Batch is called after each batch of checks that a store of [NewRedis] has sent. Settlements,
	// resets, lists and pings are no checks.
	Batch func(Batch)
	// Breaker is called when the breaker of a server changes its state. "closed" means that calls are sent, which is the
	// normal state. "open" means that the server has failed several times in a row: calls fail at once, with [Suspended].
	// "half-open" means that one call tries the server, and all others fail at once.
	Breaker func(server, state string)
	// Repeated is called after each call that was denied from memory, without the store: by denialcache.New or [Lease].
	Repeated func()
	// Wait is called when [Limiter.Wait], [Limiter.WaitN], [Limiter.WaitAll], [Limiter.Acquire] or [Limiter.Do] has
	// waited, or given up. A middleware reports the waits of its requests itself.
	Wait func(Wait)
	// Waiting is called when a call begins to wait for a place of a [Concurrent] limit, with 1, and when
	// its wait has ended, with -1. Calls that get their place at once are among them.
	Waiting func(limit Limit, change int)
	// Held is called when a call has taken places of a [Concurrent] limit, and when it has given them back. It is not
	// called for shadow checks.
	Held func(Held)
	// Renewal is called when leases of such places have been renewed, or when that has failed.
	Renewal func(Renewal)
	// Reclaimed is called when a call on Redis has found that leases of a limit had ended without their places having
	// been given back: the holder's process has died, has stood still, or did not reach Redis. It is also called when a
	// call has given back reservations with a [Check.ReserveFor] that was over.
	Reclaimed func(Limit)
	// Leased is called when a lease of a store of [Lease] has ended, on a goroutine of that store.
	Leased func(Leased)
	// Decided is called for each check of a [Limiter] that was decided, by the store, a cache of denials or a lease. A
	// check that waits is decided again and again until it passes, and Decided is called each time. Checks under
	// [Unlimited] are not decided. With it, checks of leased keys take longer.
	Decided func(Decided)
}

// Leased is a lease that has ended: units of a key that were charged ahead of time.
type Leased struct {
	// Limit is the limit. A Leased does not name the key.
	Limit Limit
	// Over is the part of the limit's capacity that may be admitted too much, as it was declared.
	Over float64
	// Granted is how many units were charged, and Spent how many of them checks have spent. The others were Returned to
	// the store, or have Lapsed: those stay charged, though no check has spent them. Units of a call that did not pass
	// count as Spent if they were put back after the lease had ended. They are returned to the store all the same.
	Granted, Spent, Returned, Lapsed int
	// Late is how many units the process has spent after the charge of this lease that were charged by then: units of
	// this lease and of the one before. In no time has this process helped to admit more than that beyond the limit. Late
	// divided by the capacity, added up over all processes that have leases of one key at the same time, is the measured
	// counterpart of Over.
	Late int
}

// Batch is a number of calls that have shared a round trip to Redis: one script run, or in a cluster a
// pipeline of them.
type Batch struct {
	// Server is the server's address, or "" if the client does not tell it.
	Server string
	// Calls and Checks are how many of them the batch had. A reservation of a bucket counts as three, a check of a [SlidingLog] as
	// four, and as one more for each hundred units: Redis takes as many times as long.
	Calls, Checks int
	// Elapsed is how long the batch took.
	Elapsed time.Duration
	// Err is why the batch failed, or nil; see [FailureOf].
	Err error
}

// Wait is one wait for a limit.
type Wait struct {
	// Limit is the limit that was waited for, and Units the number of units. A Wait does not name the key.
	Limit Limit
	Units int
	// Elapsed is how long the wait took until it was admitted or given up.
	Elapsed time.Duration
	// Err is nil if the units were admitted, a [LimitedError] if they would have been
	// admitted too late, and otherwise the error that ended the wait.
	Err error
}

// Held is places that were taken or given back.
type Held struct {
	// Limit is the limit, and Units how many places of it were taken. They are below 0 if the places were given back. A
	// Held does not name the key.
	Limit Limit
	Units int
	// Elapsed is how long places that were given back had been held.
	Elapsed time.Duration
	// Err is why places that were given back had been lost before, or nil.
	Err error
}

// Renewal is an attempt to renew the leases of places, all in one call to the store.
type Renewal struct {
	// Held is how many leases were renewed, Lost how many had ended on the store's clock or were taken
	// away, and Unanswered how many the store has not answered: those are tried again.
	Held, Lost, Unanswered int
	// Elapsed is how long the call took.
	Elapsed time.Duration
	// Err is why the call failed, or nil.
	Err error
}

// traces are the traces of a part and of the store beneath it, each once.
type traces []*Trace

// with returns the traces with one more.
func (all traces) with(t *Trace) traces {
	if slices.Contains(all, t) {
		return all
	}
	return append(slices.Clip(all), t)
}

// told returns one trace that calls the functions of all, and does not panic.
func (all traces) told(logger func() *slog.Logger) Trace {
	var joined Trace
	for _, t := range all {
		joined = joined.and(*t)
	}
	return joined.contained(logger)
}

// tracesOf returns the traces of a store. A store that is not of this package has none.
func tracesOf(store Store) traces {
	switch store := store.(type) {
	case *redisStore:
		return store.traces
	case *memoryStore:
		return store.traces
	case *denialCache:
		return store.traces
	case *leaseStore:
		return store.traces
	}
	return nil
}

// and returns a trace that calls the functions of two.
func (t Trace) and(other Trace) Trace {
	return Trace{
		Batch: both1(t.Batch, other.Batch), Breaker: both2(t.Breaker, other.Breaker),
		Repeated: both0(t.Repeated, other.Repeated),
		Wait:     both1(t.Wait, other.Wait), Waiting: both2(t.Waiting, other.Waiting),
		Held: both1(t.Held, other.Held), Renewal: both1(t.Renewal, other.Renewal),
		Reclaimed: both1(t.Reclaimed, other.Reclaimed),
		Leased:    both1(t.Leased, other.Leased),
		Decided:   both1(t.Decided, other.Decided),
	}
}

// contained returns a trace with functions that do not panic: a panic is logged instead.
func (t Trace) contained(logger func() *slog.Logger) Trace {
	panics := new(call.Warning)
	report := func(hook string) func(any) {
		return func(cause any) {
			panics.Log(logger(), "core: a trace or a logger panicked", slog.String("hook", hook), slog.Any("cause", cause))
		}
	}
	return Trace{
		Batch: contain1(t.Batch, report("Batch")), Breaker: contain2(t.Breaker, report("Breaker")),
		Repeated: contain0(t.Repeated, report("Repeated")),
		Wait:     contain1(t.Wait, report("Wait")), Waiting: contain2(t.Waiting, report("Waiting")),
		Held: contain1(t.Held, report("Held")), Renewal: contain1(t.Renewal, report("Renewal")),
		Reclaimed: contain1(t.Reclaimed, report("Reclaimed")),
		Leased:    contain1(t.Leased, report("Leased")),
		Decided:   contain1(t.Decided, report("Decided")),
	}
}

// Decided is a check that was decided, or one of a call that could not be answered.
type Decided struct {
	// Limit is the limit, and Units how many units the check has asked for, or was granted by [Limiter.AllowAtMost]. A
	// Decided does not name the key.
	Limit Limit
	Units int
	// Mode tells how the units were asked for: [Charge], or a Mode that charges none, as for [Limiter.Peek].
	Mode Mode
	// Shadow says that the check denies nothing.
	Shadow bool
	// Decision is the answer. It is the zero Decision if there is an Err.
	Decision Decision
	// Elapsed is how long the call took, which may have had other checks as well.
	Elapsed time.Duration
	// Err is why the call could not be answered, or nil; see [FailureOf].
	Err error
}

// decidingStore tells a trace of the decisions of a store.
type decidingStore struct {
	Store

	tell func(Decided)
}

func (s *decidingStore) Decide(ctx context.Context, calls []Call) (answered int, err error) {
	began := time.Now()
	answered, err = s.Store.Decide(ctx, calls)
	told := answered
	if err != nil {
		told = len(calls) // none of them has an answer
	}
	elapsed := time.Since(began)
	for i := range calls[:told] {
		c := &calls[i]
		for n := range c.Checks {
			check := &c.Checks[n]
			d := Decided{Limit: check.Limit, Units: check.Units() * max(1, c.Granted), Mode: check.Mode, Shadow: check.Shadow, Elapsed: elapsed, Err: err}
			if err == nil {
				d.Decision = c.Decisions[n]
			}
			s.tell(d)
		}
	}
	return answered, err
}

// The functions below join hooks, and contain their panics. Each hook may be nil.

// contain0 returns a function that calls one, and tells report the cause of a panic of it. It is nil if the function is.
func contain0(hook func(), report func(cause any)) func() {
	if hook == nil {
		return nil
	}
	return func() {
		defer contain(report)
		hook()
	}
}

// contain1 is [contain0] for functions of one value.
func contain1[A any](hook func(A), report func(cause any)) func(A) {
	if hook == nil {
		return nil
	}
	return func(a A) {
		defer contain(report)
		hook(a)
	}
}

// contain2 is [contain0] for functions of two values.
func contain2[A, B any](hook func(A, B), report func(cause any)) func(A, B) {
	if hook == nil {
		return nil
	}
	return func(a A, b B) {
		defer contain(report)
		hook(a, b)
	}
}

// contain is deferred around a hook.
func contain(report func(cause any)) {
	if cause := recover(); cause != nil {
		report(cause)
	}
}

// both0 returns a function that calls two, the second one also if the first one panics. Either may be nil. It is nil if
// both are.
func both0(first, second func()) func() {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func() {
		defer second()
		first()
	}
}

// both1 is [both0] for functions of one value.
func both1[A any](first, second func(A)) func(A) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(a A) {
		defer second(a)
		first(a)
	}
}

// both2 is [both0] for functions of two values.
func both2[A, B any](first, second func(A, B)) func(A, B) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(a A, b B) {
		defer second(a, b)
		first(a, b)
	}
}
