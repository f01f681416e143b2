package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/ratelimit/internal/redistest"
)

func TestEveryEntryIsMeasuredOnceInEachRound(t *testing.T) {
	m := meter{redistest.Start(t).Client(t)}
	entries := []*entry{{contender: contender{name: "a"}, setup: &setup{}}, {contender: contender{name: "b"}, setup: &setup{}}, {contender: contender{name: "c"}, setup: &setup{}}}
	var order []string
	warm := 0
	err := turns{rounds: 4, warmup: time.Nanosecond, run: func(_ context.Context, e *entry, round int, _ time.Duration) (tally, error) {
		if round < 0 {
			warm++
			return tally{}, nil
		}
		order = append(order, e.name)
		e.setup.failedOpen.Add(2)
		return tally{checks: 1 + round, elapsed: time.Second}, nil
	}}.take(t.Context(), m, entries)
	if err != nil {
		t.Fatal(err)
	}
	if warm != 12 {
		t.Errorf("%d warm-ups, want 12", warm)
	}
	for round := range slices.Chunk(order, 3) {
		if slices.Sort(round); !slices.Equal(round, []string{"a", "b", "c"}) {
			t.Errorf("a round measured %v", round)
		}
	}
	for _, e := range entries {
		if got := each(e.samples, perSecond); !slices.Equal(got, []float64{1, 2, 3, 4}) {
			t.Errorf("%s has the samples %v", e.name, got)
		}
		for _, s := range e.samples {
			if s.failedOpen != 2 {
				t.Errorf("%d requests of %s failed open in a round, want 2", s.failedOpen, e.name)
			}
		}
	}
}

func TestARoundWithoutAnAnswerIsAnError(t *testing.T) {
	m := meter{redistest.Start(t).Client(t)}
	err := turns{rounds: 1, run: func(context.Context, *entry, int, time.Duration) (tally, error) {
		return tally{errors: 3}, nil
	}}.take(t.Context(), m, []*entry{{contender: contender{name: "mute"}, setup: &setup{}}})
	if err == nil || !strings.Contains(err.Error(), "round 1 of mute: none of 9 calls was answered") {
		t.Errorf("take = %v", err)
	}
}

func TestMeterCountsWhatARunCosts(t *testing.T) {
	client := redistest.Start(t).Client(t)
	measured, err := meter{client}.measure(t.Context(), func() (tally, error) {
		for range 100 {
			if err := client.Get(t.Context(), "key").Err(); !errors.Is(err, redis.Nil) {
				return tally{}, err
			}
		}
		return tally{checks: 100, elapsed: time.Second}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if measured.redisReads != 100 {
		t.Errorf("%d reads for 100 round trips", measured.redisReads)
	}
	if measured.allocations < 100 {
		t.Errorf("%d allocations for 100 commands", measured.allocations)
	}
}

func TestAbsentFieldOfInfoIsAnError(t *testing.T) {
	if got, err := infoNumber("# CPU\r\nused_cpu_user:1.5\r\n", "used_cpu_user"); got != 1.5 || err != nil {
		t.Errorf("infoNumber = %v, %v", got, err)
	}
	if _, err := infoNumber("used_cpu_user:1.5\r\n", "used_cpu_sys"); err == nil {
		t.Error("an absent field was found")
	}
	if _, err := infoNumber("used_cpu_user:much\r\n", "used_cpu_user"); err == nil {
		t.Error("a field that is no number was taken")
	}
}
