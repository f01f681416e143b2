package call

import (
	"errors"
	"fmt"
	"slices"
)

// Failure is why a call could not be answered. Package core, which names it Failure, documents each of them.
type Failure string

// Error returns the text of the kind. It is short, and never names a key or a server.
func (k Failure) Error() string { return string(k) }

// The kinds.
const (
	TimedOut      Failure = "timed-out"
	Unreachable   Failure = "unreachable"
	Suspended     Failure = "suspended"
	Overloaded    Failure = "overloaded"
	ReadOnly      Failure = "read-only"
	Loading       Failure = "loading"
	ClusterDown   Failure = "cluster-down"
	OutOfMemory   Failure = "out-of-memory"
	Misconfigured Failure = "misconfigured"
	NotPermitted  Failure = "not-permitted"
	Busy          Failure = "busy"
	Garbled       Failure = "garbled"
	GivenUp       Failure = "given-up"
	Closed        Failure = "closed"
	Full          Failure = "full"
	Other         Failure = "other"
)

// BlamesServer reports whether the server cannot be relied on just now.
func (k Failure) BlamesServer() bool {
	return k != "" && k != GivenUp && k != Closed && k != Suspended && k != Overloaded && k != Full
}

// ErrNotDone is in the chain of an error after which it is certain that nothing was done.
var ErrNotDone = errors.New("core: nothing was done")

// Error is an error of a kind.
type Error struct {
	Kind    Failure
	NotDone bool // for certain
	Err     error
}

// Error returns the text of the error that it wraps.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error that it wraps.
func (e *Error) Unwrap() error { return e.Err }

// Is implements the method of [errors.Is]: it reports whether an error is of a kind, or is [ErrNotDone].
func (e *Error) Is(target error) bool {
	return e.NotDone && target == ErrNotDone || target == e.Kind
}

// FailureOf returns the kind of an error, or "" if it is nil.
func FailureOf(err error) Failure {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	if kind, ok := errors.AsType[Failure](err); ok {
		return kind
	}
	return Other
}

// Sent returns an error of a kind after which something may have been done.
func Sent(kind Failure, format string, values ...any) error {
	return &Error{Kind: kind, Err: fmt.Errorf(format, values...)}
}

// Unsent returns an error of a kind that came before anything was sent.
func Unsent(kind Failure, format string, values ...any) error {
	return &Error{Kind: kind, NotDone: true, Err: fmt.Errorf(format, values...)}
}

// ErrClosed is the error of a call after the store was closed.
var ErrClosed = &Error{Kind: Closed, NotDone: true, Err: errors.New("core: the limiter is closed, or its store")}

// JoinErrors joins the errors of several parts. It is [ErrNotDone] only if all of them are.
func JoinErrors(failures []error) error {
	if !slices.ContainsFunc(failures, func(one error) bool { return !errors.Is(one, ErrNotDone) }) {
		return errors.Join(failures...)
	}
	return PerhapsDone(failures...)
}

// PerhapsDone joins the errors of a call of which something was done, so that it is not [ErrNotDone].
// The kinds of the errors stay known.
func PerhapsDone(failures ...error) error {
	own := make([]error, len(failures))
	for i, one := range failures {
		own[i] = one
		if errors.Is(one, ErrNotDone) {
			own[i] = &Error{Kind: FailureOf(one), Err: errors.New(one.Error())}
		}
	}
	return errors.Join(own...)
}

// UnansweredError is the error of a call of which a store has answered only a part.
type UnansweredError struct {
	Checks []int // those without an answer, by their places in the call
	Err    error
}

func (e *UnansweredError) Error() string { return e.Err.Error() }

// Unwrap returns why there was no answer.
func (e *UnansweredError) Unwrap() error { return e.Err }

// ErrPartlySettled says that some of several corrections were carried out.
var ErrPartlySettled = errors.New("core: some of it was settled")

// PartlySettledError is the error of corrections of which some were certainly not carried out, and others
// were, or may have been.
type PartlySettledError struct {
	NotDone []int // the settlements that were not, by their places
	Err     error
}

func (e *PartlySettledError) Error() string { return e.Err.Error() }

// Unwrap returns why they were not.
func (e *PartlySettledError) Unwrap() error { return e.Err }

// PlacedError turns an error about some checks of a call into one about the call. places are the places of the checks in
// the call.
func PlacedError(err error, places []int) error {
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

// PartOfError returns the error of n of several corrections, from a first one on: nil if the error of all says nothing about
// them.
func PartOfError(err error, first, n int) error {
	partly, ok := errors.AsType[*PartlySettledError](err)
	if !ok {
		return err
	}
	var undone []int
	for _, place := range partly.NotDone {
		if place >= first && place < first+n {
			undone = append(undone, place-first)
		}
	}
	switch len(undone) {
	case 0:
		return nil
	case n:
		return &Error{Kind: FailureOf(partly.Err), NotDone: true, Err: partly.Err}
	}
	return &PartlySettledError{undone, partly.Err}
}
