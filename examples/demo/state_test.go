package main

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// TestStateIsExact sends random traffic at random instants, and compares what the
// pictures are drawn from with a model that has seen it all.
func TestStateIsExact(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				capacity := rapid.IntRange(1, 12).Draw(t, "capacity")
				period := time.Duration(rapid.IntRange(100, 20_000).Draw(t, "period")) * time.Millisecond
				limit, err := a.with(capacity, period)
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now().Truncate(time.Millisecond)
				clock := time.Duration(0)
				limiter := core.New(core.NewMemory(core.WithClock(func() time.Time { return start.Add(clock) })))
				var kept record
				var admitted []time.Duration
				var level float64 // of a bucket, as of the last step
				for range rapid.IntRange(1, 40).Draw(t, "steps") {
					step := time.Duration(rapid.Int64Range(0, int64(period/time.Microsecond)).Draw(t, "step")) * time.Microsecond / 3
					clock += step.Truncate(time.Microsecond)
					level = math.Max(0, level-float64(step.Truncate(time.Microsecond))*float64(capacity)/float64(period))
					for range rapid.IntRange(0, 3).Draw(t, "requests") {
						decision, err := limiter.Allow(t.Context(), "key", limit.(core.Quota))
						if err != nil {
							t.Fatal(err)
						}
						if decision.Allowed {
							kept.admit(&decision, clock)
							admitted = append(admitted, clock)
							level++
						}
					}
					decision, err := limiter.AllowN(t.Context(), "key", limit.(core.Quota), 0)
					if err != nil {
						t.Fatal(err)
					}
					s := stateOf(&decision, clock, &kept)
					if !s.Verified {
						t.Fatalf("the record does not agree with %+v: %+v", decision, s)
					}
					switch a.Name {
					case "sliding-log":
						var left []int64
						for _, at := range admitted {
							if wait := at + period - clock; wait > 0 {
								left = append(left, wait.Microseconds())
							}
						}
						if !slices.Equal(s.Left, left) && len(s.Left)+len(left) > 0 {
							t.Fatalf("the log is %v, and should be %v", s.Left, left)
						}
					case "sliding-window":
						this := start.Add(clock).UnixMicro() / period.Microseconds()
						var want counters
						for _, at := range admitted {
							switch start.Add(at).UnixMicro() / period.Microseconds() {
							case this:
								want.Current++
							case this - 1:
								want.Previous++
							}
						}
						want.Left = (this+1)*period.Microseconds() - start.Add(clock).UnixMicro()
						if s.Reset == 0 { // an unused window's place is a guess
							want.Left = s.Counters.Left
						}
						if *s.Counters != want {
							t.Fatalf("the counters are %+v, and should be %+v", *s.Counters, want)
						}
					case "fixed-window":
						if s.Level != float64(capacity-decision.Remaining) {
							t.Fatalf("the level is %v with %+v", s.Level, decision)
						}
					default:
						if math.Abs(s.Level-level) > 1e-3 {
							t.Fatalf("the level is %v, and should be %v", s.Level, level)
						}
					}
				}
			})
		})
	}
}

func TestRecordIsBounded(t *testing.T) {
	clock := time.Duration(0)
	limiter := core.New(core.NewMemory(core.WithClock(func() time.Time { return time.Unix(1e9, 0).Add(clock) })))
	for _, limit := range []core.Quota{core.SlidingLog(3, time.Second), core.SlidingWindow(3, time.Second)} {
		var kept record
		for range 100 {
			clock += 400 * time.Millisecond
			decision, err := limiter.Allow(t.Context(), "key", limit)
			if err != nil {
				t.Fatal(err)
			}
			if decision.Allowed {
				kept.admit(&decision, clock)
			}
		}
		if len(kept.instants) > 3 || len(kept.windows) > 2 {
			t.Errorf("%v keeps %d instants and %d windows", limit, len(kept.instants), len(kept.windows))
		}
	}
}

func TestRecordThatMissesSomethingIsNotVerified(t *testing.T) {
	limiter := core.New(core.NewMemory())
	for _, limit := range []core.Quota{core.SlidingLog(3, time.Minute), core.SlidingWindow(3, time.Minute)} {
		decision, err := limiter.Allow(t.Context(), "key", limit)
		if err != nil {
			t.Fatal(err)
		}
		if s := stateOf(&decision, 0, new(record)); s.Verified {
			t.Errorf("%v: %+v", limit, s)
		}
	}
}

func TestCodeIsWhatMakesTheLimit(t *testing.T) {
	for text, code := range map[string]string{
		"fixed-window 5, 1m":        "ratelimit.FixedWindow(limiter, 5, time.Minute)",
		"sliding-log 3, 90s":        "ratelimit.SlidingLog(limiter, 3, 90*time.Second)",
		"sliding-window 10, 1500ms": "ratelimit.SlidingWindow(limiter, 10, 1500*time.Millisecond)",
		"token-bucket 5, 1/s":       "ratelimit.TokenBucket(limiter, 5, core.PerSecond(1))",
		"leaky 5, 20/m":             "ratelimit.Leaky(limiter, 5, core.PerMinute(20))",
		"shaping 5, 3/2s":           "ratelimit.Shaping(limiter, 5, core.Per(3, 2*time.Second))",
		"gcra 5, 1/250us":           "ratelimit.GCRA(limiter, 5, core.Per(1, 250*time.Microsecond))",
	} {
		limit, err := core.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		a, _ := find(limit.Algorithm())
		if got := a.code(limit); got != code {
			t.Errorf("%s: %s, want %s", text, got, code)
		}
	}
}
