package core_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

func TestLimitText(t *testing.T) {
	for text, want := range map[string]core.Quota{
		"leaky 10, 1/s":                   core.Leaky(10, core.PerSecond(1)),
		"shaping 3, 5/s":                  core.Shaping(3, core.PerSecond(5)),
		"token-bucket 100, 5/2s":          core.TokenBucket(100, core.Per(5, 2*time.Second)),
		"gcra 1, 20/m":                    core.GCRA(1, core.PerMinute(20)),
		"gcra 1, 1/ns":                    core.GCRA(1, core.Per(1, time.Nanosecond)),
		"leaky 3, 3/2ms":                  core.Leaky(3, core.Per(3, 2*time.Millisecond)),
		"leaky 1, 1/1.5s":                 core.Leaky(1, core.Per(1, 1500*time.Millisecond)),
		"fixed-window 100, 1m":            core.FixedWindow(100, time.Minute),
		"fixed-window 100, 250ms":         core.FixedWindow(100, 250*time.Millisecond),
		"fixed-window 1, 3us":             core.FixedWindow(1, 3*time.Microsecond),
		"sliding-window 1000, 1h":         core.SlidingWindow(1000, time.Hour),
		"sliding-window 1000, 1h30m":      core.SlidingWindow(1000, 90*time.Minute),
		"sliding-window 1000, 36h":        core.SlidingWindow(1000, 36*time.Hour),
		"sliding-log 5, 15m":              core.SlidingLog(5, 15*time.Minute),
		"sliding-log 5, 365d":             core.SlidingLog(5, year),
		"calendar 10, day Europe/Berlin":  core.Calendar(10, core.Daily("Europe/Berlin")),
		"calendar 10, week@sunday UTC":    core.Calendar(10, core.Weekly("UTC", time.Sunday)),
		"calendar 10, month@1 UTC":        core.Calendar(10, core.Monthly("UTC")),
		"calendar 10, month@15 UTC":       core.Calendar(10, core.Monthly("UTC").From(15)),
		"calendar 10, year@04-06 UTC":     core.Calendar(10, core.Yearly("UTC", time.April).From(6)),
		"calendar 10, year@02-29 UTC":     core.Calendar(10, core.Yearly("UTC", time.February).From(29)),
		"calendar 10, every 1h30m":        core.Calendar(10, core.Every(90*time.Minute)),
		"calendar 10, every 1d jitter 5m": core.Calendar(10, core.Every(24*time.Hour).Jitter(5*time.Minute)),
		"calendar 10, month@31T08:30 UTC": core.Calendar(10, core.MonthlySince(time.Date(2026, time.January, 31, 8, 30, 0, 0, time.UTC))),
		"login: fixed-window 5, 15m":      core.FixedWindow(5, 15*time.Minute).Named("login"),
		"plan:pro: leaky 10, 1/s":         core.Leaky(10, core.PerSecond(1)).Named("plan:pro"),
		"leaky:10:1/s: gcra 10, 150000/d": core.GCRA(10, core.PerDay(150_000)).Named("leaky:10:1/s"),
	} {
		if got := want.String(); got != text {
			t.Errorf("it prints %q, want %q", got, text)
		}
		got, err := core.ParseLimit(text)
		if err != nil || got != want {
			t.Errorf("ParseLimit(%q) is %+v, %v, want %+v", text, got, err, want)
		}
	}
	// What people write.
	for text, canonical := range map[string]string{
		" leaky  10 ,1/s ":          "leaky 10, 1/s",
		"leaky 10,1 / 1s":           "leaky 10, 1/s",
		"leaky 10, 60/60s":          "leaky 10, 60/m",
		"leaky 10, 1/second":        "leaky 10, 1/s",
		"gcra 10, 20/minute":        "gcra 10, 20/m",
		"shaping 10, 100 / hour":    "shaping 10, 100/h",
		"token-bucket 10, 1000/day": "token-bucket 10, 1000/d",
		"fixed-window 100,60s":      "fixed-window 100, 1m",
		"fixed-window 100, 24h":     "fixed-window 100, 1d",
		"fixed-window 100, 0.5s":    "fixed-window 100, 500ms",
		"a:  leaky 10, 1/s":         "a: leaky 10, 1/s",

		"calendar 10,month UTC":            "calendar 10, month@1 UTC",
		"calendar 10, week Europe/Berlin":  "calendar 10, week@monday Europe/Berlin",
		"calendar 10, year  UTC":           "calendar 10, year@01-01 UTC",
		"calendar 10, every 60m":           "calendar 10, every 1h",
		"calendar 10, month@15T00:00 UTC":  "calendar 10, month@15 UTC",
		"calendar 1, day UTC  jitter 300s": "calendar 1, day UTC jitter 5m",
		"sliding-log 5, 1h0m0s":            "sliding-log 5, 1h",
		"sliding-window 5, 3600s\n":        "sliding-window 5, 1h",
	} {
		if got, err := core.ParseLimit(text); err != nil || got.String() != canonical {
			t.Errorf("ParseLimit(%q) is %s, %v, want %s", text, got, err, canonical)
		}
	}
	for text, want := range map[string]string{
		"":                                "want an algorithm",
		"leaky":                           "want an algorithm",
		"leaky 10":                        "want an algorithm",
		"leaky 10 1/s":                    "want an algorithm",
		"leaky ten, 1/s":                  `"ten" is not a whole number`,
		"leaky 1.5, 1/s":                  `"1.5" is not a whole number`,
		"bucket 10, 1/s":                  "token-bucket",
		"leaky 10, 1":                     `rate "1"`,
		"leaky 10, /s":                    `rate "/s"`,
		"leaky 10, 1/":                    `period ""`,
		"leaky 10, 1/fortnight":           `period "fortnight"`,
		"leaky 10, 1/s, 2/m":              "period",
		"leaky 10, 1/2second":             `period "2second"`,
		"1/second":                        "as in \"leaky 10, 1/s\"",
		"fixed-window 10, 1/s":            `fixed-window takes the length of its window, such as 1m, and not a rate such as "1/s"`,
		"fixed-window 10, 40000d":         "up to 36500",
		"fixed-window 10, 99999999999h":   "up to 36500d",
		"fixed-window 10, 1.5d":           `"1.5d"`,
		"fixed-window 10, 99999999d":      `"99999999d"`,
		": leaky 10, 1/s":                 "name before the colon is empty",
		"a b: leaky 10, 1/s":              `"a b"`,
		"leaky 0, 1/s":                    "capacity 0",
		"leaky 10, 0/s":                   "rate of 0",
		"fixed-window 10, -1s":            "period -1s",
		"leaky 99999999999999999999, 1/s": "capacity 99999999999999999999 is not from 1 to 9007199254740991",
		"leaky 1, 99999999999999999999/s": "rate 99999999999999999999 is not from 1 to 9007199254740991",
		"leaky 1, ten/s":                  `rate "ten" is not a whole number`,
	} {
		if l, err := core.ParseLimit(text); err == nil || !strings.Contains(err.Error(), want) || l != nil {
			t.Errorf("ParseLimit(%q) is %+v, %v, want an error with %q", text, l, err, want)
		}
	}
}

// drawValid draws a valid limit, named or not.
func drawValid(t *rapid.T) core.Quota {
	capacity := rapid.IntRange(1, 1_000_000).Draw(t, "capacity")
	events := rapid.IntRange(1, 1_000_000).Draw(t, "events")
	period := time.Duration(rapid.Int64Range(1, int64(year/time.Microsecond)).Draw(t, "period")) *
		rapid.SampledFrom([]time.Duration{1, time.Microsecond}).Draw(t, "unit")
	limit := rapid.SampledFrom([]func() core.Quota{
		func() core.Quota { return core.Leaky(capacity, core.Per(events, period)) },
		func() core.Quota { return core.Shaping(capacity, core.Per(events, period)) },
		func() core.Quota { return core.TokenBucket(capacity, core.Per(events, period)) },
		func() core.Quota { return core.GCRA(capacity, core.Per(events, period)) },
		func() core.Quota { return core.FixedWindow(capacity, period) },
		func() core.Quota { return core.SlidingWindow(capacity, period) },
		func() core.Quota { return core.SlidingLog(capacity, period) },
	}).Draw(t, "algorithm")()
	limit = limit.Named(rapid.StringMatching(`([A-Za-z*][A-Za-z0-9!#$%&'*+.^_|~:/-]{0,20})?`).Draw(t, "name"))
	if limit.Validate() != nil {
		t.Skip("not valid")
	}
	return limit
}

func TestLimitTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := drawValid(t)
		parsed, err := core.ParseLimit(limit.String())
		if err != nil || parsed != limit {
			t.Fatalf("%+v prints %q, which reads %+v, %v", limit, limit, parsed, err)
		}
		for i := range len(limit.Name()) {
			if c := limit.Name()[i]; c <= ' ' || c == ',' || c == ';' || c == '"' || c > '~' {
				t.Fatalf("the name %q cannot stand in a header field", limit.Name())
			}
		}
	})
}

func FuzzParseLimit(f *testing.F) {
	for _, seed := range []string{
		"leaky 10, 1/s", "a: fixed-window 5, 15m", "gcra 1, 1/ns", "sliding-log 1, 36500d",
		"x: y: leaky 1, 1/s", "leaky 1, 1/1h1s", "fixed-window 1, 9223372036854775807ns", "calendar 1, day UTC",
		"a: calendar 1, month@31T08:30:00.5 Europe/Berlin jitter 5m", "calendar 1, week@sunday UTC", "calendar 1, year@02-29 UTC", "calendar 1, every 1h",
		"calendar 1, month@15T23:59:59.999999999 UTC", "calendar 1, year@02-32 UTC", "calendar 1, year@13-01 UTC", "calendar 1, year@2-3 UTC", "calendar 1, day ../UTC",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		limit, err := core.ParseLimit(text)
		if err != nil {
			return
		}
		if err := limit.Validate(); err != nil {
			t.Fatalf("%q reads as a limit that is not valid: %v", text, err)
		}
		again, err := core.ParseLimit(limit.String())
		if err != nil || again != limit {
			t.Fatalf("%q reads as %s, and that as %s, %v", text, limit, again, err)
		}
	})
}

func TestLimitInJSON(t *testing.T) {
	type configuration struct{ Login, Other core.Quota }
	want := configuration{core.FixedWindow(5, 15*time.Minute).Named("login"), core.Leaky(10, core.PerSecond(1))}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if golden := `{"Login":"login: fixed-window 5, 15m","Other":"leaky 10, 1/s"}`; string(text) != golden {
		t.Errorf("got %s, want %s", text, golden)
	}
	var got configuration
	if err := json.Unmarshal(text, &got); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`{"Login":"leaky"}`), &got); err == nil || got != want {
		t.Errorf("after an error: %+v, %v, want what it was", got, err)
	}
	err = json.Unmarshal([]byte(`{"Login":"fixed-window 99999999999999999999, 1m"}`), &got)
	if err == nil || !strings.Contains(err.Error(), "capacity 99999999999999999999 is not from 1 to") {
		t.Errorf("a capacity beyond all numbers: %v", err)
	}
	if _, err := json.Marshal(configuration{}); err == nil {
		t.Error("the zero limit can be marshalled")
	}
}
