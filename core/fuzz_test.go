package core_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// A limit of any numbers says why it is none, or keeps to them.
func FuzzLimits(f *testing.F) {
	f.Add(10, 1, int64(time.Second), 1, "")
	f.Add(1_000_000_000, 1_000_000, int64(time.Second), 1_000_000_000, "big")
	f.Add(0, 1, int64(time.Second), 0, "nothing")
	f.Add(0, -1, int64(-1), -1, "no name")
	f.Add(1, 1, int64(100*365*24*time.Hour), 1, "*")
	f.Add(1<<62, 1<<62, int64(1)<<62, 1<<62, "a")
	f.Add(3, 7, int64(1), 2, "n")
	f.Fuzz(func(t *testing.T, capacity, events int, period int64, cost int, name string) {
		d := time.Duration(period)
		for _, limit := range []core.Quota{
			core.Leaky(capacity, core.Per(events, d)), core.Shaping(capacity, core.PerSecond(events)),
			core.TokenBucket(capacity, core.Per(events, d)), core.GCRA(capacity, core.PerDay(events)),
			core.FixedWindow(capacity, d), core.SlidingWindow(capacity, d), core.SlidingLog(min(capacity, 1000), d),
			core.Calendar(capacity, core.Every(d).Jitter(d/3)), core.Calendar(capacity, core.Monthly("Europe/Berlin").From(events).Jitter(d)),
		} {
			limit := limit.Named(name)
			text, err := limit.MarshalText()
			if invalid := limit.Validate(); (invalid == nil) != (err == nil) {
				t.Fatalf("%v is as valid as %v, and its text as %v", limit, invalid, err)
			}
			if err == nil && (limit.Capacity() < 1 || limit.Capacity() > capacity) {
				t.Fatalf("%v is valid, of a capacity of %d", limit, capacity)
			}
			limiter := core.New(core.NewMemory())
			decision, asked := limiter.AllowN(t.Context(), "key", limit, cost)
			if (err != nil || cost < 0) != (asked != nil) {
				t.Fatalf("%v is as valid as %v, and its answer as %v", limit, err, asked)
			}
			if asked != nil {
				continue
			}
			if again, err := core.ParseLimit(string(text)); err != nil || again != limit {
				t.Fatalf("%q is read as %v, %v", text, again, err)
			}
			if fits := cost <= limit.Capacity(); decision.Allowed != (fits || cost == 0) ||
				fits && decision.Remaining != limit.Capacity()-cost || decision.RetryAfter < 0 || decision.ResetAfter < 0 {
				t.Fatalf("%v: %+v for a cost of %d", limit, decision, cost)
			}
		}
	})
}

// A list of any checks is an error that changes nothing, or is decided.
func FuzzChecks(f *testing.F) {
	f.Add("a", "a", 1, 2, true)
	f.Add("", "b", 1, 1, false)
	f.Add("a", "b", -1, 1<<62, false)
	f.Add("a", "a", 1<<62, 1<<62, true)
	f.Fuzz(func(t *testing.T, first, second string, one, other int, shadow bool) {
		limiter := core.New(core.NewMemory())
		limit, none := core.FixedWindow(5, time.Hour), core.Quota{}
		checks := []core.Check{{Key: first, Limit: limit, Cost: one}, {Key: second, Limit: limit, Cost: other, Shadow: shadow}}
		if _, err := limiter.AllowAll(t.Context(), append(checks, core.Check{Key: "c", Limit: none})...); err == nil {
			t.Fatal("the zero limit was asked")
		}
		decisions, err := limiter.AllowAll(t.Context(), checks...)
		if nonsense := first == "" || second == "" || one < 0 || other < 0; nonsense != (err != nil) {
			t.Fatalf("%+v: %v", checks, err)
		}
		if err != nil {
			return
		}
		charged := map[string]int{}
		if passed := decisions[0].Allowed && (shadow || decisions[1].Allowed); passed {
			charged[first] += one
			if !shadow {
				charged[second] += other
			}
		}
		for _, key := range []string{first, second} {
			d, err := limiter.Peek(t.Context(), key, limit)
			if err != nil || d.Remaining != 5-charged[key] {
				t.Fatalf("%+v, %v after %+v, want %d remaining", d, err, decisions, 5-charged[key])
			}
		}
	})
}

// OpenStore accepts or rejects a URL without a word about the password in it, and without
// sending anything.
func FuzzOpen(f *testing.F) {
	for _, url := range []string{
		"memory:", "memory://x", "redis://localhost:6379", "rediss://user:swordfish@host/0?pool_size=1", "unix:///run/redis.sock?db=1",
		"redis://a:1?addr=b:2&addr=c:3", "redis://user:swordfish@a:1?master_name=m&addr=b:2&db=x", "redis://user:swordfish@host:6379/no",
		"redis://:swordfish@host:port", "redis://host?read_timeout=swordfish", "http://host", "", "redis:", "%zz", "redis://[::1]:6379/1?protocol=9",
	} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "idle") { // such a client connects by itself
			t.Skip()
		}
		limiter, err := core.Open(text)
		if err != nil {
			if once := strings.Count(text, "swordfish") == 1; once && strings.Contains(text, "swordfish@") && strings.Contains(err.Error(), "swordfish") {
				t.Errorf("%q is refused with the password in %q", text, err)
			}
			if u, parseErr := url.Parse(text); parseErr == nil && u.User != nil {
				if password, _ := u.User.Password(); len(password) > 7 && strings.Contains(err.Error(), password) {
					t.Errorf("%q is refused with the password in %q", text, err)
				}
			}
			return
		}
		if err := limiter.Close(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if _, err := limiter.Allow(context.Background(), "key", core.Leaky(1, core.PerSecond(1))); core.FailureOf(err) != core.Closed {
			t.Errorf("%q answers after it was closed: %v", text, errors.Unwrap(err))
		}
	})
}
