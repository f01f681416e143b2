package core_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// What makes no sense is told by one sentinel, whoever is asked.
func TestWhatMakesNoSenseIsErrInvalid(t *testing.T) {
	limiter, limit := core.New(core.NewMemory()), core.Leaky(10, core.PerSecond(1))
	defer limiter.Close()
	reserved, err := limiter.Reserve(t.Context(), core.Check{Key: "key", Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	_, parsed := core.ParseLimit("leaky 10")
	_, empty := limiter.Allow(t.Context(), "", limit)
	_, _, negative := limiter.AllowAtMost(t.Context(), "key", limit, -1)
	_, zero := limiter.Peek(t.Context(), "key", core.Quota{})
	_, none := limiter.AllowAll(t.Context())
	long := make([]core.Check, 257)
	for i := range long {
		long[i] = core.Check{Key: "key", Limit: core.Leaky(1000, core.PerSecond(1))}
	}
	_, longest := limiter.AllowAll(t.Context(), long[1:]...)
	_, tooLong := limiter.AllowAll(t.Context(), long...)
	if longest != nil || tooLong == nil || tooLong.Error() != "core: a call of 257 checks is longer than 256: split it" {
		t.Errorf("a call of 256 checks: %v, and of 257: %v", longest, tooLong)
	}
	_, refund := limiter.Refund(t.Context(), "key", limit, -1)
	_, unreserved := limiter.Reserve(t.Context())
	for name, err := range map[string]error{
		"an empty key": empty, "a negative cost": negative, "the zero Limit": zero, "no check": none, "too many checks": tooLong, "no check to reserve": unreserved,
		"a limit that is not valid": core.Leaky(0, core.PerSecond(1)).Validate(), "a text that is no limit": parsed,
		"a Reset without limits": limiter.Reset(t.Context(), "key"), "a negative refund": refund,
		"a wait for the zero Limit": limiter.Wait(t.Context(), "key", core.Quota{}), "two costs for one check": reserved.Settle(t.Context(), 1, 2),
		"a negative real cost": reserved.Settle(t.Context(), -1), "a hold of no key": limiter.HoldBack(t.Context(), "", time.Second),
	} {
		if !errors.Is(err, core.ErrInvalid) || errors.Is(err, core.ErrNotDone) || core.FailureOf(err) != "other" {
			t.Errorf("%s: %v, want it to be ErrInvalid", name, err)
		}
	}
	if err := reserved.Settle(t.Context(), 0); err != nil {
		t.Errorf("what makes sense after what did not: %v", err)
	}
	if err := reserved.Settle(t.Context(), 0); !errors.Is(err, core.ErrSettled) || errors.Is(err, core.ErrInvalid) {
		t.Errorf("settled twice: %v", err)
	}
}
