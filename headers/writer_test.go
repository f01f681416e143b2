package headers_test

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

const largest = 999_999_999_999_999

// The decisions of the golden tables.
var (
	bucket = core.Leaky(10, core.PerSecond(1))
	window = core.FixedWindow(100, time.Minute)

	fresh = core.Decision{Allowed: true, Limit: bucket, Remaining: 10}
	first = core.Decision{Allowed: true, Limit: bucket, Remaining: 9, NextAfter: time.Second, ResetAfter: time.Second}
	last  = core.Decision{Allowed: true, Limit: bucket, Remaining: 0, NextAfter: time.Second, ResetAfter: 10 * time.Second}
	full  = core.Decision{Limit: bucket, RetryAfter: 500 * time.Millisecond, NextAfter: 500 * time.Millisecond, ResetAfter: 9500 * time.Millisecond}
	never = core.Decision{Limit: bucket, Remaining: 8, RetryAfter: core.Never, NextAfter: time.Second, ResetAfter: 1500 * time.Millisecond}

	opened  = core.Decision{Allowed: true, Limit: window, Remaining: 99, NextAfter: time.Minute, ResetAfter: time.Minute}
	closing = core.Decision{Allowed: true, Limit: window, Remaining: 40, NextAfter: 400 * time.Millisecond, ResetAfter: 400 * time.Millisecond}
	closed  = core.Decision{Limit: window, RetryAfter: 17_000_001 * time.Microsecond, NextAfter: 17_000_001 * time.Microsecond, ResetAfter: 17_000_001 * time.Microsecond}
)

func policies(decisions ...core.Decision) []headers.Outcome {
	names := []string{"a", "b", "c", "d"}
	all := make([]headers.Outcome, len(decisions))
	for i, d := range decisions {
		all[i] = headers.Outcome{Name: names[i], Decision: d}
	}
	return all
}

// fields are all that a Writer must set.
type fields map[string]string

func checkFields(t *testing.T, h http.Header, want fields) {
	t.Helper()
	for name, values := range h {
		if name != http.CanonicalHeaderKey(name) {
			t.Errorf("%s is not in canonical form", name)
		}
		if len(values) != 1 {
			t.Errorf("%s has %d values: %q", name, len(values), values)
		}
	}
	got := fields{}
	for name := range h {
		got[name] = h.Get(name)
	}
	expected := fields{}
	for name, value := range want {
		expected[http.CanonicalHeaderKey(name)] = value
	}
	if !maps.Equal(got, expected) {
		t.Errorf("fields\n got %q\nwant %q", got, expected)
	}
}

type golden struct {
	name     string
	policies []headers.Outcome
	want     fields
}

// checkGolden compares fields byte for byte, in synctest bubbles, where the Unix time is
// bubble.
func checkGolden(t *testing.T, w headers.Writer, table []golden) {
	t.Helper()
	for _, c := range table {
		t.Run(c.name, func(t *testing.T) {
			bubbletest.Run(t, func(t *testing.T) {
				h := http.Header{}
				w.Write(h, c.policies)
				checkFields(t, h, c.want)
			})
		})
	}
}

func TestNoneWritesNothing(t *testing.T) {
	checkGolden(t, headers.None, []golden{{"denied", policies(full), fields{}}})
}

func TestMisusePanicsWithAReason(t *testing.T) {
	for _, c := range []struct {
		name string
		call func()
		want string
	}{
		{"Join", func() { headers.Join(headers.Draft, nil) }, "headers: Join: writer 2 of 2 is nil"},
		{"Names", func() { headers.Names(nil) }, "headers: Names: the writer is nil"},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if got := recover(); got != c.want {
					t.Errorf("panic %v, want %s", got, c.want)
				}
			}()
			c.call()
		})
	}
}

var writers = map[string]headers.Writer{
	"Draft":          headers.Draft,
	"Draft7":         headers.Draft7,
	"Draft6":         headers.Draft6,
	"Legacy":         headers.Legacy,
	"LegacyEpoch":    headers.LegacyEpoch,
	"GitHub":         headers.GitHub,
	"RateLimitedFor": headers.RateLimitedFor,
	"LLM":            headers.LLM,
	"Prepared":       dialect.Prepare(headers.Draft, policies(first)),
	"None":           headers.None,
	"Join":           headers.Join(headers.Draft, headers.Legacy, headers.RateLimitedFor),
}

func TestSecondWriteReplacesTheFirst(t *testing.T) {
	outer := policies(closed)
	lists := map[string][]headers.Outcome{
		"longer list":         append(slices.Clone(outer), policies(closed, full)[1]),
		"no longer denied":    policies(first),
		"no whole seconds":    policies(core.Decision{Allowed: true, Limit: endless}),
		"name not for fields": {{Name: "a\nb", Decision: first}},
	}
	for name, w := range writers {
		for what, inner := range lists {
			t.Run(name+"/"+what, func(t *testing.T) {
				bubbletest.Run(t, func(t *testing.T) {
					once, twice := http.Header{}, http.Header{}
					w.Write(once, inner)
					w.Write(twice, outer)
					w.Write(twice, inner)
					if !maps.EqualFunc(once, twice, slices.Equal) {
						t.Errorf("written twice %q, once %q", twice, once)
					}
				})
			})
		}
	}
}

func TestOtherFieldsAreLeftAlone(t *testing.T) {
	for name, w := range writers {
		t.Run(name, func(t *testing.T) {
			h := http.Header{"Vary": {"Origin", "Accept"}, "Retry-After": {"7"}}
			w.Write(h, policies(full))
			if !slices.Equal(h["Vary"], []string{"Origin", "Accept"}) || h.Get("Retry-After") != "7" {
				t.Errorf("other fields are now %q", h)
			}
		})
	}
}

func TestWithoutPoliciesNothingChanges(t *testing.T) {
	for name, w := range writers {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			w.Write(h, policies(full))
			before := h.Clone()
			w.Write(h, nil)
			if !maps.EqualFunc(h, before, slices.Equal) {
				t.Errorf("fields are now %q, were %q", h, before)
			}
		})
	}
}

func TestWritersAreSafeForConcurrentUse(t *testing.T) {
	for name, w := range writers {
		t.Run(name, func(t *testing.T) {
			list := policies(first, closed, never)
			done := make(chan struct{})
			for range 4 {
				go func() {
					defer func() { done <- struct{}{} }()
					w.Write(http.Header{}, list)
				}()
			}
			for range 4 {
				<-done
			}
		})
	}
}
