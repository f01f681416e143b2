package core

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Failure is why a question could not be answered, for metrics and for deciding what
// to do: see [FailureOf]. Its text is short, and never names a key or a server.
type Failure string

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
	// Overloaded means that too many questions were waiting; see [WithMaxWaiting].
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
	// Closed means that the store is closed.
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
	return Other
}

// failure is an error of a kind.
type failure struct {
	kind Failure
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// failed returns an error of a kind.
func failed(kind Failure, format string, values ...any) error {
	return &failure{kind, fmt.Errorf(format, values...)}
}

// UnansweredError is the error of a question of which Redis has answered a part: in a
// cluster or ring, whose servers fail one by one. Nothing was charged for the checks
// that were answered; what the others, and shadow checks, have been charged is unknown.
type UnansweredError struct {
	// Checks are the indexes of the checks that were not answered.
	Checks []int
	// Err is why.
	Err error
}

func (e *UnansweredError) Error() string { return e.Err.Error() }

func (e *UnansweredError) Unwrap() error { return e.Err }

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

// blamesServer reports whether a failure says that the server cannot be relied on
// just now.
func (f Failure) blamesServer() bool {
	return f != "" && f != GivenUp && f != Closed && f != Suspended && f != Overloaded && f != Full
}

// explain says why a call failed, and whose time was up if it was for that. The
// client reports it in several ways.
func (r *Redis) explain(asked, bounded context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case asked.Err() != nil:
		return failed(GivenUp, "core: the question was given up: %w", context.Cause(asked))
	case errors.Is(err, context.DeadlineExceeded):
		return failed(TimedOut, "core: redis has not answered within %v: %w", r.budget, err)
	case bounded.Err() != nil || isTimeout(err):
		return failed(TimedOut, "core: redis has not answered within %v: %w: %w", r.budget, context.DeadlineExceeded, err)
	}
	return failed(kindOf(err), "core: redis: %w", err)
}

// isTimeout reports whether a socket's deadline has passed, which it may do a
// moment before the context's.
func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}
