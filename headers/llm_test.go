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
)

// asFields returns fields of both services for a unit.
func asFields(unit, limit, remaining, reset, at string) fields {
	return fields{
		"x-ratelimit-limit-" + unit: limit, "x-ratelimit-remaining-" + unit: remaining, "x-ratelimit-reset-" + unit: reset,
		"anthropic-ratelimit-" + unit + "-limit": limit, "anthropic-ratelimit-" + unit + "-remaining": remaining, "anthropic-ratelimit-" + unit + "-reset": at,
	}
}

func with(all ...fields) fields {
	joined := fields{}
	for _, one := range all {
		maps.Copy(joined, one)
	}
	return joined
}

func ofUnit(unit string, d core.Decision) headers.Outcome {
	return headers.Outcome{Name: "a", Unit: unit, Decision: d}
}

func TestLLMBytes(t *testing.T) {
	place := core.Decision{Limit: core.Concurrent(2, time.Minute), RetryAfter: 1500 * time.Microsecond, Estimated: true}
	slow := core.Decision{Limit: window, RetryAfter: time.Minute, NextAfter: time.Minute, ResetAfter: time.Minute}
	fast := core.Decision{Limit: window, RetryAfter: time.Minute - 1, NextAfter: time.Minute, ResetAfter: time.Minute}
	ofBucket := asFields("requests", "10", "9", "1s", "2000-01-01T00:00:01Z")
	checkGolden(t, headers.LLM, []golden{
		{"no policies", nil, fields{}},
		{"requests", policies(first), ofBucket},
		{"requests, by name", []headers.Outcome{ofUnit("requests", first)}, ofBucket},
		{"the tightest of each unit", []headers.Outcome{ofUnit("", opened), ofUnit("tokens", closing), ofUnit("", first), ofUnit("tokens", opened)}, with(
			ofBucket, asFields("tokens", "100", "40", "400ms", "2000-01-01T00:00:01Z"),
		)},
		{"what Anthropic counts apart", []headers.Outcome{ofUnit("input-tokens", opened), ofUnit("output-tokens", closing)}, fields{
			"anthropic-ratelimit-input-tokens-limit": "100", "anthropic-ratelimit-input-tokens-remaining": "99", "anthropic-ratelimit-input-tokens-reset": "2000-01-01T00:01:00Z",
			"anthropic-ratelimit-output-tokens-limit": "100", "anthropic-ratelimit-output-tokens-remaining": "40", "anthropic-ratelimit-output-tokens-reset": "2000-01-01T00:00:01Z",
		}},
		{"another unit", []headers.Outcome{ofUnit("content-bytes", first)}, fields{}},
		{"denied", policies(full), with(asFields("requests", "10", "0", "9.5s", "2000-01-01T00:00:10Z"), fields{"retry-after-ms": "500"})},
		{"rounded up", policies(closed), with(asFields("requests", "100", "0", "17.001s", "2000-01-01T00:00:18Z"), fields{"retry-after-ms": "17001"})},
		{"the longest wait", []headers.Outcome{ofUnit("tokens", full), ofUnit("", closed)}, with(
			asFields("tokens", "10", "0", "9.5s", "2000-01-01T00:00:10Z"), asFields("requests", "100", "0", "17.001s", "2000-01-01T00:00:18Z"), fields{"retry-after-ms": "17001"},
		)},
		{"a place", policies(first, place), with(ofBucket, fields{"retry-after-ms": "2"})},
		{"no wait can help", policies(never), with(asFields("requests", "10", "8", "1.5s", "2000-01-01T00:00:02Z"), fields{"x-should-retry": "false"})},
		{"a minute", policies(slow), with(asFields("requests", "100", "0", "1m0s", "2000-01-01T00:01:00Z"), fields{"retry-after-ms": "60000", "x-should-retry": "false"})},
		{"less than a minute", policies(fast), with(asFields("requests", "100", "0", "1m0s", "2000-01-01T00:01:00Z"), fields{"retry-after-ms": "60000"})},
	})
}

// A limiter inside that lets a request pass which the one outside has denied in a shadow leaves no wait behind, and neither does one that denies for good.
func TestLLMLeavesNoWaitOfBefore(t *testing.T) {
	bubbletest.Run(t, func(t *testing.T) {
		h := http.Header{}
		headers.LLM.Write(h, policies(full))
		headers.LLM.Write(h, policies(full, never))
		if h.Get("Retry-After-Ms") != "" || h.Get("X-Should-Retry") != "false" {
			t.Errorf("%q", h)
		}
		headers.LLM.Write(h, policies(first))
		if _, waits := h["Retry-After-Ms"]; waits || h["X-Should-Retry"] != nil {
			t.Errorf("%q", h)
		}
	})
}

// Retry-After is never over before Retry-After-Ms.
func TestLLMWaitsNoLongerThanRetryAfter(t *testing.T) {
	for _, wait := range []time.Duration{0, 1, time.Millisecond, time.Millisecond + 1, 999_999_999, time.Second, time.Second + 1, 30 * 24 * time.Hour} {
		h, list := http.Header{}, policies(core.Decision{Limit: bucket, RetryAfter: wait})
		headers.LLM.Write(h, list)
		seconds, _ := headers.RetryAfter(list)
		milliseconds, err := time.ParseDuration(h.Get("Retry-After-Ms") + "ms")
		if err != nil || milliseconds < max(wait, 1) || milliseconds > time.Duration(seconds)*time.Second {
			t.Errorf("%v: %q, and Retry-After %d", wait, h, seconds)
		}
	}
}

func TestNamesOfLLMAreThoseOfAllUnits(t *testing.T) {
	h := http.Header{"Retry-After": {"1"}}
	var all []headers.Outcome
	for _, unit := range []string{"", "tokens", "input-tokens", "output-tokens"} {
		all = append(all, ofUnit(unit, full))
	}
	headers.LLM.Write(h, all)
	h["X-Should-Retry"] = nil
	if got, want := headers.Names(headers.LLM), slices.Sorted(maps.Keys(h)); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := headers.Names(headers.Join(headers.Legacy, headers.LLM)); len(got) != len(h)+3 {
		t.Errorf("joined: %q", got)
	}
}

// The longest time there is stays one when it is rounded up.
func TestLLMTellsTheLongestTime(t *testing.T) {
	h := http.Header{}
	headers.LLM.Write(h, []headers.Outcome{ofUnit("", core.Decision{Limit: window, Allowed: true, ResetAfter: core.Never})})
	if d, err := time.ParseDuration(h.Get("X-Ratelimit-Reset-Requests")); err != nil || d < core.Never-time.Millisecond {
		t.Errorf("%v, %v", h, err)
	}
}
