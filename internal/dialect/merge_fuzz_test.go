package dialect_test

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"

	"github.com/weir-go/ratelimit/headers"
	"github.com/weir-go/ratelimit/internal/dialect"
)

// FuzzMerge holds that whatever upstream says, the result parses, has no name
// twice, and begins with ours; and that what is well-formed is not lost. Joined with
// another dialect of one of the fields, the other one is still a list of names.
func FuzzMerge(f *testing.F) {
	for _, pair := range [][2]string{
		{`"b";q=5;w=60`, `"b";r=4;t=60`},
		{`a;q=5, "A-2";q=6`, `A;r=4`},
		{`"b";q=5;pk=:YQ==:;x="\\\"";y=?1;z=-1.5;u=a:b/c`, `"b";r=1.25`},
		{`"b"; q=5 ,` + "\t" + `c`, `"b";r=999999999999999`},
		{`b;pk=:YQ:`, `("b");r=1`},
		{`b;d=@1;e=%"x"`, `"b\x";r`},
		{`"b";q=5;d=@-1;e=%"f%c3%bc"`, ""},
		{"", `"b";r=1;e=%"%"`},
		{"50;w=60, 1;w=2", `"b";r=1`},
		{"", ","},
		{`"naïve"`, "\x00"},
		{`:YQ==:;r=1`, `1;r=1`},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, quotas, limits string) {
		upstream := http.Header{"Ratelimit-Policy": strings.Split(quotas, "\n"), "Ratelimit": strings.Split(limits, "\n")}
		wellFormed := simple(t, upstream["Ratelimit"]) && simple(t, upstream["Ratelimit-Policy"])
		merged := mergedInto(upstream, headers.Draft)
		for _, field := range []string{"Ratelimit", "Ratelimit-Policy"} {
			names := mergedNames(t, merged[field])
			if wellFormed && len(names) != len(namesOf(t, upstream[field]))+1 {
				t.Errorf("of %q there is left %q", upstream, merged)
			}
		}

		merged = mergedInto(upstream, headers.Join(headers.Draft, headers.Draft6))
		mergedNames(t, merged["Ratelimit"])
		mergedQuotas(t, merged["Ratelimit-Policy"])
	})
}

// mergedInto merges what w has written about a request with upstream's header.
func mergedInto(upstream http.Header, w headers.Writer) http.Header {
	own, merged := http.Header{}, upstream.Clone()
	w.Write(own, policies(first))
	dialect.Merge(w, own, merged)
	return merged
}

// mergedNames returns the names in a list that begins with ours and has none twice.
func mergedNames(t *testing.T, lines []string) map[string]bool {
	t.Helper()
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		t.Fatalf("%q: %v", lines, err)
	}
	names := map[string]bool{}
	for _, m := range list {
		name, ok := m.(httpsfv.Item).Value.(string)
		if !ok || names[strings.ToLower(name)] {
			t.Fatalf("%q: %v is no name of its own", lines, m)
		}
		names[strings.ToLower(name)] = true
	}
	if list[0].(httpsfv.Item).Value != "a" {
		t.Errorf("%q does not begin with ours", lines)
	}
	return names
}

// parameter returns an Integer that is a parameter of an Item.
func parameter(item httpsfv.Item, key string) (int64, bool) {
	value, _ := item.Params.Get(key)
	n, ok := value.(int64)
	return n, ok
}

// mergedQuotas holds that a list has ours, none twice and the window of each.
func mergedQuotas(t *testing.T, lines []string) {
	t.Helper()
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		t.Fatalf("%q: %v", lines, err)
	}
	told := map[int64]bool{}
	for _, m := range list {
		q, ok := m.(httpsfv.Item).Value.(int64)
		if !ok || q < 0 || told[q] {
			t.Fatalf("%q: %v is no quota of its own", lines, m)
		}
		if w, ok := parameter(m.(httpsfv.Item), "w"); !ok || w < 1 {
			t.Errorf("%q: %d has no window", lines, q)
		}
		told[q] = true
	}
	if !told[1] {
		t.Errorf("%q lacks ours", lines)
	}
}

// namesOf returns the names in a List of upstream's.
func namesOf(t *testing.T, lines []string) map[string]bool {
	t.Helper()
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range list {
		names[strings.ToLower(m.(httpsfv.Item).Value.(string))] = true
	}
	return names
}

// FuzzMergeQuotas holds that whatever upstream sends, the fields of draft 6 parse,
// those of one policy are of one side, and the list has all of ours.
func FuzzMergeQuotas(f *testing.F) {
	for _, seed := range []struct{ limit, remaining, reset, quotas string }{
		{"50", "8", "7", `50;w=60, 100;w=60;comment="a, b"`},
		{"50", "10", "7", "1;w=2\n01;w=3"},
		{"50;x", "0;y", " 7", `1.5;w=1, -1;w=1, -0;w=1;w=0`},
		{"abc", "0", "7", `"b";q=5`},
		{"", "few", "7", `50`},
		{"50", "-0", "", ","},
		{"50", "+0", "7\n7", "50;w=@1, 60;w=1.0"},
		{"9999999999999999", "0", "7", "9999999999999999;w=1"},
	} {
		f.Add(seed.limit, seed.remaining, seed.reset, seed.quotas)
	}
	f.Fuzz(func(t *testing.T, limit, remaining, reset, quotas string) {
		upstream := http.Header{"Ratelimit-Policy": strings.Split(quotas, "\n")}
		fill(upstream, "Ratelimit-Limit", limit, "Ratelimit-Remaining", remaining, "Ratelimit-Reset", reset)
		merged := mergedInto(upstream, headers.Draft6)
		mergedQuotas(t, merged["Ratelimit-Policy"])
		sides(t, merged, upstream, map[string]string{"Ratelimit-Limit": "10", "Ratelimit-Remaining": "9", "Ratelimit-Reset": "1"}, func(lines []string) (int64, bool) {
			item, err := httpsfv.UnmarshalItem(lines)
			n, ok := item.Value.(int64)
			return n, err == nil && ok
		}, "Ratelimit-Remaining")
	})
}

// FuzzMergeLegacy holds that whatever upstream sends, the fields are digits, and of
// one side.
func FuzzMergeLegacy(f *testing.F) {
	for _, seed := range []struct{ limit, remaining, reset, used string }{
		{"50", "8", "7", "42"},
		{"50", "10", "7", ""},
		{"", "0", "", ""},
		{"abc", "0", "2026-01-01T00:00:00Z", "few"},
		{"50", "+0", "1.5", "-0"},
		{"9999999999999999", "0;x", "7\n7", "0x1"},
	} {
		f.Add(seed.limit, seed.remaining, seed.reset, seed.used)
	}
	f.Fuzz(func(t *testing.T, limit, remaining, reset, used string) {
		upstream := http.Header{}
		fill(upstream, "X-Ratelimit-Limit", limit, "X-Ratelimit-Remaining", remaining, "X-Ratelimit-Reset", reset, "X-Ratelimit-Used", used)
		own := map[string]string{"X-Ratelimit-Limit": "10", "X-Ratelimit-Remaining": "9", "X-Ratelimit-Reset": "1", "X-Ratelimit-Used": ""}
		sides(t, mergedInto(upstream, headers.Legacy), upstream, own, func(lines []string) (int64, bool) {
			text := strings.Trim(lines[0], " \t")
			n, err := strconv.ParseInt(text, 10, 64)
			return n, err == nil && len(lines) == 1 && strings.Trim(text, "0123456789") == ""
		}, "X-Ratelimit-Remaining")
	})
}

// fill sets the fields that have a value. Its lines are those of the field.
func fill(h http.Header, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			h[pairs[i]] = strings.Split(pairs[i+1], "\n")
		}
	}
}

// sides holds that fields are all ours, or all upstream's, which has less remaining
// then; and that each is a count.
func sides(t *testing.T, merged, upstream http.Header, own map[string]string, count func([]string) (int64, bool), remaining string) {
	t.Helper()
	theirs := merged.Get(remaining) != own[remaining]
	for name, value := range own {
		want := []string{value}
		if theirs {
			want = upstream[name]
		} else if value == "" {
			want = nil
		}
		if !slices.Equal(merged[name], want) {
			t.Fatalf("%s: %q, want %q: %q", name, merged[name], want, merged)
		}
		if len(want) == 0 {
			continue
		}
		n, ok := count(want)
		if !ok || n < 0 || name == remaining && n > 9 {
			t.Errorf("%s: %q is sent", name, want)
		}
	}
}

// FuzzMergeDictionary holds that whatever upstream sends, the fields of draft 7 parse,
// and are upstream's where that has less remaining, and else ours.
func FuzzMergeDictionary(f *testing.F) {
	for _, seed := range [][2]string{
		{"limit=50, remaining=8, reset=7", "50;w=60"},
		{"limit=50, remaining=8\nreset=7", "50;w=60\n90;w=600"},
		{"limit=50, remaining=8, reset=7, remaining=10", "50;w=60"},
		{`limit=50;x="\"", remaining=-0;y=:YQ==:, reset=7,` + "\t" + `l=(a "b";c  ?0 );d, ok;e=@1`, "((("},
		{`limit=50, note=%"a, remaining=0", remaining=40, reset=5`, ""},
		{`limit="50", remaining=1.0, reset=@7`, `"b";q=5`},
		{`limit=50, remaining=0, reset=7, l=("a""b")`, "50"},
		{`limit=50, remaining=0, reset=7, l=(`, "50;w=0"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, limits, quotas string) {
		upstream := http.Header{"Ratelimit": strings.Split(limits, "\n"), "Ratelimit-Policy": strings.Split(quotas, "\n")}
		merged := mergedInto(upstream, headers.Draft7)
		if _, err := httpsfv.UnmarshalList(merged["Ratelimit-Policy"]); err != nil {
			t.Errorf("%q: %v", merged, err)
		}
		remaining, ok := remainingOf(upstream["Ratelimit"])
		if !ok || remaining >= 9 {
			if want := mergedInto(http.Header{}, headers.Draft7); !maps.EqualFunc(merged, want, slices.Equal) {
				t.Errorf("of %q there is %q, want ours", upstream, merged)
			}
			return
		}
		if left, ok := remainingOf(merged["Ratelimit"]); !ok || left != remaining || len(merged["Ratelimit"]) != 1 {
			t.Errorf("of %q there is %q, want upstream's", upstream, merged)
		}
	})
}

// remainingOf reads a Dictionary of draft 7 by another parser.
func remainingOf(lines []string) (remaining int64, ok bool) {
	members, err := httpsfv.UnmarshalDictionary(lines)
	if err != nil {
		return 0, false
	}
	for _, key := range []string{"limit", "reset", "remaining"} {
		member, _ := members.Get(key)
		item, _ := member.(httpsfv.Item)
		if remaining, ok = item.Value.(int64); !ok || remaining < 0 {
			return 0, false
		}
	}
	return remaining, true
}

// simple reports whether the lines are a List of names in canonical form, or nothing,
// which may not be lost.
func simple(t *testing.T, lines []string) bool {
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil || len(list) > 64 {
		return false
	}
	for _, m := range list {
		item, ok := m.(httpsfv.Item)
		if !ok {
			return false
		}
		if _, ok := item.Value.(string); !ok {
			return false
		}
	}
	canonical, err := httpsfv.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return len(lines) == 1 && lines[0] == canonical
}
