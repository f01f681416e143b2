package core

import (
	"context"
	"errors"
	"testing"
)

func TestFailureOf(t *testing.T) {
	plain := errors.New("plain")
	for want, err := range map[Failure]error{
		"":        nil,
		Other:     plain,
		Suspended: errSuspended,
		Closed:    errors.Join(plain, errClosed),
		TimedOut:  &UnansweredError{Err: failed(TimedOut, "late: %w", context.DeadlineExceeded)},
	} {
		if got := FailureOf(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}

// Of several failures all kinds are known, and nothing was done only if that is so of each of them.
func TestJoinedFailures(t *testing.T) {
	sent, overloaded := failed(Unreachable, "it broke"), unsent(Overloaded, "too many")
	for _, err := range []error{joined([]error{sent, overloaded}), joined([]error{overloaded, sent}), perhapsDone(overloaded, unsent(Unreachable, "none"))} {
		if errors.Is(err, ErrNotDone) || !errors.Is(err, Overloaded) || !errors.Is(err, Unreachable) {
			t.Errorf("%v, want both kinds, and not that nothing was done", err)
		}
	}
	if err := joined([]error{overloaded, overloaded}); !errors.Is(err, ErrNotDone) {
		t.Errorf("%v, want that nothing was done", err)
	}
}
