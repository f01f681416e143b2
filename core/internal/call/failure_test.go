package call

import (
	"context"
	"errors"
	"testing"
)

func TestOf(t *testing.T) {
	plain := errors.New("plain")
	for want, err := range map[Failure]error{
		"":        nil,
		Other:     plain,
		Suspended: Unsent(Suspended, "it is away"),
		Closed:    errors.Join(plain, ErrClosed),
		TimedOut:  &UnansweredError{Err: Sent(TimedOut, "late: %w", context.DeadlineExceeded)},
	} {
		if got := FailureOf(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}

// FailureOf several errors all kinds are known, and nothing was done only if that is so of each of them.
func TestJoinedErrors(t *testing.T) {
	sent, overloaded := Sent(Unreachable, "it broke"), Unsent(Overloaded, "too many")
	for _, err := range []error{JoinErrors([]error{sent, overloaded}), JoinErrors([]error{overloaded, sent}), PerhapsDone(overloaded, Unsent(Unreachable, "none"))} {
		if errors.Is(err, ErrNotDone) || !errors.Is(err, Overloaded) || !errors.Is(err, Unreachable) {
			t.Errorf("%v, want both kinds, and not that nothing was done", err)
		}
	}
	if err := JoinErrors([]error{overloaded, overloaded}); !errors.Is(err, ErrNotDone) {
		t.Errorf("%v, want that nothing was done", err)
	}
}
