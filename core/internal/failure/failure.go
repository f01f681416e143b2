// Package failure says why a call could not be answered, and whether anything may have been done.
package failure

import (
	"errors"
	"fmt"
	"slices"
)

// Kind is why a call could not be answered. Package core, which names it Failure, documents each of them.
type Kind string

// Error returns the text of the kind. It is short, and never names a key or a server.
func (k Kind) Error() string { return string(k) }

// The kinds.
const (
	TimedOut      Kind = "timed-out"
	Unreachable   Kind = "unreachable"
	Suspended     Kind = "suspended"
	Overloaded    Kind = "overloaded"
	ReadOnly      Kind = "read-only"
	Loading       Kind = "loading"
	ClusterDown   Kind = "cluster-down"
	OutOfMemory   Kind = "out-of-memory"
	Misconfigured Kind = "misconfigured"
	NotPermitted  Kind = "not-permitted"
	Busy          Kind = "busy"
	Garbled       Kind = "garbled"
	GivenUp       Kind = "given-up"
	Closed        Kind = "closed"
	Full          Kind = "full"
	Other         Kind = "other"
)

// BlamesServer reports whether the server cannot be relied on just now.
func (k Kind) BlamesServer() bool {
	return k != "" && k != GivenUp && k != Closed && k != Suspended && k != Overloaded && k != Full
}

// ErrNotDone is in the chain of an error after which it is certain that nothing was done.
var ErrNotDone = errors.New("core: nothing was done")

// Error is an error of a kind.
type Error struct {
	Kind    Kind
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

// Of returns the kind of an error, or "" if it is nil.
func Of(err error) Kind {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	if kind, ok := errors.AsType[Kind](err); ok {
		return kind
	}
	return Other
}

// Sent returns an error of a kind after which something may have been done.
func Sent(kind Kind, format string, values ...any) error {
	return &Error{Kind: kind, Err: fmt.Errorf(format, values...)}
}

// Unsent returns an error of a kind that came before anything was sent.
func Unsent(kind Kind, format string, values ...any) error {
	return &Error{Kind: kind, NotDone: true, Err: fmt.Errorf(format, values...)}
}

// ErrClosed is the error of a call after the store was closed.
var ErrClosed = &Error{Kind: Closed, NotDone: true, Err: errors.New("core: the limiter is closed, or its store")}

// Join joins the errors of several parts. It is [ErrNotDone] only if all of them are.
func Join(failures []error) error {
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
			own[i] = &Error{Kind: Of(one), Err: errors.New(one.Error())}
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

// Placed turns an error about some checks of a call into one about the call. places are the places of the checks in
// the call.
func Placed(err error, places []int) error {
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

// Part returns the error of n of several corrections, from a first one on: nil if the error of all says nothing about
// them.
func Part(err error, first, n int) error {
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
		return &Error{Kind: Of(partly.Err), NotDone: true, Err: partly.Err}
	}
	return &PartlySettledError{undone, partly.Err}
}
