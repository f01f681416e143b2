package core

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/batch"
)

// Failure is why a question could not be answered, for metrics and for deciding what
// to do: see [FailureOf]. Its text is short, and never names a key or a server. It is an error, so that
// a [Store] of your own can wrap one, and [errors.Is] finds it.
type Failure string

// Error returns the text of the failure.
func (f Failure) Error() string { return string(f) }

const (
	// TimedOut means that Redis has not answered within the budget. The question may have been
	// charged.
	TimedOut Failure = "timed-out"
	// Unreachable means that no connection could be had, or it broke. In the latter case the
	// question may have been charged.
	Unreachable Failure = "unreachable"
	// Suspended means that Redis has failed several times in a row and was not asked; see
	// [WithBreaker].
	Suspended Failure = "suspended"
	// Overloaded means that too many questions were waiting; see [WithQueue].
	Overloaded Failure = "overloaded"
	// ReadOnly means that the server is a replica, as after a failover that the client has not
	// noticed yet.
	ReadOnly Failure = "read-only"
	// Loading means that the server is reading its data from disk.
	Loading Failure = "loading"
	// ClusterDown means that the cluster cannot serve the key's slot just now: it has no master, or
	// is being moved.
	ClusterDown Failure = "cluster-down"
	// OutOfMemory means that the server's memory is full, and its policy is to evict nothing.
	OutOfMemory Failure = "out-of-memory"
	// Misconfigured means that the server refuses to write, because it cannot write to its disk or
	// has too few replicas.
	Misconfigured Failure = "misconfigured"
	// NotPermitted means that the user or password is wrong, or lacks a permission.
	NotPermitted Failure = "not-permitted"
	// Busy means that the server is running somebody's script for too long.
	Busy Failure = "busy"
	// Garbled means that the reply was not one to the question.
	Garbled Failure = "garbled"
	// GivenUp means that the caller's context ended. It is no fault of the store.
	GivenUp Failure = "given-up"
	// Closed means that the limiter, its store or your client is closed.
	Closed Failure = "closed"
	// Full means that a memory store found no key to give up.
	Full Failure = "full"
	// Other is anything else, a question that makes no sense among it.
	Other Failure = "other"
)

// FailureOf returns why a question could not be answered, or "" if err is nil.
func FailureOf(err error) Failure {
	if err == nil {
		return ""
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.kind
	}
	if kind, ok := errors.AsType[Failure](err); ok {
		return kind
	}
	return Other
}

// ErrNotDone is in the chain of an error after which it is certain that nothing was charged, settled
// or reset, since nothing was sent or all of it was refused: it may be tried again. A Store of your
// own may wrap it, too. After an error without it, what was asked may have been carried out.
var ErrNotDone = errors.New("core: nothing was done")

// failure is an error of a kind.
type failure struct {
	kind   Failure
	undone bool // for certain
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// Is implements what [errors.Is] asks.
func (f *failure) Is(target error) bool {
	return f.undone && target == ErrNotDone || target == f.kind
}

// failed returns an error of a kind.
func failed(kind Failure, format string, values ...any) error {
	return &failure{kind: kind, err: fmt.Errorf(format, values...)}
}

// unsent returns an error of a kind that came before anything was sent.
func unsent(kind Failure, format string, values ...any) error {
	return &failure{kind: kind, undone: true, err: fmt.Errorf(format, values...)}
}

// UnansweredError is the error of a question of which Redis has answered a part: in a
// cluster or ring, whose servers fail one by one. What the checks that were answered have
// been charged was given back, unless that failed, too; what the others have been charged is
// unknown, and shadow checks stay charged. Only if it is [ErrNotDone] nothing was charged.
type UnansweredError struct {
	// Checks are the indexes of the checks that were not answered.
	Checks []int
	// Err is why.
	Err error
}

// placed returns an error about some checks of a call as one about the call: places are theirs in it.
func placed(err error, places []int) error {
	unanswered, ok := errors.AsType[*UnansweredError](err)
	if !ok {
		return err
	}
	own := &UnansweredError{Checks: make([]int, len(unanswered.Checks)), Err: unanswered.Err}
	for i, check := range unanswered.Checks {
		own.Checks[i] = places[check]
	}
	return own
}

func (e *UnansweredError) Error() string { return e.Err.Error() }

func (e *UnansweredError) Unwrap() error { return e.Err }

// partlySettledError is the error of settlements of which some were certainly not carried out, and others
// were, or may have been.
type partlySettledError struct {
	undone []int // by their places
	err    error
}

func (e *partlySettledError) Error() string { return e.err.Error() }
func (e *partlySettledError) Unwrap() error { return e.err }

// of returns the error of some of the settlements, from the first one on.
func (e *partlySettledError) of(first, n int) error {
	var undone []int
	for _, place := range e.undone {
		if place >= first && place < first+n {
			undone = append(undone, place-first)
		}
	}
	switch len(undone) {
	case 0:
		return nil // those that failed otherwise are told by the error of the others
	case n:
		return &failure{FailureOf(e.err), true, e.err}
	}
	return &partlySettledError{undone, e.err}
}

// joined joins errors of parts. It is [ErrNotDone] only if all of them are.
func joined(failures []error) error {
	if !slices.ContainsFunc(failures, func(one error) bool { return !errors.Is(one, ErrNotDone) }) {
		return errors.Join(failures...)
	}
	return perhapsDone(failures...)
}

// perhapsDone joins errors of a call of which something was done, so that it is not [ErrNotDone]. What
// kinds they are of stays known.
func perhapsDone(failures ...error) error {
	own := make([]error, len(failures))
	for i, one := range failures {
		own[i] = one
		if errors.Is(one, ErrNotDone) {
			own[i] = &failure{kind: FailureOf(one), err: errors.New(one.Error())}
		}
	}
	return errors.Join(own...)
}

// codes are the first words of Redis' own errors.
var codes = map[string]Failure{
	"READONLY": ReadOnly, "LOADING": Loading,
	"CLUSTERDOWN": ClusterDown, "MASTERDOWN": ClusterDown, "TRYAGAIN": ClusterDown, "MOVED": ClusterDown, "ASK": ClusterDown,
	"CROSSSLOT": ClusterDown,
	"OOM":       OutOfMemory, "MISCONF": Misconfigured, "NOREPLICAS": Misconfigured,
	"NOAUTH": NotPermitted, "NOPERM": NotPermitted, "WRONGPASS": NotPermitted,
	"BUSY": Busy, "UNKILLABLE": Busy,
}

// kindOf returns what kind of failure an error of the Redis client is.
func kindOf(err error) Failure {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		if errors.Is(err, redis.Nil) {
			return Garbled
		}
		return kindOfReply(reply.Error())
	}
	if errors.Is(err, redis.ErrClosed) {
		return Closed
	}
	if _, ok := errors.AsType[net.Error](err); ok || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) {
		return Unreachable
	}
	// The client has no types for what follows.
	switch text := err.Error(); {
	case strings.HasPrefix(text, "redis: can't parse"), strings.HasPrefix(text, "redis: invalid"), strings.HasPrefix(text, "redis: unexpected"):
		return Garbled
	case strings.Contains(text, "cannot load cluster"), strings.Contains(text, "cluster has no nodes"), strings.Contains(text, "all ring shards are down"):
		return Unreachable
	case strings.Contains(text, "all sentinels"):
		return Unreachable
	}
	return Other
}

// kindOfReply returns what kind of failure an error reply is. Before Redis 7, what a
// command in a script has replied stands somewhere within, after a "-".
func kindOfReply(text string) Failure {
	code, _, _ := strings.Cut(text, " ")
	if kind, ok := codes[code]; ok {
		return kind
	}
	for code, kind := range codes {
		if strings.Contains(text, ": -"+code+" ") {
			return kind
		}
	}
	if strings.Contains(text, "The user executing the script can't") || strings.HasPrefix(text, "ERR invalid password") ||
		strings.HasPrefix(text, "ERR AUTH") {
		return NotPermitted
	}
	return Other
}

// refusedBy returns the error for an error reply of Redis.
func refusedBy(reply string) error {
	kind := kindOfReply(reply)
	return &failure{kind, kind.refuses(), fmt.Errorf("core: redis: %s", reply)}
}

// refuses reports whether an error reply of a kind means that nothing was written: the first
// command that would write is refused.
func (f Failure) refuses() bool {
	switch f { //nolint:exhaustive // of the others it is not known
	case ReadOnly, Loading, ClusterDown, Misconfigured, NotPermitted, Busy:
		return true
	}
	return false
}

// blamesServer reports whether a failure says that the server cannot be relied on
// just now.
func (f Failure) blamesServer() bool {
	return f != "" && f != GivenUp && f != Closed && f != Suspended && f != Overloaded && f != Full
}

// batchError returns the error of a call that a lane has failed. ctx is that of the batch; it is
// nil if the call was not sent.
func (r *Redis) batchError(ctx *batch.Context, s *server, err error) error {
	fail := unsent
	if ctx != nil && ctx.Sent() || r.obscure() {
		fail = failed
	}
	switch {
	case errors.Is(err, batch.ErrClosed):
		return errClosed
	case errors.Is(err, batch.ErrSuspended):
		return errSuspended
	case errors.Is(err, batch.ErrFull):
		return unsent(Overloaded, "core: %d calls wait for redis already", r.maxWaiting)
	case errors.Is(err, batch.ErrOverdue):
		return unsent(Overloaded, "core: the call has waited in this process for %v", r.patience)
	case (errors.Is(err, batch.ErrStalled) || errors.Is(err, batch.ErrUnconnected)) && s != nil && s.busy(int(s.sending.Load())):
		return fail(Overloaded, "core: others have held all connections of the redis client for %v", r.patience)
	case errors.Is(err, batch.ErrStalled):
		return unsent(Unreachable, "core: redis does not answer, and too many calls wait for it")
	case errors.Is(err, batch.ErrUnconnected):
		return fail(Unreachable, "core: no connection to redis within %v: %w", r.patience, context.DeadlineExceeded)
	case errors.Is(err, batch.ErrTimedOut):
		return r.timedOut(context.DeadlineExceeded)
	}
	if panicked, ok := errors.AsType[batch.PanicError](err); ok {
		return fail(Other, "core: the redis client or a hook of it panicked: %v", panicked.Cause)
	}
	return unsent(GivenUp, "core: the call was given up: %w", err)
}

// obscure reports whether it cannot be known what the client has sent: it is of a kind that is not
// known.
func (r *Redis) obscure() bool {
	return r.topology.Single == nil && !r.topology.Sharded()
}

// outcomeOf says what an error says about the server.
func outcomeOf(err error) batch.Outcome {
	if FailureOf(err).blamesServer() {
		return batch.Failed
	}
	return batch.Unknown
}

// outcomeOfSettlement is outcomeOf for settlements: a server that refuses one may permit checks, which
// find out by themselves.
func outcomeOfSettlement(err error) batch.Outcome {
	switch FailureOf(err) { //nolint:exhaustive // the others say that there was no answer, or nothing
	case TimedOut, Unreachable:
		return batch.Failed
	}
	return batch.Unknown
}

// explain says why a batch failed. The client reports in several ways that its time was up.
func (r *Redis) explain(ctx *batch.Context, s *server, err error) error {
	switch {
	case err == nil:
		return nil
	case !ctx.Sent() && !r.obscure():
		return r.explainUnsent(s, int(s.sending.Load())-1, err)
	case isTimeout(err):
		return r.timedOut(err)
	}
	kind := kindOf(err)
	return &failure{kind, kind.refuses(), fmt.Errorf("core: redis: %w", err)}
}

// explainUnsent says why there was no connection to send a batch on, while so many others of this store
// may have one.
func (r *Redis) explainUnsent(s *server, others int, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return unsent(Overloaded, "core: all connections of the redis client are in use: %w", err)
	case isTimeout(err) && s != nil && s.busy(others):
		return unsent(Overloaded, "core: others have held all connections of the redis client for %v: %w", r.patience, err)
	case isTimeout(err):
		return unsent(Unreachable, "core: no connection to redis in time: %w", err)
	}
	return unsent(kindOf(err), "core: redis: %w", err)
}

// unlessTimeIsUp returns the error of a call, or that its caller's time was up, if it was.
func (r *Redis) unlessTimeIsUp(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return &failure{GivenUp, errors.Is(err, ErrNotDone), fmt.Errorf("core: the call was given up: %w (%w)", context.Cause(ctx), err)}
}

// explainCall says why a call outside of a batch failed, and whose time was up if it was for that.
func (r *Redis) explainCall(asked, bounded context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case asked.Err() != nil:
		return failed(GivenUp, "core: the call was given up: %w", context.Cause(asked))
	case bounded.Err() != nil || isTimeout(err):
		return r.timedOut(err)
	}
	return failed(kindOf(err), "core: redis: %w", err)
}

// timedOut returns the error of a call to which Redis has not answered in time.
func (r *Redis) timedOut(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return failed(TimedOut, "core: redis has not answered within %v: %w", r.budget, err)
}

// isTimeout reports whether the deadline of a context has passed, or that of a socket, which it
// may do a moment before.
func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

var (
	errClosed    = &failure{kind: Closed, undone: true, err: errors.New("core: the limiter is closed, or its store")}
	errSuspended = &failure{kind: Suspended, undone: true, err: errors.New("core: redis has failed several times in a row and is not asked for a while")}
)
