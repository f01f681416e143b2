package dialect_test

import (
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/internal/bubbletest"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
	"github.com/weir-go/ratelimit/internal/dialect"
)

var (
	bucket = core.Leaky(10, core.PerSecond(1))
	window = core.FixedWindow(100, time.Minute)

	first = core.Decision{Allowed: true, Limit: bucket, Remaining: 9, NextAfter: time.Second, ResetAfter: time.Second}
	last  = core.Decision{Allowed: true, Limit: bucket, Remaining: 0, NextAfter: time.Second, ResetAfter: 10 * time.Second}
	full  = core.Decision{Limit: bucket, RetryAfter: 500 * time.Millisecond, NextAfter: 500 * time.Millisecond, ResetAfter: 9500 * time.Millisecond}

	opened = core.Decision{Allowed: true, Limit: window, Remaining: 99, NextAfter: time.Minute, ResetAfter: time.Minute}
	closed = core.Decision{Limit: window, RetryAfter: 18 * time.Second, NextAfter: 18 * time.Second, ResetAfter: 18 * time.Second}
)

// policies are what decided. They are called a, b, and so on.
func policies(decisions ...core.Decision) []headers.Outcome {
	all := make([]headers.Outcome, len(decisions))
	for i, d := range decisions {
		all[i] = headers.Outcome{Name: string(rune('a' + i)), Decision: d}
	}
	return all
}

var writers = map[string]headers.Writer{
	"Draft":          headers.Draft,
	"Partitioned":    headers.DraftPartitioned([]byte("0123456789abcdef")),
	"Draft7":         headers.Draft7,
	"Draft6":         headers.Draft6,
	"Legacy":         headers.Legacy,
	"LegacyEpoch":    headers.LegacyEpoch,
	"GitHub":         headers.GitHub,
	"RateLimitedFor": headers.RateLimitedFor,
	"Prepared":       dialect.Prepare(headers.Draft, policies(first)),
	"None":           headers.None,
	"Join":           headers.Join(headers.Draft, headers.Legacy, headers.RateLimitedFor),
}

func TestWhatIsPreparedIsWrittenAlike(t *testing.T) {
	other, tokens := policies(opened), policies(first, opened)
	other[0].Name, tokens[1].Unit = "other", "tokens"
	for name, w := range writers {
		t.Run(name, func(t *testing.T) {
			prepared := dialect.Prepare(w, policies(first, opened))
			for _, list := range [][]headers.Outcome{policies(first, opened), policies(last, closed), policies(first), policies(opened, first), other, tokens, nil} {
				bubbletest.Run(t, func(t *testing.T) {
					want, got := http.Header{}, http.Header{}
					w.Write(want, list)
					prepared.Write(got, list)
					if !maps.EqualFunc(got, want, slices.Equal) {
						t.Errorf("prepared %q, want %q", got, want)
					}
				})
			}
		})
	}
}

// The short way of a Writer for one policy writes as the long one does.
func TestALoneDecisionIsWrittenAlike(t *testing.T) {
	places := core.Concurrent(5, time.Minute)
	quota := core.Calendar(10, core.Monthly("Europe/Berlin"))
	decisions := []core.Decision{
		first, last, full, opened, closed,
		{Limit: bucket, RetryAfter: core.Never, NextAfter: time.Second, ResetAfter: time.Second},
		{Allowed: true, Limit: places, Remaining: 4},
		{Limit: places, RetryAfter: time.Second, Estimated: true},
		{Allowed: true, Limit: quota, Remaining: 10},
		{Allowed: true, Limit: quota, Remaining: 9, NextAfter: time.Hour, ResetAfter: time.Hour},
	}
	for name, writer := range map[string]headers.Writer{
		"Draft": headers.Draft, "Legacy": headers.Legacy, "LegacyEpoch": headers.LegacyEpoch, "GitHub": headers.GitHub, "None": headers.None,
	} {
		bubbletest.Run(t, func(t *testing.T) { // where the clock of a Reset stands still
			for _, d := range decisions {
				list := policies(d)
				w, ok := dialect.Prepare(writer, list).(dialect.Lone)
				if !ok {
					t.Fatalf("%s: %v is not written in the short way", name, d.Limit)
				}
				want, got := http.Header{}, http.Header{}
				writer.Write(want, list)
				w.WriteLone(got, &d, new([2]string))
				if !maps.EqualFunc(got, want, slices.Equal) {
					t.Errorf("%s: %+v: %q, want %q", name, d, got, want)
				}
			}
		})
	}
	unnamed := policies(first)
	unnamed[0].Name = "grün"
	for name, list := range map[string][]headers.Outcome{"two": policies(first, opened), "one that no field can carry": unnamed} {
		if _, ok := dialect.Prepare(headers.Draft, list).(dialect.Lone); ok {
			t.Errorf("%s: it is written in the short way", name)
		}
	}
}

// The same responses take less work once a Writer is prepared, also within Join.
func TestWhatIsPreparedTakesNoMoreMemory(t *testing.T) {
	for name, w := range writers {
		list := policies(first, opened)
		h, prepared := http.Header{}, dialect.Prepare(w, list)
		before := testing.AllocsPerRun(100, func() { w.Write(h, list) })
		after := testing.AllocsPerRun(100, func() { prepared.Write(h, list) })
		less := name == "Draft" || name == "Prepared" || name == "Join"
		if after > before || less && after >= before {
			t.Errorf("%s: %v allocations, %v once it is prepared", name, before, after)
		}
	}
}
