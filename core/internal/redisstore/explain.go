package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/core/internal/batch"
	"github.com/weir-go/ratelimit/core/internal/call"
)

// codes are the first words of Redis' own errors.
var codes = map[string]call.Failure{
	"READONLY": call.ReadOnly, "LOADING": call.Loading,
	"CLUSTERDOWN": call.ClusterDown, "MASTERDOWN": call.ClusterDown, "TRYAGAIN": call.ClusterDown,
	"MOVED": call.ClusterDown, "ASK": call.ClusterDown, "CROSSSLOT": call.ClusterDown,
	"OOM": call.OutOfMemory, "MISCONF": call.Misconfigured, "NOREPLICAS": call.Misconfigured,
	"NOAUTH": call.NotPermitted, "NOPERM": call.NotPermitted, "WRONGPASS": call.NotPermitted,
	"BUSY": call.Busy, "UNKILLABLE": call.Busy,
}

// kindOf returns the kind of failure of an error of the Redis client.
func kindOf(err error) call.Failure {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		if errors.Is(err, redis.Nil) {
			return call.Garbled
		}
		return kindOfReply(reply.Error())
	}
	if errors.Is(err, redis.ErrClosed) {
		return call.Closed
	}
	if _, ok := errors.AsType[net.Error](err); ok || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) {
		return call.Unreachable
	}
	// The client has no types for these.
	switch text := err.Error(); {
	case strings.HasPrefix(text, "redis: can't parse"), strings.HasPrefix(text, "redis: invalid"), strings.HasPrefix(text, "redis: unexpected"):
		return call.Garbled
	case strings.Contains(text, "cannot load cluster"), strings.Contains(text, "cluster has no nodes"), strings.Contains(text, "all ring shards are down"):
		return call.Unreachable
	case strings.Contains(text, "all sentinels"):
		return call.Unreachable
	}
	return call.Other
}

// kindOfReply returns the kind of failure of an error reply. Before Redis 7, the reply to a command in a script stands
// somewhere within, after a "-".
func kindOfReply(text string) call.Failure {
	code, _, _ := strings.Cut(text, " ")
	if kind, ok := codes[code]; ok {
		return kind
	}
	for code, kind := range codes {
		if strings.Contains(text, ": -"+code+" ") {
			return kind
		}
	}
	if strings.Contains(text, "The user executing the script ") || strings.Contains(text, "ACL failure in script") || isOfConnecting(text) {
		return call.NotPermitted
	}
	return call.Other
}

// refusedBy returns the error for Redis's reply to a command of a script, as the script reports it.
func refusedBy(reply string) error {
	kind := kindOfReply(reply)
	return &call.Error{Kind: kind, NotDone: refusesEveryWrite(kind), Err: fmt.Errorf("core: redis: %s", reply)}
}

// refusesEveryWrite reports whether a server that has refused a command of a script for this reason has also refused each
// writing command before it. All other reasons may come up in the middle: above all, Redis checks a user's permissions
// command by command.
func refusesEveryWrite(kind call.Failure) bool {
	return kind == call.ReadOnly || kind == call.Misconfigured
}

// nothingWritten reports whether an error reply to a script call means that nothing was written, for certain.
func nothingWritten(text string, kind call.Failure) bool {
	if refusesEveryWrite(kind) {
		return true
	}
	switch kind { //nolint:exhaustive // of the others it is not known
	case call.Loading, call.ClusterDown, call.Busy, call.NotPermitted, call.OutOfMemory:
		return !fromWithin(text)
	}
	return false
}

// fromWithin reports whether an error reply to a script call comes from a command of the script. Else Redis has refused
// the call as it came: it begins with a code of its own, and names no script.
func fromWithin(text string) bool {
	code, _, _ := strings.Cut(text, " ")
	_, coded := codes[code]
	return !coded && !isOfConnecting(text) || strings.Contains(text, "user_script") || strings.Contains(text, "in script")
}

// isOfConnecting reports whether an error reply is that of a server to which a connection has introduced itself, or should
// have: one that wants a password reads no command of more than ten words without it.
func isOfConnecting(text string) bool {
	return strings.HasPrefix(text, "ERR invalid password") || strings.HasPrefix(text, "ERR AUTH") ||
		strings.HasPrefix(text, "ERR Protocol error: unauthenticated ")
}

// batchError returns the error of a call that a lane has failed. ctx is that of the batch; it is
// nil if the call was not sent.
func (r *Store) batchError(ctx *batch.Context, s *server, err error) error {
	fail := call.Unsent
	if ctx != nil && ctx.Sent() || r.obscure() {
		fail = call.Sent
	}
	switch {
	case errors.Is(err, batch.ErrClosed):
		return call.ErrClosed
	case errors.Is(err, batch.ErrSuspended):
		return errSuspended
	case errors.Is(err, batch.ErrFull):
		return call.Unsent(call.Overloaded, "core: %d calls wait for redis already", r.MostWaiting)
	case errors.Is(err, batch.ErrOverdue):
		return call.Unsent(call.Overloaded, "core: the call has waited in this process for %v", r.Patience)
	case (errors.Is(err, batch.ErrStalled) || errors.Is(err, batch.ErrUnconnected)) && s != nil && s.busy(int(s.sending.Load())):
		return fail(call.Overloaded, "core: others have held all connections of the redis client for %v", r.Patience)
	case errors.Is(err, batch.ErrStalled):
		return call.Unsent(call.Unreachable, "core: redis has answered nothing for %v, and calls wait for it: %w", r.Budget, context.DeadlineExceeded)
	case errors.Is(err, batch.ErrUnconnected):
		return fail(call.Unreachable, "core: no connection to redis, of which nothing was heard for %v: %w", r.Budget, context.DeadlineExceeded)
	case errors.Is(err, batch.ErrTimedOut):
		return r.timedOut(context.DeadlineExceeded)
	}
	if panicked, ok := errors.AsType[batch.PanicError](err); ok {
		return fail(call.Other, "core: the redis client or a hook of it panicked: %v", panicked.Cause)
	}
	return call.Unsent(call.GivenUp, "core: the call was given up: %w", err)
}

// obscure reports whether the client is of an unknown kind, so that it is not known whether it has sent a call.
func (r *Store) obscure() bool {
	return r.topology.Single == nil && !r.topology.Sharded()
}

// outcomeOf returns the meaning of an error for the server's breaker.
func outcomeOf(err error) batch.Outcome {
	if call.FailureOf(err).BlamesServer() {
		return batch.Failed
	}
	return batch.Unknown
}

// outcomeOfSettlement is outcomeOf for settlements: a server that refuses a settlement may still permit
// checks.
func outcomeOfSettlement(err error) batch.Outcome {
	switch call.FailureOf(err) { //nolint:exhaustive // the others say that there was no answer, or nothing
	case call.TimedOut, call.Unreachable:
		return batch.Failed
	}
	return batch.Unknown
}

// explain says why a batch failed. The client reports in several ways that its time was up.
func (r *Store) explain(ctx *batch.Context, s *server, err error) error {
	switch {
	case err == nil:
		return nil
	case !ctx.Sent() && !r.obscure() && isTimeout(err) && !ctx.Silent():
		return r.batchError(nil, s, batch.ErrOverdue)
	case !ctx.Sent() && !r.obscure():
		return r.explainUnsent(s, int(s.sending.Load())-1, err)
	case isTimeout(err):
		return r.timedOut(err)
	}
	kind := kindOf(err)
	reply, replied := errors.AsType[redis.Error](err)
	certain := replied && nothingWritten(reply.Error(), kind) && !ctx.Repeated() // else an earlier one may have been carried out
	return &call.Error{Kind: kind, NotDone: certain, Err: fmt.Errorf("core: redis: %w", err)}
}

// explainUnsent returns the error of a batch that had no connection. others is how many other batches of this store may
// have had one.
func (r *Store) explainUnsent(s *server, others int, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return call.Unsent(call.Overloaded, "core: all connections of the redis client are in use: %w", err)
	case isTimeout(err) && s != nil && s.busy(others):
		return call.Unsent(call.Overloaded, "core: others have held all connections of the redis client for %v: %w", r.Patience, err)
	case isTimeout(err):
		return call.Unsent(call.Unreachable, "core: no connection to redis in time: %w", err)
	}
	return call.Unsent(kindOf(err), "core: redis: %w", err)
}

// unlessTimeIsUp returns the error of a call, or the error of its caller's context if that has ended.
func (r *Store) unlessTimeIsUp(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	given := fmt.Errorf("core: the call was given up: %w (%w)", context.Cause(ctx), err)
	return &call.Error{Kind: call.GivenUp, NotDone: errors.Is(err, call.ErrNotDone), Err: given}
}

// Explain returns the error of a call outside of a batch. If time was up, it says whether that was the caller's or the
// store's.
func (r *Store) Explain(asked, bounded context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case asked.Err() != nil:
		return call.Sent(call.GivenUp, "core: the call was given up: %w", context.Cause(asked))
	case bounded.Err() != nil || isTimeout(err):
		return r.timedOut(err)
	}
	return call.Sent(kindOf(err), "core: redis: %w", err)
}

// timedOut returns the error of a call to which Redis has not answered in time.
func (r *Store) timedOut(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return call.Sent(call.TimedOut, "core: redis has not answered within %v: %w", r.Budget, err)
}

// isTimeout reports whether the deadline of a context or of a socket has passed. That of a socket may
// pass a moment earlier.
func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

var errSuspended = call.Unsent(call.Suspended, "core: redis has failed several times in a row and is not asked for a while")
