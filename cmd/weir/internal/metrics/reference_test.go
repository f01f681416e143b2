package metrics

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/weir-go/ratelimit/cmd/weir/internal/descriptors"
)

func configure(t *testing.T, limits ...string) *descriptors.Config {
	t.Helper()
	var file strings.Builder
	file.WriteString("domain: d\ndescriptors:\n  - {key: v, value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 5}}\n")
	for _, one := range limits {
		_, _ = fmt.Fprintf(&file, "  - {key: k, value: %q, rate_limit: {unit: day, requests_per_unit: 5}}\n", one)
	}
	config, err := descriptors.Parse([]descriptors.File{{Name: "d.yaml", Text: []byte(file.String())}}, descriptors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// heap returns how many bytes are in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// TestNamesAreBounded counts 60,000 overrides and 60,000 values, all different.
func TestNamesAreBounded(t *testing.T) {
	config := configure(t, "known")
	r := newReference(0.8)
	r.Use(config)
	value := descriptors.Entry{Key: "v", Value: "0"}
	limit, _ := config.Find("d", []descriptors.Entry{value})
	count := func(from, to int) {
		for i := from; i < to; i++ {
			value.Value = strconv.Itoa(i)
			r.Count(r.OfOverride("d", []descriptors.Entry{{Key: "o", Value: value.Value}}), Hits{Hits: 1, Decided: true, Limit: 5})
			r.Count(r.Of(config, "d", []descriptors.Entry{value}, limit), Hits{Hits: 1, Decided: true, Limit: 5})
			r.Unknown("unknown" + value.Value)
		}
	}
	count(0, MostOfValues)
	before := heap()
	count(MostOfValues, 60_000)
	if grown := int64(heap()) - int64(before); grown > 1<<20 {
		t.Errorf("the memory has grown by %d bytes", grown)
	}
	if len(r.names) != MostOfValues+1 || r.values != MostOfValues {
		t.Errorf("there are %d names, %d of them of values, want %d of values and one of a file", len(r.names), r.values, MostOfValues)
	}
	total := r.others.total.Load()
	for _, d := range r.names {
		total += d.total.Load()
	}
	if total != 120_000 {
		t.Errorf("%d hits are counted, want 120,000", total)
	}
	if r.Of(config, "d", []descriptors.Entry{{Key: "k", Value: "known"}}, limitOf(config, "known")) == r.others {
		t.Error("a limit of a file is counted together with others")
	}
	if r.OfOverride("d", []descriptors.Entry{{Key: strings.Repeat("x", longest)}}) != r.others {
		t.Error("a name that is too long is kept")
	}
}

// TestCountingAllocatesNothing counts a limit of a file, one whose name has a value, and an override.
func TestCountingAllocatesNothing(t *testing.T) {
	config := configure(t, "known")
	r := newReference(0.8)
	r.Use(config)
	for _, entry := range []descriptors.Entry{{Key: "k", Value: "known"}, {Key: "v", Value: "some value"}} {
		entries := []descriptors.Entry{entry}
		limit, _ := config.Find("d", entries)
		if n := testing.AllocsPerRun(100, func() {
			r.Count(r.Of(config, "d", entries, limit), Hits{Hits: 1, Decided: true, Limit: 5})
			r.Count(r.OfOverride("d", entries), Hits{Hits: 1, Decided: true, Limit: 5})
		}); n > 0 {
			t.Errorf("%v: %v allocations", entry, n)
		}
	}
}

func limitOf(config *descriptors.Config, value string) *descriptors.Limit {
	limit, _ := config.Find("d", []descriptors.Entry{{Key: "k", Value: value}})
	return limit
}

// TestNamesFollowTheFiles reads other files: what they name goes on, and what they no longer name goes away.
func TestNamesFollowTheFiles(t *testing.T) {
	t.Parallel()
	r := newReference(0.8)
	first := configure(t, "a", "b")
	r.Use(first)
	a := func(config *descriptors.Config) *Descriptor {
		return r.Of(config, "d", []descriptors.Entry{{Key: "k", Value: "a"}}, limitOf(config, "a"))
	}
	r.Count(a(first), Hits{Hits: 3, Decided: true, Limit: 5})
	override := r.OfOverride("d", []descriptors.Entry{{Key: "k", Value: "c"}})
	second := configure(t, "a", "c")
	r.Use(second)
	if n := a(second).total.Load(); n != 3 {
		t.Errorf("%d hits are counted after the files were read, want 3", n)
	}
	if r.names["d.k_b"] != nil {
		t.Error("a limit that is in no file any longer has a name")
	}
	if got := r.Of(second, "d", []descriptors.Entry{{Key: "k", Value: "c"}}, limitOf(second, "c")); got != override || r.values != 0 {
		t.Errorf("an override and a limit with one name have two counters, or count as %d values", r.values)
	}
	if a(first) != a(second) {
		t.Error("a request that began before the files were read is counted elsewhere")
	}
	var many []string
	for i := range MostOfFiles + 10 {
		many = append(many, strconv.Itoa(i))
	}
	third := configure(t, many...)
	r.Use(third)
	last := many[len(many)-1]
	if len(r.names) != MostOfFiles || r.Of(third, "d", []descriptors.Entry{{Key: "k", Value: last}}, limitOf(third, last)) != r.others {
		t.Errorf("there are %d names, want %d and one for all others", len(r.names), MostOfFiles)
	}
}

// TestCountsAtOnce counts from many goroutines while files are read.
func TestCountsAtOnce(t *testing.T) {
	t.Parallel()
	r := newReference(0.8)
	config := configure(t, "a")
	r.Use(config)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 500 {
				r.Count(r.OfOverride("d", []descriptors.Entry{{Key: strconv.Itoa(n), Value: strconv.Itoa(i % 2)}}), Hits{Hits: 1})
				if n%100 == 0 {
					r.Use(config)
				}
			}
		})
	}
	all.Wait()
	total := r.others.total.Load()
	for _, d := range r.names {
		total += d.total.Load()
	}
	if total != 4000 || r.values != 1000 {
		t.Errorf("%d hits of %d names are counted, want 4000 of 1000", total, r.values)
	}
}

// TestHits compares the counts with those that the reference makes of the same hits, by its own arithmetic.
func TestHits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		hits Hits
		want string // total, over, near, within, shadow
	}{
		"far from the limit":                  {Hits{Hits: 4, Decided: true, Limit: 10}, "4 0 0 4 0"},
		"partly near":                         {Hits{Hits: 4, Decided: true, Before: 5, Limit: 10}, "4 0 1 4 0"},
		"all near":                            {Hits{Hits: 2, Decided: true, Before: 8, Limit: 10}, "2 0 2 2 0"},
		"over, all or none":                   {Hits{Hits: 5, Decided: true, Before: 7, Limit: 10, Over: true}, "5 5 0 0 0"},
		"over, as the reference counts":       {Hits{Hits: 5, Decided: true, Before: 7, Limit: 10, Over: true, Partly: true}, "5 2 2 0 0"},
		"over before, as the reference does":  {Hits{Hits: 5, Decided: true, Before: 12, Limit: 10, Over: true, Partly: true}, "5 5 0 0 0"},
		"over in shadow":                      {Hits{Hits: 2, Decided: true, Before: 10, Limit: 10, Over: true, Shadow: true}, "2 2 0 0 2"},
		"a limit of 0":                        {Hits{Hits: 1, Decided: true, Over: true}, "1 1 0 0 0"},
		"not decided":                         {Hits{Hits: 3, Limit: 10}, "3 0 0 0 0"},
		"a look":                              {Hits{Decided: true, Before: 9, Limit: 10}, "0 0 0 0 0"},
		"more hits than any counter can bear": {Hits{Hits: 1<<64 - 3, Decided: true, Limit: 10, Over: true}, "8589934592 8589934592 0 0 0"},
	} {
		r, d := newReference(0.8), &Descriptor{}
		r.Count(d, test.hits)
		got := fmt.Sprint(d.total.Load(), " ", d.over.Load(), " ", d.near.Load(), " ", d.within.Load(), " ", d.shadow.Load())
		if got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestNamesAreCutAsTheReferenceDoes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]name{
		"d.k":                    {"d", "k", ""},
		"d.k_1:2|3":              {"d", "k_1_2_3", ""},
		"d.ip_10.0.0.1":          {"d", "ip_10_0_0_1", ""},
		"d.a.b":                  {"d", "a", "b"},
		"d.a.b.c.d":              {"d", "a", "b"},
		"shop.example.com.k.sub": {"shop", "example", "com"},
		"d.a.":                   {"d", "a", ""},
		"d.k_\xff":               {"d", "k__", ""},
	} {
		if got := nameOf(text); got != want {
			t.Errorf("%q is %+v, want %+v", text, got, want)
		}
	}
}

func BenchmarkCount(b *testing.B) {
	r := newReference(0.8)
	entries := []descriptors.Entry{{Key: "tenant", Value: "one"}}
	b.ReportAllocs()
	for b.Loop() {
		r.Count(r.OfOverride("d", entries), Hits{Hits: 1, Decided: true, Limit: 10})
	}
}
