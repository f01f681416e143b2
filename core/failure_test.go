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
