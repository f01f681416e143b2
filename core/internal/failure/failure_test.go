package failure

import (
	"context"
	"errors"
	"testing"
)

func TestOf(t *testing.T) {
	plain := errors.New("plain")
	for want, err := range map[Kind]error{
		"":        nil,
		Other:     plain,
		Suspended: Unsent(Suspended, "it is away"),
		Closed:    errors.Join(plain, ErrClosed),
		TimedOut:  &UnansweredError{Err: Sent(TimedOut, "late: %w", context.DeadlineExceeded)},
	} {
		if got := Of(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}

// Of several errors all kinds are known, and nothing was done only if that is so of each of them.
func TestJoinedErrors(t *testing.T) {
	sent, overloaded := Sent(Unreachable, "it broke"), Unsent(Overloaded, "too many")
	for _, err := range []error{Join([]error{sent, overloaded}), Join([]error{overloaded, sent}), PerhapsDone(overloaded, Unsent(Unreachable, "none"))} {
		if errors.Is(err, ErrNotDone) || !errors.Is(err, Overloaded) || !errors.Is(err, Unreachable) {
			t.Errorf("%v, want both kinds, and not that nothing was done", err)
		}
	}
	if err := Join([]error{overloaded, overloaded}); !errors.Is(err, ErrNotDone) {
		t.Errorf("%v, want that nothing was done", err)
	}
}
