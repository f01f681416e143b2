package dialect_test

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

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
		{"upstream says nothing", headers.Draft, nil, []string{ownPolicy, ownLimit}},
		{"other fields stay", headers.Draft, []string{"Vary: Origin", "Retry-After: 7", "X-Ratelimit-Limit: 5"}, []string{ownPolicy, ownLimit, "Vary: Origin", "Retry-After: 7", "X-Ratelimit-Limit: 5"}},
		{
			"the lists become one", headers.Draft,
			[]string{`RateLimit-Policy: "day";q=5;w=86400`, `RateLimit: "day";r=4;t=60`},
			[]string{ownPolicy + `, "day";q=5;w=86400`, ownLimit + `, "day";r=4;t=60`},
		},
		{
			"each with its unit", headers.Draft,
			[]string{`RateLimit-Policy: "day";q=5;qu="content-bytes";w=86400`, `RateLimit: "day";r=4;t=60`},
			[]string{ownPolicy + `, "day";q=5;qu="content-bytes";w=86400`, ownLimit + `, "day";r=4;t=60`},
		},
		{
			"several lines, in another notation", headers.Draft,
			[]string{`RateLimit-Policy: "day"; q=5;  w=86400`, `RateLimit-Policy: hour;q=1;x;y=?0;z=-1.5;pk=:YQ==:;s="\"";t=a/b`, `RateLimit: hour;r=1 ,	"day";r=4`},
			[]string{ownPolicy + `, "day";q=5;w=86400, "hour";q=1;x;y=?0;z=-1.5;pk=:YQ==:;s="\"";t=a/b`, ownLimit + `, "hour";r=1, "day";r=4`},
		},
		{
			"a name that is taken gets a number, the same in both fields", headers.Draft,
			[]string{`RateLimit-Policy: "b";q=2, "A";q=5`, `RateLimit: "A";r=4`},
			[]string{ownPolicy + `, "b";q=2, "A-2";q=5`, ownLimit + `, "A-2";r=4`},
		},
		{
			"and none that upstream uses", headers.Draft,
			[]string{`RateLimit-Policy: "a";q=5, "a-2";q=6`, `RateLimit: "a";r=4, "a-2";r=5`},
			[]string{ownPolicy + `, "a-3";q=5, "a-2";q=6`, ownLimit + `, "a-3";r=4, "a-2";r=5`},
		},
		{
			"of two that upstream calls the same the first stays", headers.Draft,
			[]string{`RateLimit-Policy: "b";q=5, "B";q=6`, `RateLimit: "b";r=4, "b";r=5`},
			[]string{ownPolicy + `, "b";q=5`, ownLimit + `, "b";r=4`},
		},
		{
			"a Date and a Display String are parameters like any other", headers.Draft,
			[]string{`RateLimit-Policy: "day";q=5;until=@-1659578233;said=%"f%c3%bc \"`, `RateLimit: "day";r=4;at=@0`},
			[]string{ownPolicy + `, "day";q=5;until=@-1659578233;said=%"f%c3%bc \"`, ownLimit + `, "day";r=4;at=@0`},
		},
		{"a Date has no fraction", headers.Draft, []string{`RateLimit: "day";r=4;at=@1.5`}, []string{ownPolicy, ownLimit}},
		{"a Display String is UTF-8", headers.Draft, []string{`RateLimit: "day";r=4;said=%"%c3"`}, []string{ownPolicy, ownLimit}},
		{"in lower-case digits", headers.Draft, []string{`RateLimit: "day";r=4;said=%"%C3%BC"`}, []string{ownPolicy, ownLimit}},
		{
			"upstream tells of its policies only", headers.Draft,
			[]string{`RateLimit-Policy: "day";q=5, "A";q=3`},
			[]string{ownPolicy + `, "day";q=5, "A-2";q=3`, ownLimit},
		},
		{
			"or only of what is left", headers.Draft,
			[]string{`RateLimit: "day";r=4, "A";r=3`},
			[]string{ownPolicy, ownLimit + `, "day";r=4, "A-2";r=3`},
		},
		{"what is malformed does not spoil ours", headers.Draft, []string{`RateLimit: "b";r=4,`, `RateLimit-Policy: "b";q=5`}, []string{ownPolicy, ownLimit}},
		{"nor another dialect", headers.Draft, []string{`RateLimit: limit=10, remaining=5, reset=1`, `RateLimit-Policy: 10;w=1`}, []string{ownPolicy, ownLimit}},
		{"nor inner lists", headers.Draft, []string{`RateLimit: ("b");r=4`, `RateLimit-Policy: "b";q=5`}, []string{ownPolicy, ownLimit}},
		{
			"values come out in their canonical notation", headers.Draft,
			[]string{`RateLimit: "day";r=04;x=1.500;y=?1;z=:YR==:;said=%"%61"`},
			[]string{ownPolicy, ownLimit + `, "day";r=4;x=1.5;y;z=:YQ==:;said=%"a"`},
		},
		{
			"of a parameter that comes twice the last value stays", headers.Draft,
			[]string{`RateLimit: "day";r=4;x=1;r=5`},
			[]string{ownPolicy, ownLimit + `, "day";r=5;x=1`},
		},
		{
			"the largest numbers stay as they are", headers.Draft,
			[]string{`RateLimit: "day";r=999999999999999;x=-999999999999999;y=999999999999.999;z=@999999999999999`},
			[]string{ownPolicy, ownLimit + `, "day";r=999999999999999;x=-999999999999999;y=999999999999.999;z=@999999999999999`},
		},
		{"larger ones are malformed", headers.Draft, []string{`RateLimit: "day";r=9999999999999999`}, []string{ownPolicy, ownLimit}},
		{"nor too much", headers.Draft, []string{`RateLimit: "b";r=4;x="` + strings.Repeat("x", 16<<10) + `"`}, []string{ownPolicy, ownLimit}},
		{"nor too many", headers.Draft, []string{`RateLimit: ` + strings.Repeat(`"b";r=4, `, 64) + `"b";r=4`}, []string{ownPolicy, ownLimit}},

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
			"joined", headers.Join(headers.Draft, headers.Legacy),
			[]string{`RateLimit-Policy: "day";q=5`, `RateLimit: "day";r=4`, "X-RateLimit-Remaining: 0"},
			[]string{ownPolicy + `, "day";q=5`, ownLimit + `, "day";r=4`, "X-Ratelimit-Remaining: 0"},
		},
		{
			"joined with an older draft, upstream speaks the newer one", headers.Join(headers.Draft, headers.Draft6),
			[]string{`RateLimit-Policy: "day";q=5`, `RateLimit: "A";r=4`},
			append([]string{ownLimit + `, "A-2";r=4`}, draft6...),
		},
		{
			"joined with an older draft, upstream speaks the older one", headers.Join(headers.Draft, headers.Draft6),
			[]string{"RateLimit-Limit: 50", "RateLimit-Remaining: 8", "RateLimit-Reset: 7", "RateLimit-Policy: 50;w=60"},
			[]string{ownLimit, "Ratelimit-Limit: 50", "Ratelimit-Remaining: 8", "Ratelimit-Reset: 7", "Ratelimit-Policy: 50;w=60, 1;w=1;weir-burst=10"},
		},
		{
			"joined with a newer draft", headers.Join(headers.Draft6, headers.Draft),
			[]string{"RateLimit-Limit: 50", "RateLimit-Remaining: 8", "RateLimit-Reset: 7", "RateLimit-Policy: 50;w=60"},
			[]string{ownLimit, ownPolicy, "Ratelimit-Limit: 50", "Ratelimit-Remaining: 8", "Ratelimit-Reset: 7"},
		},
		{
			"joined drafts 7 and 6", headers.Join(headers.Draft7, headers.Draft6),
			[]string{"RateLimit: limit=50, remaining=8, reset=7", "RateLimit-Policy: 50;w=60"},
			[]string{"Ratelimit: limit=50, remaining=8, reset=7", "Ratelimit-Limit: 10", "Ratelimit-Remaining: 9", "Ratelimit-Reset: 1", "Ratelimit-Policy: 1;w=1;weir-burst=10, 50;w=60"},
		},
		{
			"joined with what is joined", headers.Join(headers.Legacy, headers.Join(headers.Draft, mine{})),
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

func (mine) Write(h http.Header, policies []headers.Outcome) {
	h.Set("X-Mine", "mine")
	if left := policies[0].Decision.Remaining; left > 0 {
		h.Set("X-Room", strconv.Itoa(left))
	}
}

// taker writes fields that others write, too.
type taker struct{}

func (taker) Write(h http.Header, _ []headers.Outcome) {
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
