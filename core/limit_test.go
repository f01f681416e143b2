package core_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
)

const year = 365 * 24 * time.Hour

// Every error names the limit and the number that is wrong.
func TestValidate(t *testing.T) {
	second := core.PerSecond(1)
	for _, test := range []struct {
		limit core.Quota
		want  []string // nothing: valid
	}{
		{core.Leaky(10, second), nil},
		{core.Leaky(1, core.Per(1, time.Nanosecond)), nil},
		{core.Leaky(1_000_000_000, core.PerSecond(1_000_000)), nil},
		{core.Leaky(1_000_000, core.PerSecond(700_000)), nil},
		{core.GCRA(1_000_000_000, core.PerSecond(1_000_000_000)), nil},
		{core.TokenBucket(150_000, core.PerDay(150_000)), nil},
		{core.TokenBucket(1, core.Per(1, year)), nil},
		{core.TokenBucket(1_000_000, core.Per(999_999, year)), nil}, // counted in milliseconds
		{core.FixedWindow(1_000_000_000, year), nil},
		{core.FixedWindow(1, time.Microsecond), nil},
		{core.SlidingWindow(100_000, year), nil},
		{core.SlidingLog(1_000_000, year), nil},
		{core.Leaky(10, second).WithDebt(50), nil},
		{core.TokenBucket(1_000_000, core.Per(999_999, year)).WithDebt(math.MaxInt), nil},
		{core.GCRA(1_000_000_000, core.PerSecond(1_000_000_000)).WithDebt(math.MaxInt), nil},
		{core.SlidingLog(10, time.Hour).WithDebt(0), nil}, // which is none

		{core.Quota{}, []string{"zero Limit", "core.Leaky"}},
		{core.Leaky(0, second), []string{"leaky 0, 1/s", "capacity 0"}},
		{core.Leaky(-3, second), []string{"leaky -3, 1/s", "capacity -3"}},
		{core.GCRA(1, core.PerSecond(0)), []string{"gcra 1, 0/s", "rate of 0 events"}},
		{core.Shaping(1, core.PerSecond(-2)), []string{"shaping 1, -2/s", "rate of -2 events"}},
		{core.TokenBucket(1, core.Per(1, 0)), []string{"token-bucket 1, 1/0s", "period 0s"}},
		{core.TokenBucket(1, core.Per(1, -time.Second)), []string{"token-bucket 1, 1/-1s", "period -1s"}},
		{core.FixedWindow(0, time.Second), []string{"fixed-window 0, 1s", "capacity 0"}},
		{core.FixedWindow(1, 0), []string{"fixed-window 1, 0s", "period 0s"}},
		{core.SlidingWindow(1, -time.Hour), []string{"sliding-window 1, -1h", "period -1h"}},
		{core.FixedWindow(1, 1500*time.Nanosecond), []string{"fixed-window 1, 1.5us", "whole number of microseconds"}},
		{core.SlidingWindow(1, 1500*time.Nanosecond), []string{"sliding-window 1, 1.5us", "whole number of"}},
		{core.SlidingLog(1, 1500*time.Nanosecond), []string{"sliding-log 1, 1.5us", "whole number of microseconds"}},
		{core.FixedWindow(1, 101*year), []string{"36865d", "longer than 100 years"}},
		{core.FixedWindow(math.MaxInt, time.Second), []string{"9223372036854775807", "2^53"}},
		{core.SlidingWindow(1_000_000_000, year), []string{"sliding-window 1000000000, 365d", "1000000000 events", "2^53"}},
		{core.SlidingLog(1_000_001, time.Second), []string{"sliding-log 1000001, 1s", "1000001 instants", "1000000"}},
		{core.Leaky(101, core.Per(1, year)), []string{"leaky 101, 1/365d", "100 years"}},
		{core.Leaky(math.MaxInt, core.PerSecond(1)), []string{"9223372036854775807", "2^53"}},
		{core.Leaky(1_000_000_000, core.Per(999_999_937, year)), []string{"leaky 1000000000, 999999937/365d", "2^53"}},
		{core.Leaky(10, second).WithDebt(-1), []string{"leaky 10, 1/s, debt -1", "debt -1 is less than 0"}},
		{core.Leaky(10, second).WithDebt(math.MaxInt - 1), []string{"capacity 10 and debt 9223372036854775806"}},
		{core.FixedWindow(10, year).WithDebt(1000), []string{"fixed-window 10, 365d, debt 1000", "100 years"}},
		{core.FixedWindow(10, year).WithDebt(980), nil},
		{core.FixedWindow(10, year).WithDebt(math.MaxInt), nil},
		{core.Calendar(10, core.Monthly("UTC")).WithDebt(10), nil},
		{core.Calendar(10, core.Monthly("UTC")).WithDebt(11), []string{"calendar 10, month@1 UTC, debt 11", "capacity of 10"}},
		{core.Calendar(10, core.Monthly("UTC")).WithDebt(math.MaxInt), []string{"debt unlimited", "capacity of 10"}},
		{core.Leaky(10, core.Per(1, year)).WithDebt(91), []string{"leaky 10, 1/365d, debt 91", "100 years"}},
		{core.Shaping(10, second).WithDebt(5), []string{"shaping 10, 1/s, debt 5", "has no debt"}},
		{core.SlidingLog(10, time.Hour).WithDebt(math.MaxInt), []string{"sliding-log 10, 1h, debt unlimited", "has no debt"}},
		{core.Leaky(10, second).Named("a b"), []string{`"a b"`, `' '`, "byte 1"}},
		{core.Leaky(10, second).Named("9lives"), []string{`"9lives"`, "byte 0"}},
		{core.Leaky(10, second).Named("é"), []string{"byte 0"}},
		{core.Leaky(10, second).Named("a=b"), []string{`'='`}},
		{core.Leaky(10, second).Named("weir-api"), []string{`"weir-api"`, `begins with "weir-"`, "choose another"}},
		{core.GCRA(86_400_000, core.PerSecond(1000)).Named("weir-held-back"), []string{`"weir-held-back"`, "choose another"}},
		{core.Leaky(10, second).Named(strings.Repeat("a", 65)), []string{"65 bytes", "64"}},
	} {
		err := test.limit.Validate()
		if len(test.want) == 0 {
			if err != nil {
				t.Errorf("%s: %v, want it valid", test.limit, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s is valid, want an error with %q", test.limit, test.want)
			continue
		}
		for _, want := range append(test.want, "core: ") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q in it", test.limit, err, want)
			}
		}
		limiter := core.New(core.NewMemory())
		if _, verb := limiter.Allow(t.Context(), "key", test.limit); verb == nil || verb.Error() != err.Error() {
			t.Errorf("Allow: %v, want what Validate says: %v", verb, err)
		}
		if _, verb := limiter.Peek(t.Context(), "key", test.limit); verb == nil {
			t.Errorf("Peek under %s is no error", test.limit)
		}
		if verb := limiter.Reset(t.Context(), "key", test.limit); verb == nil {
			t.Errorf("Reset under %s is no error", test.limit)
		}
	}
}

func TestNamed(t *testing.T) {
	plain := core.Leaky(10, core.PerSecond(1))
	for _, name := range []string{"a", "*", "plan:pro", "A!#$%&'*+.^_`|~:/-9", strings.Repeat("a", 64)} {
		named := plain.Named(name)
		if err := named.Validate(); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if named.Identity() != core.Leaky(20, core.PerHour(3)).Named(name).Identity() {
			t.Errorf("the identity of %s depends on its numbers", named)
		}
		if named.Name() != name || named.Identity() == named || named == plain || named.Identity() == plain.Identity() {
			t.Errorf("named %q it is %+v", name, named)
		}
		if named.Named("") != plain {
			t.Errorf("the empty name does not make %s what it was", named)
		}
		if named.Identity() == core.GCRA(10, core.PerSecond(1)).Named(name).Identity() {
			t.Errorf("the identity of %s does not depend on its algorithm", named)
		}
	}
	bad := plain.Named("a b")
	if bad.Validate() == nil || bad.Named("ab").Validate() != nil {
		t.Error("a good name does not replace a bad one")
	}
	if plain.Identity() != plain || plain.Name() != "leaky:10:1/s" {
		t.Errorf("an unnamed limit is called %q", plain.Name())
	}
	if core.Leaky(10, core.Per(2, 2*time.Second)).Identity() == plain.Identity() {
		t.Error("2/2s is 1/s")
	}
}

func TestLimitTellsItsNumbers(t *testing.T) {
	leaky, window := core.Leaky(10, core.Per(5, 2*time.Second)), core.FixedWindow(7, time.Minute)
	if leaky.Capacity() != 10 || leaky.Rate() != core.Per(5, 2*time.Second) || leaky.Algorithm() != "leaky" {
		t.Errorf("%+v", leaky)
	}
	if window.Capacity() != 7 || window.Rate() != core.Per(7, time.Minute) || window.Algorithm() != "fixed-window" {
		t.Errorf("%+v", window)
	}
	if (core.Quota{}).Algorithm() != "" {
		t.Errorf("the zero limit's algorithm is %q", core.Quota{}.Algorithm())
	}
	for _, test := range []struct {
		rate core.Rate
		want string
	}{
		{core.PerSecond(10), "10/s"},
		{core.PerMinute(3), "3/m"},
		{core.PerHour(100), "100/h"},
		{core.PerDay(1), "1/d"},
		{core.Per(5, 2*time.Second), "5/2s"},
		{core.Per(3, 2*time.Millisecond), "3/2ms"},
		{core.Per(1, time.Nanosecond), "1/ns"},
	} {
		if got := test.rate.String(); got != test.want {
			t.Errorf("%+v prints %q, want %q", test.rate, got, test.want)
		}
	}
}

func TestShareOfALimit(t *testing.T) {
	for _, c := range []struct {
		limit core.Quota
		n     int
		want  string
	}{
		{core.Leaky(10, core.PerSecond(1)), 1, "leaky 10, 1/s"},
		{core.Leaky(10, core.PerSecond(1)), 0, "leaky 10, 1/s"},
		{core.Leaky(10, core.PerSecond(1)), 4, "leaky 3, 1/4s"},
		{core.GCRA(1, core.PerSecond(1)), 1000, "gcra 1, 1/1000s"},
		{core.TokenBucket(100, core.PerSecond(50)).Named("api"), 4, "api: token-bucket 25, 50/4s"},
		{core.FixedWindow(10, time.Minute), 3, "fixed-window 4, 1m"},
		{core.SlidingWindow(10, time.Minute).Named("login"), 20, "login: sliding-window 1, 1m"},
		{core.SlidingLog(7, time.Hour), 2, "sliding-log 4, 1h"},
	} {
		share := c.limit.Share(c.n)
		want, err := core.ParseLimit(c.want)
		if err != nil {
			t.Fatal(err)
		}
		if share != want || share.Validate() != nil {
			t.Errorf("%s of %d is %s (%v), want %s", c.limit, c.n, share, share.Validate(), want)
		}
	}
	if err := (core.Quota{}).Share(2).Validate(); err == nil {
		t.Error("the share of no limit is one")
	}
}

func TestMisusePanicsAtStartUp(t *testing.T) {
	for name, misuse := range map[string]func(){
		"New(nil)":          func() { core.New(nil) },
		"NewRedis(nil)":     func() { core.NewRedis(nil) },
		"WithClock(nil)":    func() { core.WithClock(nil) },
		"WithLogger(nil)":   func() { core.WithLogger(nil) },
		"WithBudget(0)":     func() { core.WithBudget(0) },
		"WithMaxKeys(0)":    func() { core.WithMaxKeys(0) },
		"WithPrefix empty":  func() { core.WithPrefix("") },
		"WithPrefix braced": func() { core.WithPrefix("{a}") },
		"WithPrefix spaced": func() { core.WithPrefix("a b") },
		"WithPrefix bell":   func() { core.WithPrefix("a\a") },
	} {
		func() {
			defer func() {
				if said, ok := recover().(string); !ok || !strings.HasPrefix(said, "core: ") {
					t.Errorf("%s panics with %q, want a reason", name, said)
				}
			}()
			misuse()
		}()
	}
}
