package policies

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/core"
)

// drawDocument draws a document that makes sense.
func drawDocument(t *rapid.T) *Document {
	d := &Document{}
	text := rapid.SampledFrom([]string{"leaky 10, 1/s", "token-bucket 7, 1/2s", "fixed-window 5, 1m", "sliding-log 6, 1h", "gcra 8, 3/m", "calendar 9, day UTC"})
	name := rapid.StringMatching(`[a-z][a-z0-9.:_-]{0,6}`)
	limit := func(name string) core.Limit {
		parsed, err := core.ParseLimit(name + ": " + text.Draw(t, "limit"))
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for _, n := range rapid.SliceOfNDistinct(name, 0, 3, rapid.ID).Draw(t, "limits") {
		if d.Limits == nil {
			d.Limits = make(map[string]core.Limit)
		}
		d.Limits["l"+n] = limit("l" + n)
	}
	for _, n := range rapid.SliceOfNDistinct(name, 0, 2, rapid.ID).Draw(t, "plans") {
		if d.Plans == nil {
			d.Plans = make(map[string]map[string]core.Limit)
		}
		d.Plans["p"+n] = map[string]core.Limit{"*": core.Unlimited}
		for _, plan := range rapid.SliceOfN(rapid.StringN(1, 5, -1), 0, 3).Draw(t, "plan") {
			d.Plans["p"+n][plan] = limit("p" + n)
		}
	}
	if rapid.Bool().Draw(t, "lists") {
		d.Lists = Lists{
			Allow: rapid.SliceOfN(rapid.SampledFrom([]string{"192.0.2.0/24", "2001:db8::/32", "key:user:42"}), 0, 2).Draw(t, "allow"),
			Deny:  []string{"203.0.113.9", "key:user:7"}, Key: "user", Address: rapid.SampledFrom([]string{"", "ip hops 1"}).Draw(t, "address"),
		}
		if len(d.Lists.Allow) == 0 {
			d.Lists.Allow = nil
		}
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "policies") {
		d.Policies = append(d.Policies, drawPolicy(t, d, i, text.Draw(t, "own limit")))
	}
	for i, name := range append(sorted(d.Limits), sorted(d.Plans)...) { // each is used
		p := drawPolicy(t, d, len(d.Policies), name)
		p.Match = []Match{{Pattern: fmt.Sprintf("/named%d", i)}}
		d.Policies = append(d.Policies, p)
	}
	d.LimitsNothing = !slices.ContainsFunc(d.Policies, func(p Policy) bool { return d.limits(&p) })
	return d
}

// drawPolicy draws one that goes with every other.
func drawPolicy(t *rapid.T, d *Document, i int, limit string) Policy {
	p := Policy{
		Name: rapid.SampledFrom([]string{"", "a name", "true", "12", "a: b # c", "ä\n\"\\\u2028"}).Draw(t, "name"),
		Key:  rapid.SampledFrom([]string{"ip", "user", "(user or ip hops 2) and route", "header X-A", "global"}).Draw(t, "key"),
		Cost: rapid.SampledFrom([]string{"", "0", "3", "tokens"}).Draw(t, "cost"), Limit: limit,
		OnError:  rapid.SampledFrom([]string{"", "open", "closed", "fallback"}).Draw(t, "onError"),
		Headroom: rapid.IntRange(0, 2).Draw(t, "headroom"), Unit: rapid.SampledFrom([]string{"", "jobs", "a b"}).Draw(t, "unit"),
		Shadow: rapid.Bool().Draw(t, "shadow"),
	}
	if !p.Shadow {
		p.Enforced = rapid.SampledFrom([]float64{0, 0.5, 33.25, 100}).Draw(t, "enforced")
	}
	if rapid.Bool().Draw(t, "settles") {
		p.Settle.Units = map[string]int{"5xx": 0, "404": rapid.IntRange(0, 5).Draw(t, "units")}
		if !strings.Contains(fmt.Sprint(p.Limit, d.Limits[p.Limit], d.Plans[p.Limit]), "calendar") { // whose units stay paid
			p.ReserveFor = rapid.SampledFrom([]time.Duration{0, 1500 * time.Millisecond, time.Minute}).Draw(t, "reserveFor")
		}
	}
	switch rapid.IntRange(0, 3).Draw(t, "match") {
	case 0:
		p.Match = []Match{{Pattern: fmt.Sprintf("POST /p%d/{id}", i)}, {Pattern: fmt.Sprintf("example.com/p%d/", i)}}
	case 1:
		p.Match = []Match{{Pattern: "/same"}}
	case 2:
		p.Match = []Match{{Pattern: "/same", Header: map[string]string{"X-Number": strconv.Itoa(i)}}}
	}
	return p
}

// FuzzParse holds that whatever is read can be printed and read again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte(`{"limits": {"a": "leaky 10, 1/s"}, "policies": [{"limit": "a", "key": "ip"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse(text)
		if err != nil {
			return
		}
		requireSame(t, d)
	})
}
