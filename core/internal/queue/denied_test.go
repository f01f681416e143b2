package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A request is asked for again when its slowest part may be granted, or when something is given back.
func TestWhenToAskAgain(t *testing.T) {
	now := time.Now()
	rate, slower := Denied{Place: 0, RetryAfter: time.Second}, Denied{Place: 1, RetryAfter: time.Minute}
	place, never := Denied{Place: 2, RetryAfter: time.Second, Frees: true}, Denied{Place: 3, RetryAfter: Never}
	for name, c := range map[string]struct {
		parts     []Denied
		freesOnly bool
		want      Answer[int, int]
	}{
		"rates":                 {[]Denied{slower, rate}, false, Answer[int, int]{Next: now.Add(time.Minute)}},
		"a place":               {[]Denied{place}, true, Answer[int, int]{Again: now.Add(Unknown)}},
		"a place and a rate":    {[]Denied{place, rate}, false, Answer[int, int]{Again: now.Add(Unknown), Next: now.Add(time.Second)}},
		"a rate and no wait":    {[]Denied{place, rate}, true, Answer[int, int]{Never: true}},
		"what is never granted": {[]Denied{never}, false, Answer[int, int]{Never: true}},
	} {
		var a Answer[int, int]
		a.Denied(now, c.parts, c.freesOnly)
		if a.Next != c.want.Next || a.Again != c.want.Again || a.Never != c.want.Never {
			t.Errorf("%s: %+v, want %+v", name, a, c.want)
		}
	}
	if got := Longest([]Denied{rate, slower, place}); got != slower {
		t.Errorf("the longest is %+v", got)
	}
	if got := Longest([]Denied{rate, place}); got != place {
		t.Errorf("the last of equal ones is %+v", got)
	}
}

// Pauses grow from 5 to 100 ms, less a quarter at most.
func TestBackoffGrows(t *testing.T) {
	for attempt, milliseconds := range map[int]int{0: 5, 1: 10, 4: 80, 5: 100, 1000: 100} {
		want := time.Duration(milliseconds) * time.Millisecond
		if got := Backoff(attempt); got > want || got <= want-want/4-1 {
			t.Errorf("the pause %d is %v, want %v less up to a quarter", attempt, got, want)
		}
	}
}

// Until ends at its instant, or with its context.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if !Until(t.Context(), start.Add(time.Second)) || time.Since(start) != time.Second {
			t.Errorf("it took %v", time.Since(start))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if Until(ctx, time.Now().Add(time.Second)) {
			t.Error("the instant came although the context had ended")
		}
	})
}
