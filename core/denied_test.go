package core_test

import (
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// Of the decisions of a call, Denied returns the one after whose RetryAfter the call passes.
func TestDeniedTellsWhenTheCallPasses(t *testing.T) {
	now := time.Date(2026, time.May, 1, 12, 0, 0, 0, time.UTC)
	limiter := core.New(core.NewMemory(core.WithClock(func() time.Time { return now })))
	short, long, spare := core.Leaky(1, core.PerSecond(1)).Named("short"), core.FixedWindow(1, time.Hour).Named("long"), core.GCRA(9, core.PerSecond(1)).Named("spare")
	ask := func(limits ...core.Quota) (core.Decision, bool) {
		t.Helper()
		var checks []core.Check
		for _, limit := range limits {
			checks = append(checks, core.Check{Key: "user:42", Limit: limit})
		}
		decisions, err := limiter.AllowAll(t.Context(), checks...)
		if err != nil {
			t.Fatal(err)
		}
		return core.Denied(decisions)
	}
	if denial, denied := ask(short, long, spare); denied || denial != (core.Decision{}) {
		t.Errorf("a call that passes is denied by %+v", denial)
	}
	denial, denied := ask(spare, short, long)
	if !denied || denial.Limit != long || denial.RetryAfter != time.Hour {
		t.Errorf("denied: %t, by %+v", denied, denial)
	}
	if denial, denied := ask(short, spare); !denied || denial.Limit != short {
		t.Errorf("denied: %t, by %+v", denied, denial)
	}
	now = now.Add(denial.RetryAfter)
	if denial, denied := ask(spare, short, long); denied {
		t.Errorf("after RetryAfter it is denied by %+v", denial)
	}
}

// What an alternative stands in for denies nothing.
func TestDeniedPassesOverAlternatives(t *testing.T) {
	limiter := core.New(core.NewMemory())
	plan, credits := core.FixedWindow(1, time.Hour).Named("plan"), core.FixedWindow(1, 24*time.Hour).Named("credits")
	for i, want := range []string{"", "", "plan"} {
		decisions, err := limiter.AllowAll(t.Context(), core.FirstOf(core.Check{Key: "user:42", Limit: plan}, core.Check{Key: "user:42", Limit: credits})...)
		if err != nil {
			t.Fatal(err)
		}
		if denial, denied := core.Denied(decisions); denied != (want != "") || denied && denial.Limit.Name() != want {
			t.Errorf("call %d: denied: %t, by %+v", i+1, denied, denial)
		}
	}
}
