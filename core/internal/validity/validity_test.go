package validity_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core/internal/exact"
	"github.com/weir-go/ratelimit/core/internal/specs"
	"github.com/weir-go/ratelimit/core/internal/validity"
)

// Each reason why a call makes no sense is told in words of its own.
func TestReasons(t *testing.T) {
	leaky := specs.Of(exact.Params{Algorithm: exact.Leaky, Capacity: 10, Events: 1, Period: time.Second})
	places := specs.Of(exact.Params{Algorithm: exact.Concurrent, Capacity: 10, Events: 10, Period: time.Second})
	ban := specs.Of(exact.Params{
		Algorithm: exact.Ban, Capacity: 5, Events: 5, Period: time.Minute,
		Ban: exact.BanTerms{First: time.Minute, Factor: 2, Longest: time.Hour, Forget: time.Hour},
	})
	for want, c := range map[string]validity.Check{
		"":                               {Key: "key", Limit: leaky, Cost: 3, Headroom: 2, ReserveFor: time.Minute},
		"key is empty":                   {Limit: leaky},
		"cost -1 is negative":            {Key: "key", Limit: leaky, Cost: -1},
		"the check's mode is Mode(9)":    {Key: "key", Limit: leaky, Mode: 9},
		"has a cost of 1":                {Key: "key", Limit: leaky, Mode: validity.Look, Cost: 1},
		"leaves everything to others":    {Key: "key", Limit: leaky, Mode: validity.Look, Headroom: 1},
		"headroom -1 is negative":        {Key: "key", Limit: leaky, Headroom: -1},
		"only a Shaping limit delays":    {Key: "key", Limit: leaky, Undelayed: 1},
		"is to be an alternative":        {Key: "key", Limit: leaky, Orphan: true},
		"want from 1ms to 24h":           {Key: "key", Limit: leaky, ReserveFor: time.Microsecond},
		"which has a lease":              {Key: "key", Limit: places, ReserveFor: time.Minute},
		"which is a ban":                 {Key: "key", Limit: ban, ReserveFor: time.Minute},
		"10, 1/s is no ban":              {Key: "key", Limit: leaky, Mode: validity.OnDenial},
		"which counts in any case":       {Key: "key", Limit: ban, Either: true},
		"a headroom of 1 strikes":        {Key: "key", Limit: ban, Headroom: 1},
		"core: " + zeroProblem().Error(): {Key: "key", Limit: exact.Zero},
	} {
		check(t, c.Validate(3), want)
	}
	charge := validity.Check{Key: "key", Limit: leaky}
	with := func(change func(*validity.Check)) *validity.Check {
		c := charge
		change(&c)
		return &c
	}
	for want, other := range map[string]*validity.Check{
		"":                       &charge,
		"one is a condition":     with(func(c *validity.Check) { c.Mode = validity.Condition }),
		"one is an alternative":  with(func(c *validity.Check) { c.Either = true }),
		"reserve for 0s and 1m":  with(func(c *validity.Check) { c.ReserveFor = time.Minute }),
		"with different numbers": with(func(c *validity.Check) { c.Limit = places }),
	} {
		check(t, validity.Together(0, 1, &charge, other), want)
	}
	check(t, validity.Together(0, 1, &validity.Check{Limit: ban, Mode: validity.OnDenial}, &validity.Check{Limit: ban}), "the modes OnDenial and Charge")
}

func zeroProblem() error { return exact.Zero.Problem() }

// check fails the test unless an error has a text, and is ErrInvalid, or is nil as wanted.
func check(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err == nil:
	case want == "" || err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, validity.ErrInvalid):
		t.Errorf("the reason is %v, want %q", err, want)
	}
}
