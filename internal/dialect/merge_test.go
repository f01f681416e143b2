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

// lines is a header of an upstream server, with lines as "Name: value".
func lines(all ...string) http.Header {
	h := http.Header{}
	for _, line := range all {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

func TestMerge(t *testing.T) {
	const (
		ownPolicy = `Ratelimit-Policy: "a";q=1;w=1;weir-burst=10`
		ownLimit  = `Ratelimit: "a";r=9;t=9`
	)
	var (
		legacy = []string{"X-Ratelimit-Limit: 10", "X-Ratelimit-Remaining: 9", "X-Ratelimit-Reset: 1"}
		draft7 = []string{"Ratelimit: limit=10, remaining=9, reset=1", "Ratelimit-Policy: 1;w=1;weir-burst=10"}
		draft6 = []string{"Ratelimit-Limit: 10", "Ratelimit-Remaining: 9", "Ratelimit-Reset: 1", "Ratelimit-Policy: 1;w=1;weir-burst=10"}
	)
	for _, c := range []struct {
		name           string
		w              headers.Writer
		upstream, want []string
	}{
		{"upstream says nothing", headers.Draft11, nil, []string{ownPolicy, ownLimit}},
		{"other fields stay", headers.Draft11, []string{"Vary: Origin", "Retry-After: 7", "X-Ratelimit-Limit: 5"}, []string{ownPolicy, ownLimit, "Vary: Origin", "Retry-After: 7", "X-Ratelimit-Limit: 5"}},
		{
			"the lists become one", headers.Draft11,
			[]string{`RateLimit-Policy: "day";q=5;w=86400`, `RateLimit: "day";r=4;t=60`},
			[]string{ownPolicy + `, "day";q=5;w=86400`, ownLimit + `, "day";r=4;t=60`},
		},
		{
			"each with its unit", headers.Draft11,
			[]string{`RateLimit-Policy: "day";q=5;qu="content-bytes";w=86400`, `RateLimit: "day";r=4;t=60`},
			[]string{ownPolicy + `, "day";q=5;qu="content-bytes";w=86400`, ownLimit + `, "day";r=4;t=60`},
		},
		{
			"several lines, in another notation", headers.Draft11,
			[]string{`RateLimit-Policy: "day"; q=5;  w=86400`, `RateLimit-Policy: hour;q=1;x;y=?0;z=-1.5;pk=:YQ==:;s="\"";t=a/b`, `RateLimit: hour;r=1 ,	"day";r=4`},
			[]string{ownPolicy + `, "day";q=5;w=86400, "hour";q=1;x;y=?0;z=-1.5;pk=:YQ==:;s="\"";t=a/b`, ownLimit + `, "hour";r=1, "day";r=4`},
		},
		{
			"a name that is taken gets a number, the same in both fields", headers.Draft11,
			[]string{`RateLimit-Policy: "b";q=2, "A";q=5`, `RateLimit: "A";r=4`},
			[]string{ownPolicy + `, "b";q=2, "A-2";q=5`, ownLimit + `, "A-2";r=4`},
		},
		{
			"and none that upstream uses", headers.Draft11,
			[]string{`RateLimit-Policy: "a";q=5, "a-2";q=6`, `RateLimit: "a";r=4, "a-2";r=5`},
			[]string{ownPolicy + `, "a-3";q=5, "a-2";q=6`, ownLimit + `, "a-3";r=4, "a-2";r=5`},
		},
		{
			"of two that upstream calls the same the first stays", headers.Draft11,
			[]string{`RateLimit-Policy: "b";q=5, "B";q=6`, `RateLimit: "b";r=4, "b";r=5`},
			[]string{ownPolicy + `, "b";q=5`, ownLimit + `, "b";r=4`},
		},
		{
			"a Date and a Display String are parameters like any other", headers.Draft11,
			[]string{`RateLimit-Policy: "day";q=5;until=@-1659578233;said=%"f%c3%bc \"`, `RateLimit: "day";r=4;at=@0`},
			[]string{ownPolicy + `, "day";q=5;until=@-1659578233;said=%"f%c3%bc \"`, ownLimit + `, "day";r=4;at=@0`},
		},
		{"a Date has no fraction", headers.Draft11, []string{`RateLimit: "day";r=4;at=@1.5`}, []string{ownPolicy, ownLimit}},
		{"a Display String is UTF-8", headers.Draft11, []string{`RateLimit: "day";r=4;said=%"%c3"`}, []string{ownPolicy, ownLimit}},
		{"in lower-case digits", headers.Draft11, []string{`RateLimit: "day";r=4;said=%"%C3%BC"`}, []string{ownPolicy, ownLimit}},
		{
			"upstream tells of its policies only", headers.Draft11,
			[]string{`RateLimit-Policy: "day";q=5, "A";q=3`},
			[]string{ownPolicy + `, "day";q=5, "A-2";q=3`, ownLimit},
		},
		{
			"or only of what is left", headers.Draft11,
			[]string{`RateLimit: "day";r=4, "A";r=3`},
			[]string{ownPolicy, ownLimit + `, "day";r=4, "A-2";r=3`},
		},
		{"what is malformed does not spoil ours", headers.Draft11, []string{`RateLimit: "b";r=4,`, `RateLimit-Policy: "b";q=5`}, []string{ownPolicy, ownLimit}},
		{"nor another dialect", headers.Draft11, []string{`RateLimit: limit=10, remaining=5, reset=1`, `RateLimit-Policy: 10;w=1`}, []string{ownPolicy, ownLimit}},
		{"nor inner lists", headers.Draft11, []string{`RateLimit: ("b");r=4`, `RateLimit-Policy: "b";q=5`}, []string{ownPolicy, ownLimit}},
		{
			"values come out in their canonical notation", headers.Draft11,
			[]string{`RateLimit: "day";r=04;x=1.500;y=?1;z=:YR==:;said=%"%61"`},
			[]string{ownPolicy, ownLimit + `, "day";r=4;x=1.5;y;z=:YQ==:;said=%"a"`},
		},
		{
			"of a parameter that comes twice the last value stays", headers.Draft11,
			[]string{`RateLimit: "day";r=4;x=1;r=5`},
			[]string{ownPolicy, ownLimit + `, "day";r=5;x=1`},
		},
		{
			"the largest numbers stay as they are", headers.Draft11,
			[]string{`RateLimit: "day";r=999999999999999;x=-999999999999999;y=999999999999.999;z=@999999999999999`},
			[]string{ownPolicy, ownLimit + `, "day";r=999999999999999;x=-999999999999999;y=999999999999.999;z=@999999999999999`},
		},
		{"larger ones are malformed", headers.Draft11, []string{`RateLimit: "day";r=9999999999999999`}, []string{ownPolicy, ownLimit}},
		{"nor too much", headers.Draft11, []string{`RateLimit: "b";r=4;x="` + strings.Repeat("x", 16<<10) + `"`}, []string{ownPolicy, ownLimit}},
		{"nor too many", headers.Draft11, []string{`RateLimit: ` + strings.Repeat(`"b";r=4, `, 64) + `"b";r=4`}, []string{ownPolicy, ownLimit}},

		{"legacy: ours is tighter", headers.Legacy, []string{"X-RateLimit-Limit: 50", "X-RateLimit-Remaining: 10", "X-RateLimit-Reset: 7", "X-RateLimit-Used: 40"}, legacy},
		{"legacy: both are as tight", headers.Legacy, []string{"X-RateLimit-Limit: 50", "X-RateLimit-Remaining: 9"}, legacy},
		{
			"legacy: upstream is tighter", headers.Legacy,
			[]string{"X-RateLimit-Limit: 50", "X-RateLimit-Remaining: 8", "X-RateLimit-Reset: 7", "X-RateLimit-Used: 42"},
			[]string{"X-Ratelimit-Limit: 50", "X-Ratelimit-Remaining: 8", "X-Ratelimit-Reset: 7", "X-Ratelimit-Used: 42"},
		},
		{"legacy: two lines", headers.Legacy, []string{"X-RateLimit-Remaining: 8", "X-RateLimit-Remaining: 7"}, legacy},
		{"legacy: two limits", headers.Legacy, []string{"X-RateLimit-Remaining: 8", "X-RateLimit-Limit: 50", "X-RateLimit-Limit: 50"}, legacy},
		{"legacy: no number", headers.Legacy, []string{"X-RateLimit-Remaining: few"}, legacy},
		{"legacy: negative", headers.Legacy, []string{"X-RateLimit-Remaining: -1"}, legacy},
		{"legacy: a sign", headers.Legacy, []string{"X-RateLimit-Remaining: +0"}, legacy},
		{"legacy: a parameter", headers.Legacy, []string{"X-RateLimit-Remaining: 0;x=1"}, legacy},
		{"legacy: a limit that is no number", headers.Legacy, []string{"X-RateLimit-Limit: abc", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1"}, legacy},
		{"legacy: more than there can be", headers.Legacy, []string{"X-RateLimit-Limit: 9999999999999999999999", "X-RateLimit-Remaining: 0"}, legacy},
		{"legacy: a date", headers.Legacy, []string{"X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 2026-01-01T00:00:00Z"}, legacy},
		{"legacy: two resources", headers.Legacy, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Resource: a", "X-RateLimit-Resource: b"}, legacy},
		{
			"draft 7: upstream is tighter", headers.Draft7,
			[]string{`RateLimit: limit=50, remaining=8, reset=7`, `RateLimit-Policy: 50;w=60`},
			[]string{`Ratelimit: limit=50, remaining=8, reset=7`, `Ratelimit-Policy: 50;w=60`},
		},
		{
			"draft 7: ours is tighter", headers.Draft7,
			[]string{`RateLimit: limit=50, remaining=10, reset=7`, `RateLimit-Policy: 50;w=60`},
			[]string{`Ratelimit: limit=10, remaining=9, reset=1`, `Ratelimit-Policy: 1;w=1;weir-burst=10`},
		},
		{"draft 7: another dialect", headers.Draft7, []string{`RateLimit: "b";r=4`, `RateLimit-Policy: "b";q=5`}, draft7},
		{"draft 7: a limit that is no number", headers.Draft7, []string{`RateLimit: limit="5", remaining=0, reset=1`, "RateLimit-Policy: 5;w=1"}, draft7},
		{"draft 7: no limit", headers.Draft7, []string{"RateLimit: remaining=0, reset=1", "RateLimit-Policy: 5;w=1"}, draft7},
		{"draft 7: no reset", headers.Draft7, []string{"RateLimit: limit=5, remaining=0", "RateLimit-Policy: 5;w=1"}, draft7},
		{"draft 7: negative", headers.Draft7, []string{"RateLimit: limit=5, remaining=-1, reset=1"}, draft7},
		{"draft 7: malformed at its end", headers.Draft7, []string{`RateLimit: limit=5, remaining=0, reset=1, "x`}, draft7},
		{"draft 7: what a text says", headers.Draft7, []string{`RateLimit: limit=50, note="a, remaining=0, b", remaining=40, reset=5`}, draft7},
		{"draft 7: the last of a key counts", headers.Draft7, []string{`RateLimit: limit=50, remaining=0, remaining=40, reset=5`}, draft7},
		{
			"draft 7: parameters, lists and several lines", headers.Draft7,
			[]string{`RateLimit: limit=50;x, remaining=40,ok, l=("a" b;c ?1 );d`, `RateLimit: remaining=-0;y=1, reset=5`, "RateLimit-Policy: 50; w=60", "RateLimit-Policy: 90;w=600"},
			[]string{`Ratelimit: limit=50;x, remaining=40,ok, l=("a" b;c ?1 );d, remaining=-0;y=1, reset=5`, "Ratelimit-Policy: 50;w=60, 90;w=600"},
		},
		{"draft 7: lists that do not end", headers.Draft7, []string{`RateLimit: limit=50, remaining=0, reset=5, l=("a" `}, draft7},
		{"draft 7: lists without spaces", headers.Draft7, []string{`RateLimit: limit=50, remaining=0, reset=5, l=("a""b")`}, draft7},
		{
			"draft 7: a malformed list is left out", headers.Draft7,
			[]string{`RateLimit: limit=50, remaining=8, reset=7`, `RateLimit-Policy: (((`},
			[]string{`Ratelimit: limit=50, remaining=8, reset=7`},
		},
		{"draft 7: too much", headers.Draft7, []string{"RateLimit: limit=50, remaining=0, reset=5" + strings.Repeat(", x", 16<<10)}, draft7},
		{
			"draft 6: upstream is tighter", headers.Draft6,
			[]string{"RateLimit-Limit: 50", "RateLimit-Remaining: 8", "RateLimit-Reset: 7", "RateLimit-Policy: 50;w=60"},
			[]string{"Ratelimit-Limit: 50", "Ratelimit-Remaining: 8", "Ratelimit-Reset: 7", "Ratelimit-Policy: 50;w=60, 1;w=1;weir-burst=10"},
		},
		{
			"draft 6: ours is tighter", headers.Draft6,
			[]string{"RateLimit-Limit: 50", "RateLimit-Remaining: 10", "RateLimit-Reset: 7", "RateLimit-Policy: 50; w=60;comment=\"a, b\"", "RateLimit-Policy: 9000;w=3600"},
			[]string{
				"Ratelimit-Limit: 10", "Ratelimit-Remaining: 9", "Ratelimit-Reset: 1",
				`Ratelimit-Policy: 1;w=1;weir-burst=10, 50;w=60;comment="a, b", 9000;w=3600`,
			},
		},
		{
			"draft 6: of two with one quota the tighter side's stays", headers.Draft6,
			[]string{"RateLimit-Limit: 1", "RateLimit-Remaining: 0", "RateLimit-Policy: 01;w=60, 1;w=61"},
			[]string{"Ratelimit-Limit: 1", "Ratelimit-Remaining: 0", "Ratelimit-Policy: 1;w=60"},
		},
		{
			"draft 6: upstream has no list", headers.Draft6,
			[]string{"RateLimit-Limit: 1", "RateLimit-Remaining: 0"},
			[]string{"Ratelimit-Limit: 1", "Ratelimit-Remaining: 0", "Ratelimit-Policy: 1;w=1;weir-burst=10"},
		},
		{
			"draft 6: a malformed list does not spoil ours", headers.Draft6,
			[]string{"RateLimit-Limit: 50", "RateLimit-Remaining: 10", `RateLimit-Policy: "b";q=5`},
			draft6,
		},
		{
			"draft 6: nor do quotas that are none, or have no window", headers.Draft6,
			[]string{"RateLimit-Limit: 50", "RateLimit-Remaining: 10", `RateLimit-Policy: 1.5;w=2, -5;w=60, 6, 7;w=0, 8;w=x, 9;w=1;w=-1, 5;w=60`},
			[]string{"Ratelimit-Limit: 10", "Ratelimit-Remaining: 9", "Ratelimit-Reset: 1", "Ratelimit-Policy: 1;w=1;weir-burst=10, 5;w=60"},
		},
		{
			"draft 6: nothing is remaining that can be understood, but there is a list", headers.Draft6,
			[]string{"RateLimit-Limit: 50", "RateLimit-Remaining: few", "RateLimit-Policy: 50;w=60"},
			[]string{"Ratelimit-Limit: 10", "Ratelimit-Remaining: 9", "Ratelimit-Reset: 1", "Ratelimit-Policy: 1;w=1;weir-burst=10, 50;w=60"},
		},
		{
			"draft 6: what remains is optional", headers.Draft6,
			[]string{"RateLimit-Limit: 50", "RateLimit-Reset: 7", "RateLimit-Policy: 50;w=60, 9000;w=3600"},
			[]string{"Ratelimit-Limit: 10", "Ratelimit-Remaining: 9", "Ratelimit-Reset: 1", "Ratelimit-Policy: 1;w=1;weir-burst=10, 50;w=60, 9000;w=3600"},
		},
		{
			"draft 6: so is all but the list", headers.Draft6,
			[]string{"RateLimit-Policy: 50;w=60"},
			[]string{"Ratelimit-Limit: 10", "Ratelimit-Remaining: 9", "Ratelimit-Reset: 1", "Ratelimit-Policy: 1;w=1;weir-burst=10, 50;w=60"},
		},
		{
			"draft 6: parameters", headers.Draft6,
			[]string{"RateLimit-Limit: 50;x", "RateLimit-Remaining: 8;y=1", "RateLimit-Reset: 7"},
			[]string{"Ratelimit-Limit: 50;x", "Ratelimit-Remaining: 8;y=1", "Ratelimit-Reset: 7", "Ratelimit-Policy: 1;w=1;weir-burst=10"},
		},
		{"draft 6: too much", headers.Draft6, []string{"RateLimit-Limit: 50", "RateLimit-Remaining: 0" + strings.Repeat(";x", 16<<10), "RateLimit-Reset: 7"}, draft6},
		{"draft 6: a sign", headers.Draft6, []string{"RateLimit-Limit: 50", "RateLimit-Remaining: +0", "RateLimit-Reset: 7"}, draft6},
		{"draft 6: a list", headers.Draft6, []string{"RateLimit-Limit: 50", "RateLimit-Remaining: 0, 0", "RateLimit-Reset: 7"}, draft6},
		{"draft 6: a limit that is no number", headers.Draft6, []string{"RateLimit-Limit: abc", "RateLimit-Remaining: 0", "RateLimit-Reset: 7"}, draft6},
		{"draft 6: a reset that is no number", headers.Draft6, []string{"RateLimit-Limit: 50", "RateLimit-Remaining: 0", "RateLimit-Reset: soon"}, draft6},
		{"draft 6: more than there can be", headers.Draft6, []string{"RateLimit-Limit: 9999999999999999", "RateLimit-Remaining: 0", "RateLimit-Reset: 7"}, draft6},
		{
			"joined", headers.Join(headers.Draft11, headers.Legacy),
			[]string{`RateLimit-Policy: "day";q=5`, `RateLimit: "day";r=4`, "X-RateLimit-Remaining: 0"},
			[]string{ownPolicy + `, "day";q=5`, ownLimit + `, "day";r=4`, "X-Ratelimit-Remaining: 0"},
		},
		{
			"joined with an older draft, upstream speaks the newer one", headers.Join(headers.Draft11, headers.Draft6),
			[]string{`RateLimit-Policy: "day";q=5`, `RateLimit: "A";r=4`},
			append([]string{ownLimit + `, "A-2";r=4`}, draft6...),
		},
		{
			"joined with an older draft, upstream speaks the older one", headers.Join(headers.Draft11, headers.Draft6),
			[]string{"RateLimit-Limit: 50", "RateLimit-Remaining: 8", "RateLimit-Reset: 7", "RateLimit-Policy: 50;w=60"},
			[]string{ownLimit, "Ratelimit-Limit: 50", "Ratelimit-Remaining: 8", "Ratelimit-Reset: 7", "Ratelimit-Policy: 50;w=60, 1;w=1;weir-burst=10"},
		},
		{
			"joined with a newer draft", headers.Join(headers.Draft6, headers.Draft11),
			[]string{"RateLimit-Limit: 50", "RateLimit-Remaining: 8", "RateLimit-Reset: 7", "RateLimit-Policy: 50;w=60"},
			[]string{ownLimit, ownPolicy, "Ratelimit-Limit: 50", "Ratelimit-Remaining: 8", "Ratelimit-Reset: 7"},
		},
		{
			"joined drafts 7 and 6", headers.Join(headers.Draft7, headers.Draft6),
			[]string{"RateLimit: limit=50, remaining=8, reset=7", "RateLimit-Policy: 50;w=60"},
			[]string{"Ratelimit: limit=50, remaining=8, reset=7", "Ratelimit-Limit: 10", "Ratelimit-Remaining: 9", "Ratelimit-Reset: 1", "Ratelimit-Policy: 1;w=1;weir-burst=10, 50;w=60"},
		},
		{
			"joined with what is joined", headers.Join(headers.Legacy, headers.Join(headers.Draft11, mine{})),
			[]string{`RateLimit: "day";r=4`, "X-RateLimit-Remaining: 0", "X-Mine: theirs", "X-Room: theirs"},
			[]string{ownPolicy, ownLimit + `, "day";r=4`, "X-Ratelimit-Remaining: 0", "X-Mine: mine", "X-Room: 9"},
		},
		{
			"joined with one that has a field of the others", headers.Join(headers.Draft7, headers.Legacy, taker{}),
			[]string{"RateLimit: limit=50, remaining=8, reset=7", "X-RateLimit-Remaining: 0"},
			[]string{"Ratelimit: taken", "X-Ratelimit-Remaining: taken", "Ratelimit-Policy: 1;w=1;weir-burst=10", "X-Ratelimit-Limit: 10", "X-Ratelimit-Reset: 1"},
		},
		{"a writer of one's own", mine{}, []string{"X-Mine: theirs", "X-Room: theirs", "Vary: Origin"}, []string{"X-Mine: mine", "X-Room: 9", "Vary: Origin"}},
		{"none", headers.None, []string{`RateLimit: "day";r=4`}, []string{`Ratelimit: "day";r=4`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			own, upstream := http.Header{}, lines(c.upstream...)
			c.w.Write(own, policies(first))
			before := own.Clone()
			dialect.Merge(c.w, own, upstream)
			if want := lines(c.want...); !maps.EqualFunc(upstream, want, slices.Equal) {
				t.Errorf("fields\n got %q\nwant %q", upstream, want)
			}
			if !maps.EqualFunc(own, before, slices.Equal) {
				t.Errorf("our own are now %q, were %q", own, before)
			}
		})
	}
}

// mine writes a field of its own, and another one where there is room.
type mine struct{}

func (mine) Write(h http.Header, policies []headers.Policy) {
	h.Set("X-Mine", "mine")
	if left := policies[0].Decision.Remaining; left > 0 {
		h.Set("X-Room", strconv.Itoa(left))
	}
}

// taker writes fields that others write, too.
type taker struct{}

func (taker) Write(h http.Header, _ []headers.Policy) {
	h.Set("RateLimit", "taken")
	h.Set("X-RateLimit-Remaining", "taken")
}

func TestWhereNothingWasWrittenUpstreamIsLeftAlone(t *testing.T) {
	for name, w := range writers {
		t.Run(name, func(t *testing.T) {
			upstream := http.Header{}
			w.Write(upstream, policies(full))
			before := upstream.Clone()
			dialect.Merge(w, http.Header{}, upstream)
			if !maps.EqualFunc(upstream, before, slices.Equal) {
				t.Errorf("upstream's are now %q, were %q", upstream, before)
			}
		})
	}
}

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
		merged := mergedInto(upstream, headers.Draft11)
		for _, field := range []string{"Ratelimit", "Ratelimit-Policy"} {
			names := mergedNames(t, merged[field])
			if wellFormed && len(names) != len(namesOf(t, upstream[field]))+1 {
				t.Errorf("of %q there is left %q", upstream, merged)
			}
		}

		merged = mergedInto(upstream, headers.Join(headers.Draft11, headers.Draft6))
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
