package headers_test

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
	"github.com/weir-go/ratelimit/internal/dialect"
)

func TestDraft11Bytes(t *testing.T) {
	named := func(name string, d core.Decision) headers.Outcome { return headers.Outcome{Name: name, Decision: d} }
	checkGolden(t, headers.Draft, []golden{
		{"no policies", nil, fields{}},
		{"nothing used", policies(fresh), fields{
			"RateLimit-Policy": `"a";q=1;w=1;weir-burst=10`,
			"RateLimit":        `"a";r=10;t=10`,
		}},
		{"bucket, first", policies(first), fields{
			"RateLimit-Policy": `"a";q=1;w=1;weir-burst=10`,
			"RateLimit":        `"a";r=9;t=9`,
		}},
		{"bucket, last", policies(last), fields{
			"RateLimit-Policy": `"a";q=1;w=1;weir-burst=10`,
			"RateLimit":        `"a";r=0;t=1`,
		}},
		{"bucket, full", policies(full), fields{
			"RateLimit-Policy": `"a";q=1;w=1;weir-burst=10`,
			"RateLimit":        `"a";r=0;t=1`,
		}},
		{"never", policies(never), fields{
			"RateLimit-Policy": `"a";q=1;w=1;weir-burst=10`,
			"RateLimit":        `"a";r=8`,
		}},
		{"window, opened", policies(opened), fields{
			"RateLimit-Policy": `"a";q=100;w=60`,
			"RateLimit":        `"a";r=99;t=60`,
		}},
		{"window, about to end with much left", policies(closing), fields{
			"RateLimit-Policy": `"a";q=100;w=60`,
			"RateLimit":        `"a";r=40;t=24`,
		}},
		{"window, closed", policies(closed), fields{
			"RateLimit-Policy": `"a";q=100;w=60`,
			"RateLimit":        `"a";r=0;t=18`,
		}},
		{"two policies, one denies", policies(first, closed), fields{
			"RateLimit-Policy": `"a";q=1;w=1;weir-burst=10, "b";q=100;w=60`,
			"RateLimit":        `"a";r=9;t=9, "b";r=0;t=18`,
		}},
		{"no t is longer than Retry-After", policies(full, opened, first, fresh), fields{
			"RateLimit-Policy": `"a";q=1;w=1;weir-burst=10, "b";q=100;w=60, "c";q=1;w=1;weir-burst=10, "d";q=1;w=1;weir-burst=10`,
			"RateLimit":        `"a";r=0;t=1, "b";r=99, "c";r=9, "d";r=10`,
		}},
		{"where no wait can help, no t is told", policies(never, opened), fields{
			"RateLimit-Policy": `"a";q=1;w=1;weir-burst=10, "b";q=100;w=60`,
			"RateLimit":        `"a";r=8, "b";r=99`,
		}},
		{"nothing used and nothing to wait for", policies(core.Decision{Allowed: true, Limit: bucket}), fields{
			"RateLimit-Policy": `"a";q=1;w=1;weir-burst=10`,
			"RateLimit":        `"a";r=0;t=0`,
		}},
		{"name with quote and backslash", []headers.Outcome{named(`we"ird\x`, first)}, fields{
			"RateLimit-Policy": `"we\"ird\\x";q=1;w=1;weir-burst=10`,
			"RateLimit":        `"we\"ird\\x";r=9;t=9`,
		}},
		{"name that no field can carry", []headers.Outcome{named("naïve", first), named("line\r\nSet-Cookie: a=b", first), named("b", opened), named("del\x7f", first)}, fields{
			"RateLimit-Policy": `"b";q=100;w=60`,
			"RateLimit":        `"b";r=99;t=60`,
		}},
		{"units", []headers.Outcome{{Name: "a", Unit: "content-bytes", Decision: first}, {Name: "b", Unit: `"to\kens"`, Decision: opened}, {Name: "c", Decision: opened}}, fields{
			"RateLimit-Policy": `"a";q=1;qu="content-bytes";w=1;weir-burst=10, "b";q=100;qu="\"to\\kens\"";w=60, "c";q=100;w=60`,
			"RateLimit":        `"a";r=9;t=9, "b";r=99;t=60, "c";r=99;t=60`,
		}},
		{"a unit without a window", []headers.Outcome{{Name: "a", Unit: "concurrent-requests", Decision: core.Decision{Allowed: true, Limit: endless, Remaining: 1}}}, fields{
			"RateLimit-Policy": `"a";q=5;qu="concurrent-requests"`,
			"RateLimit":        `"a";r=1;t=3153600000`,
		}},
		{"places, some left", []headers.Outcome{{Name: "a", Unit: "concurrent-requests", Decision: places(true, 3)}, named("b", opened)}, fields{
			"RateLimit-Policy": `"a";q=20;qu="concurrent-requests", "b";q=100;w=60`,
			"RateLimit":        `"a";r=3, "b";r=99;t=60`,
		}},
		{"places, none left", policies(places(false, 0)), fields{
			"RateLimit-Policy": `"a";q=20`,
			"RateLimit":        `"a";r=0`,
		}},
		{"unit that no field can carry", []headers.Outcome{{Name: "a", Unit: "Bäume", Decision: first}, named("b", opened)}, fields{
			"RateLimit-Policy": `"b";q=100;w=60`,
			"RateLimit":        `"b";r=99;t=60`,
		}},
		{"only names that no field can carry", []headers.Outcome{named("\t", first)}, fields{}},
		{"the zero Decision", policies(core.Decision{}), fields{
			"RateLimit-Policy": `"a";q=0`,
			"RateLimit":        `"a";r=0;t=1`,
		}},
	})
}

func TestValidateTellsWhatNoFieldCanCarry(t *testing.T) {
	for _, c := range []struct {
		policy headers.Outcome
		want   string
	}{
		{headers.Outcome{}, ""},
		{headers.Outcome{Name: `we"ird\x`, Unit: "a few tokens"}, ""},
		{headers.Outcome{Name: "naïve"}, `headers: the name "naïve" is not printable ASCII`},
		{headers.Outcome{Name: "a", Unit: "a\nb"}, `headers: the unit "a\nb" is not printable ASCII`},
	} {
		got := ""
		if err := c.policy.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.policy, got, c.want)
		}
	}
}

// A policy keeps its unit in prepared, joined and merged fields. The older dialects do not
// write it.
func TestUnitsAreKept(t *testing.T) {
	list := policies(first, opened)
	list[0].Unit, list[0].Key = "tokens", "user:42"
	for name, w := range map[string]headers.Writer{
		"Draft":            headers.Draft,
		"DraftPartitioned": headers.DraftPartitioned(partitionSecret),
		"Prepare":          dialect.Prepare(headers.Draft, list),
		"Join":             headers.Join(headers.Legacy, headers.Draft),
		"Prepare and Join": dialect.Prepare(headers.Join(headers.RateLimitedFor, headers.Draft), list),
	} {
		h := http.Header{}
		w.Write(h, list)
		upstream := http.Header{"Ratelimit-Policy": {`"a";q=5;w=60`}}
		dialect.Merge(w, h, upstream)
		for what, h := range map[string]http.Header{"written": h, "merged": upstream} {
			quotas, err := httpsfv.UnmarshalList(h.Values("RateLimit-Policy"))
			if err != nil {
				t.Fatal(err)
			}
			for i, quota := range quotas {
				unit, ok := quota.(httpsfv.Item).Params.Get("qu")
				if ok != (i == 0) || ok && unit != "tokens" {
					t.Errorf("%s, %s: %q, want tokens for the first of them alone", name, what, h)
				}
			}
			if strings.Contains(h.Get("RateLimit"), "qu=") {
				t.Errorf("%s, %s: %q, want no unit in RateLimit", name, what, h)
			}
		}
	}
	for name, w := range map[string]headers.Writer{"Draft7": headers.Draft7, "Draft6": headers.Draft6, "Legacy": headers.Legacy} {
		h, plain := http.Header{}, http.Header{}
		w.Write(h, list)
		w.Write(plain, policies(first, opened))
		if !maps.EqualFunc(h, plain, slices.Equal) {
			t.Errorf("%s: %q, want %q", name, h, plain)
		}
	}
}

func TestEffectiveWindow(t *testing.T) {
	for _, c := range []struct {
		name string
		d    core.Decision
		want string
	}{
		{"the next unit rounds up", core.Decision{Allowed: true, Limit: bucket, NextAfter: 1_000_001 * time.Microsecond}, "r=0;t=2"},
		{"the next unit is further than the pace", core.Decision{Allowed: true, Limit: window, Remaining: 1, NextAfter: 30 * time.Second}, "r=1;t=30"},
		{"the pace rounds up", core.Decision{Allowed: true, Limit: core.Leaky(10, core.PerSecond(3)), Remaining: 4}, "r=4;t=2"},
		{"the pace divides", core.Decision{Allowed: true, Limit: core.Leaky(10, core.PerSecond(3)), Remaining: 9}, "r=9;t=3"},
		{"the pace without whole seconds", core.Decision{Allowed: true, Limit: endless, Remaining: 1}, "r=1;t=3153600000"},
		{"a product of more than 64 bits", core.Decision{Allowed: true, Limit: core.Leaky(1<<40, core.PerHour(7)), Remaining: 1 << 40}, "r=1099511627776;t=565463122856229"},
		{"clamped", core.Decision{Allowed: true, Limit: core.Leaky(1<<53-1, core.PerSecond(1)), Remaining: 1<<53 - 1}, "r=999999999999999;t=999999999999999"},
		{"more than 64 bits of seconds", core.Decision{Allowed: true, Limit: core.Leaky(math.MaxInt, core.Per(1, math.MaxInt64)), Remaining: math.MaxInt}, "r=999999999999999;t=999999999999999"},
		{"what is left of a day lasts to its end", core.Decision{Allowed: true, Limit: core.Calendar(100, core.Daily("UTC")), Remaining: 99, NextAfter: time.Hour}, "r=99;t=3600"},
		{"what is left of a month lasts to its end", core.Decision{Allowed: true, Limit: core.Calendar(100, core.Monthly("UTC")), Remaining: 99, NextAfter: 1_500_000 * time.Microsecond}, "r=99;t=2"},
		{"a day of which nothing is used", core.Decision{Allowed: true, Limit: core.Calendar(100, core.Daily("UTC")), Remaining: 100}, "r=100;t=86400"},
		{"a month of which nothing is used", core.Decision{Allowed: true, Limit: core.Calendar(100, core.Monthly("UTC")), Remaining: 100}, "r=100"},
		{"a denial of a month", core.Decision{Limit: core.Calendar(100, core.Monthly("UTC")), RetryAfter: time.Hour, NextAfter: time.Hour}, "r=0;t=3600"},
		{"a denial: rounded up", core.Decision{Limit: bucket, RetryAfter: 1_000_001 * time.Microsecond}, "r=0;t=2"},
		{"a denial: at least 1", core.Decision{Limit: bucket, RetryAfter: 400 * time.Millisecond}, "r=0;t=1"},
		{"a denial with some left: no longer than Retry-After", core.Decision{Limit: bucket, Remaining: 8, RetryAfter: time.Second}, "r=8;t=1"},
		{"nonsense is brought into range", core.Decision{Allowed: true, Limit: bucket, Remaining: -1, NextAfter: -time.Hour}, "r=0;t=0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := http.Header{}
			headers.Draft.Write(h, policies(c.d))
			if got, want := h.Get("RateLimit"), `"a";`+c.want; got != want {
				t.Errorf("RateLimit %s, want %s", got, want)
			}
		})
	}
}
