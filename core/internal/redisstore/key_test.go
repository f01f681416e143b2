package redisstore

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/ratelimit/core/internal/call"
	"github.com/weir-go/ratelimit/core/internal/exact"
)

var keySpecs = []*exact.Spec{
	spec(exact.Leaky, 10, 1, time.Second), spec(exact.Leaky, 1, 1, time.Second), spec(exact.TokenBucket, 10, 1, time.Second),
	spec(exact.GCRA, 10, 1, time.Second), spec(exact.Shaping, 10, 1, time.Second), spec(exact.FixedWindow, 10, 10, time.Second),
	spec(exact.SlidingWindow, 10, 10, time.Second), spec(exact.SlidingLog, 10, 10, time.Second),
	named("a", exact.Leaky), named("b", exact.Leaky), named("a", exact.FixedWindow), named("leaky:10:1/s", exact.Leaky), named("shadow", exact.Leaky),
}

// named returns the spec of a limit with a name.
func named(name string, algorithm exact.Algorithm) *exact.Spec {
	p := exact.Params{Algorithm: algorithm, Name: name, Capacity: 10, Events: 10, Period: time.Second}
	return exact.NewSpec(p, exact.NewSpec(p.Identity(), nil))
}

// Different subjects never make one key, whatever is in them, and a key has the
// subject's hash tag, no other brace, only printable ASCII and a bounded length.
func FuzzKeys(f *testing.F) {
	for _, pair := range [][2]string{
		{"a", "b"},
		{"a", "a "},
		{"{a}", "a"},
		{"a}:{b", "a"},
		{"%", "%25"},
		{"é", "%C3%A9"},
		{"\x00", ""},
		{"#", "%23"},
		{strings.Repeat("x", 97), strings.Repeat("x", 98)},
		{strings.Repeat("x", 96), strings.Repeat("x", 97)},
		{"a}:leaky:10:1/s", "a"},
		{strings.Repeat("}", 32), strings.Repeat("}", 33)},
		{strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<20+1)},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		seen := make(map[string]string)
		for _, subject := range []string{one, two} {
			for _, spec := range keySpecs {
				for _, own := range []*exact.Spec{spec, spec.Shadow()} {
					key := nameIn("prefix", subject, own)
					what := subject + "\x00" + spec.String() + map[bool]string{true: " shadow"}[own.IsShadow()]
					if other, taken := seen[key]; taken && other != what {
						t.Fatalf("%q and %q have the key %q", other, what, key)
					}
					seen[key] = what
					checkKey(t, key, subject)
				}
			}
		}
	})
}

// nameIn returns the Redis key of a state.
func nameIn(prefix, key string, spec *exact.Spec) string {
	return (&Store{Config: Config{Prefix: prefix}}).Name(key, spec)
}

func checkKey(t *testing.T, key, subject string) {
	t.Helper()
	tag := "{" + string(call.AppendSubject(nil, subject)) + "}"
	if !strings.HasPrefix(key, "prefix:"+tag+":") || strings.Count(key, "{") != 1 || strings.Count(key, "}") != 1 {
		t.Fatalf("the key %q of %q has not the one hash tag %q", key, subject, tag)
	}
	if len(key) > 256 {
		t.Fatalf("the key of a subject of %d bytes is %d bytes long", len(subject), len(key))
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			t.Fatalf("the key %q has the byte %q", key, key[i])
		}
	}
}

func TestKeyOfALongSubject(t *testing.T) {
	for subject, want := range map[string]string{
		"ip:203.0.113.9":             "ratelimit:{ip:203.0.113.9}:leaky:10:1/s",
		"user:a b":                   "ratelimit:{user:a%20b}:leaky:10:1/s",
		strings.Repeat("secret", 30): "ratelimit:{#rlEu5rHv3cg1bwL3m-Z419gpqWXkOWtfjCZh7EI5XAU}:leaky:10:1/s",
	} {
		if got := nameIn("ratelimit", subject, keySpecs[0]); got != want {
			t.Errorf("the key of %q is %q, want %q", subject, got, want)
		}
	}
}
