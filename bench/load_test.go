package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

func TestEachOnceAsksAboutEveryNameOnce(t *testing.T) {
	names := namesOf("user:", 1000)
	var mu sync.Mutex
	asked := map[string]int{}
	counted := eachOnce(8, names)(t.Context(), func(_ context.Context, key string) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		asked[key]++
		return len(asked)%2 == 0, nil
	})
	for _, name := range names {
		if asked[name] != 1 {
			t.Errorf("%s was asked about %d times", name, asked[name])
		}
	}
	if counted.checks != 1000 || counted.admitted != 500 || counted.errors != 0 {
		t.Errorf("counted %+v", counted)
	}
}

func TestErrorsAreNoChecks(t *testing.T) {
	i := 0
	counted := eachOnce(1, namesOf("", 10))(t.Context(), func(context.Context, string) (bool, error) {
		i++
		if i%5 == 0 {
			return true, errors.New("no answer")
		}
		return true, nil
	})
	if counted.checks != 8 || counted.admitted != 8 || counted.errors != 2 {
		t.Errorf("counted %+v", counted)
	}
}

func TestEverybodyInAClosedLoopAsks(t *testing.T) {
	counted := closedLoop(4, time.Nanosecond, []string{"a"})(t.Context(), func(context.Context, string) (bool, error) { return true, nil })
	if counted.checks < 4 || counted.admitted != counted.checks {
		t.Errorf("counted %+v", counted)
	}
}

func TestLoadsEndWithTheirContext(t *testing.T) {
	for name, asking := range map[string]load{
		"closed loop": closedLoop(2, time.Hour, []string{"a"}),
		"paced":       paced(2, time.Millisecond, time.Hour, []string{"a"}),
		"each once":   eachOnce(2, namesOf("", 1_000_000)),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			asking(ctx, func(context.Context, string) (bool, error) {
				cancel()
				return true, nil
			})
		})
	}
}

func TestPacedCallersTimeTheAnswers(t *testing.T) {
	counted := paced(2, time.Millisecond, time.Nanosecond, []string{"a"})(t.Context(), func(context.Context, string) (bool, error) {
		time.Sleep(time.Millisecond) // the answer takes that long
		return true, nil
	})
	if counted.p50 < time.Millisecond || counted.p99 < counted.p50 {
		t.Errorf("p50 %v, p99 %v of answers that take at least 1ms", counted.p50, counted.p99)
	}
}

func TestClassicNamesAreAHundredInTurn(t *testing.T) {
	first, second := classicNames(0, 10_000), classicNames(1, 10_000)
	times := map[string]int{}
	for _, name := range append(first, second...) {
		times[name]++
	}
	if len(times) != 200 {
		t.Errorf("%d names in two rounds, want 200", len(times))
	}
	for name, n := range times {
		if n != 100 {
			t.Errorf("%s comes %d times, want 100", name, n)
		}
	}
}
