package core

import (
	"errors"
	"fmt"

	"github.com/weir-go/ratelimit/core/internal/call"
)

// Failure is the reason why a call could not be answered, for metrics and for code that acts on it: see [FailureOf]. It
// is a string, such as "timed-out", which never names a key or a server. It is an error, too, so that a [Store] of your
// own can wrap one, and [errors.Is] finds it. Besides the constants, the reasons are:
//
//	"read-only"      the server is a replica, as after a failover that the client has not noticed yet
//	"loading"        the server is reading its data from disk
//	"cluster-down"   the cluster cannot serve the key's slot just now: it has no master, or is being moved
//	"out-of-memory"  the server's memory is full, and its policy is to evict nothing
//	"misconfigured"  the server refuses to write, because it cannot write to its disk or has too few replicas
//	"not-permitted"  the user or password is wrong, or lacks a permission; whether anything was done says [ErrNotDone]
//	"busy"           a script has been running on the server for too long
//	"garbled"        the reply was not one to the call
//	"full"           a memory store found no key to give up
//	"other"          anything else, such as a call that makes no sense
type Failure = call.Failure

const (
	// TimedOut means that Redis has not answered within the budget. The call may have been charged.
	TimedOut = call.TimedOut
	// Unreachable means that there was no connection, that it broke, or that Redis has answered nothing for a
	// budget to calls that came before. If the connection broke, the call may have been charged.
	Unreachable = call.Unreachable
	// Suspended means that Redis has failed several times in a row and was not asked; see
	// [WithBreaker].
	Suspended = call.Suspended
	// Overloaded means that too many calls were waiting, or that a call has waited for too long, while the server
	// was well; see [WithQueue].
	Overloaded = call.Overloaded
	// GivenUp means that the caller's context ended. It is no fault of the store.
	GivenUp = call.GivenUp
	// Closed means that the limiter, its store or your client is closed.
	Closed = call.Closed
)

// FailureOf returns why a call could not be answered, or "" if err is nil.
func FailureOf(err error) Failure { return call.FailureOf(err) }

// ErrNotDone is in the chain of an error after which it is certain that nothing was charged, settled
// or reset, since nothing was sent or Redis refused all of it: it is safe to retry. A Store of your own
// may wrap it, too. After an error without it, something may have been charged, settled or reset.
//
// Redis checks a user's permissions command by command. So "not-permitted" is certain only if the user may not run the
// script at all, or may not touch its keys. "out-of-memory" is not certain, and nothing is if the Redis client has repeated
// the call by itself (MaxRetries).
var ErrNotDone = call.ErrNotDone

// ErrInvalid is in the chain of an error about a call that makes no sense: an empty key, a negative cost, a limit that is
// not valid. The store was not asked, nothing has changed, and it is of no use to try again.
var ErrInvalid = errors.New("core: it makes no sense")

// invalid returns an error that is ErrInvalid.
func invalid(format string, values ...any) error {
	return &invalidError{fmt.Errorf(format, values...)}
}

type invalidError struct{ error }

func (e *invalidError) Is(target error) bool { return target == ErrInvalid }
func (e *invalidError) Unwrap() error        { return e.error }

// UnansweredError is the error of a call of which Redis has answered only a part, since one
// server of a cluster or ring has failed. The charges of the checks that were answered have
// been given back, unless that failed, too. Whether the others were charged is unknown, and
// shadow checks stay charged. Nothing was charged only if the error is [ErrNotDone].
//
// Checks has the indexes of the checks that were not answered, and Err has the reason.
type UnansweredError = call.UnansweredError

// PartlySettledError is the error of [Store.Settle] if some settlements were certainly not carried out, while others
// were, or may have been. The former can be tried again: [Reservation.Settle] and [Reservation.SettleLater] do that.
//
// NotDone has the indexes of the settlements that were certainly not carried out, and Err has the reason.
type PartlySettledError = call.PartlySettledError
