package core

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// Each reason why a call makes no sense is told in words of its own.
func TestReasons(t *testing.T) {
	leaky, places := Leaky(10, PerSecond(1)), Concurrent(10, time.Second)
	ban := Ban{Strikes: SlidingLog(5, time.Minute)}.Limit()
	charge := Check{Key: "key", Limit: leaky}
	for want, checks := range map[string][]Check{
		"":                            {{Key: "key", Limit: leaky, Cost: 3, Headroom: 2, ReserveFor: time.Minute}},
		"key is empty":                {{Limit: leaky}},
		"cost -1 is negative":         {{Key: "key", Limit: leaky, Cost: -1}},
		"the check's mode is Mode(9)": {{Key: "key", Limit: leaky, Mode: 9}},
		"has a cost of 1":             {{Key: "key", Limit: leaky, Mode: Look, Cost: 1}},
		"leaves everything to others": {{Key: "key", Limit: leaky, Mode: Look, Headroom: 1}},
		"headroom -1 is negative":     {{Key: "key", Limit: leaky, Headroom: -1}},
		"only a Shaping limit delays": {{Key: "key", Limit: leaky, Undelayed: 1}},
		"is to be an alternative":     {{Key: "key", Limit: leaky, Or: true}},
		"want from 1ms to 24h":        {{Key: "key", Limit: leaky, ReserveFor: time.Microsecond}},
		"which has a lease":           {{Key: "key", Limit: places, ReserveFor: time.Minute}},
		"which is a ban":              {{Key: "key", Limit: ban, ReserveFor: time.Minute}},
		"10, 1/s is no ban":           {{Key: "key", Limit: leaky, Mode: OnDenial}},
		"which counts in any case":    {{Key: "key", Limit: ban}, {Key: "key", Limit: leaky, Or: true}},
		"a headroom of 1 strikes":     {{Key: "key", Limit: ban, Headroom: 1}},
		"the zero Limit":              {{Key: "key"}},
		"one is a condition":          {charge, {Key: "key", Limit: leaky, Mode: Condition}},
		"one is an alternative":       {charge, {Key: "other", Limit: leaky}, {Key: "key", Limit: leaky, Or: true}},
		"reserve for 0s and 1m":       {charge, {Key: "key", Limit: leaky, ReserveFor: time.Minute}},
		"with different numbers":      {{Key: "key", Limit: leaky.Named("name")}, {Key: "key", Limit: Leaky(20, PerSecond(1)).Named("name")}},
		"modes OnDenial and Charge":   {{Key: "key", Limit: ban, Mode: OnDenial}, {Key: "key", Limit: ban}},
	} {
		switch err := validate(checks); {
		case want == "" && err == nil:
		case want == "" || err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, ErrInvalid):
			t.Errorf("the reason is %v, want %q", err, want)
		}
	}
}
