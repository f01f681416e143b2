package descriptors

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// parse reads one file.
func parse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse([]File{{"a.yaml", []byte(text)}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// entries makes entries of "key=value" or "key".
func entries(texts ...string) []Entry {
	all := make([]Entry, len(texts))
	for i, text := range texts {
		key, value, _ := strings.Cut(text, "=")
		all[i] = Entry{key, value}
	}
	return all
}

const tree = `
domain: shop
descriptors:
  - key: tenant
    rate_limit: {unit: minute, requests_per_unit: 1}
    descriptors:
      - key: path
        rate_limit: {unit: Minute, requests_per_unit: 2}
      - key: path
        value: /login
        rate_limit: {unit: HOUR, requests_per_unit: 3}
  - key: tenant
    value: big
    rate_limit: {unit: minute, requests_per_unit: 4}
  - key: tenant
    value: none
  - key: file
    value: a*
    rate_limit: {unit: minute, requests_per_unit: 5}
  - key: file
    value: ab*z
    rate_limit: {unit: minute, requests_per_unit: 6}
  - key: file
    value: "*.png"
    share_threshold: yes
    rate_limit: {unit: minute, requests_per_unit: 7}
    descriptors:
      - key: user
        rate_limit: {unit: minute, requests_per_unit: 8}
  - key: file
    rate_limit: {unit: minute, requests_per_unit: 9}
  - key: x-*
    rate_limit: {unit: minute, requests_per_unit: 10}
  - key: status
    value: 404
    rate_limit: {unit: day, requests_per_unit: 11}
`

// TestTheLastEntryCounts asks for limits by descriptors: those of exact values, of patterns in the order of the file, and of keys alone.
func TestTheLastEntryCounts(t *testing.T) {
	c := parse(t, tree)
	for _, test := range []struct {
		want    uint32 // 0 is no limit
		entries []Entry
	}{
		{1, entries("tenant=small")},
		{1, entries("tenant")},
		{4, entries("tenant=big")},
		{0, entries("tenant=none")},            // an exact value without a limit
		{2, entries("tenant=small", "path=/")}, // one level down
		{3, entries("tenant=small", "path=/login")},
		{0, entries("tenant=big", "path=/")}, // no limit is inherited, nor descriptors from beside
		{0, entries("tenant=small", "user=7")},
		{0, entries("tenant=small", "path=/", "user=7")},
		{5, entries("file=a")},
		{5, entries("file=abcz")}, // the first pattern in the file, not the closest one
		{5, entries("file=a.png")},
		{7, entries("file=b.png")},
		{8, entries("file=b.png", "user=7")},
		{9, entries("file=b.jpg")},
		{9, entries("file")},
		{10, entries("x-y=anything")},
		{11, entries("status=404")},
		{0, entries("unknown=1")},
		{0, nil},
	} {
		limit, key := c.Find("shop", test.entries)
		var got uint32
		if limit != nil {
			got = limit.RequestsPerUnit
		}
		if got != test.want || (limit == nil) != (key == "") {
			t.Errorf("%v meets the limit %d of key %q, want %d", test.entries, got, key, test.want)
		}
	}
	if limit, _ := c.Find("other", entries("tenant=small")); limit != nil {
		t.Error("an unknown domain has a limit")
	}
}

// TestStarsStandForAnyText tells which values a pattern matches.
func TestStarsStandForAnyText(t *testing.T) {
	for _, test := range []struct {
		pattern, text string
		want          bool
	}{
		{"a*", "a", true},
		{"a*", "abc", true},
		{"a*", "ba", false},
		{"*a", "a", true},
		{"*a", "ba", true},
		{"*a", "ab", false},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"a*b*c", "abc", true},
		{"a*b*c", "aXbYc", true},
		{"a*b*c", "acb", false},
		{"*", "", true},
		{"**", "x", true},
		{"a*bc*c", "abcc", true},
		{"a*bc*c", "abc", false},
		{"abc", "abc", true},
		{"abc", "abcd", false},
		{"a*b*b*c", "abbc", true},
		{"a*b*b*c", "abc", false},
	} {
		if got := globOf(test.pattern).matches(test.text); got != test.want {
			t.Errorf("%q matches %q: %v, want %v", test.pattern, test.text, got, test.want)
		}
	}
}

// TestKeysAreApart is about two faults of the reference: descriptors and domains that share a counter because their texts are joined by a sign that they
// may have themselves.
func TestKeysAreApart(t *testing.T) {
	config, err := Parse([]File{
		{"1.yaml", []byte(`
domain: d
descriptors:
  - {key: a, value: b_c, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: a_b, value: c, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: a_b_c, rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: x_k, rate_limit: {unit: minute, requests_per_unit: 1}}
`)},
		{"2.yaml", []byte(`
domain: d_x
descriptors:
  - {key: k, rate_limit: {unit: minute, requests_per_unit: 1}}
`)},
	}, Options{})
	if err != nil {
		t.Fatalf("the reference refuses this as a duplicate, and so do we: %v", err)
	}
	keys := make(map[string][]Entry)
	for domain, descriptors := range map[string][][]Entry{
		"d":   {entries("a=b_c"), entries("a_b=c"), entries("a_b_c"), entries("x_k=1")},
		"d_x": {entries("k=1")},
	} {
		for _, e := range descriptors {
			limit, key := config.Find(domain, e)
			if limit == nil || keys[key] != nil {
				t.Errorf("%s: %v has the key %q, as %v", domain, e, key, keys[key])
			}
			keys[key] = e
		}
	}
}

// TestSharedPatternsAreOneKey wants all values that match a pattern with share_threshold to have one key, and others keys of their own.
func TestSharedPatternsAreOneKey(t *testing.T) {
	c := parse(t, tree)
	key := func(texts ...string) string {
		_, key := c.Find("shop", entries(texts...))
		return key
	}
	if a, b := key("file=b.png"), key("file=c.png"); a != b {
		t.Errorf("shared values have the keys %q and %q", a, b)
	}
	if a, b := key("file=b.png", "user=1"), key("file=c.png", "user=1"); a != b {
		t.Errorf("below a shared value the keys are %q and %q", a, b)
	}
	if a, b := key("file=b.png", "user=1"), key("file=b.png", "user=2"); a == b {
		t.Errorf("two users below a shared value have the key %q", a)
	}
	if a, b := key("file=a1"), key("file=a2"); a == b {
		t.Errorf("values that are not shared have the key %q", a)
	}
	if a, b := key("file=b.png"), KeyOf("shop", entries("file=*.png")); a == b {
		t.Errorf("a pattern and the value that looks like it have the key %q", a)
	}
}

// TestYAMLIsVersion11 reads words and numbers as the reference does.
func TestYAMLIsVersion11(t *testing.T) {
	for word, want := range map[string]bool{
		"yes": true, "Yes": true, "YES": true, "y": true, "on": true, "On": true, "true": true, "TRUE": true,
		"no": false, "n": false, "N": false, "off": false, "OFF": false, "false": false, "~": false,
	} {
		c := parse(t, "domain: d\ndescriptors: [{key: k, shadow_mode: "+word+", rate_limit: {unit: day, requests_per_unit: 0x10}}]")
		limit, _ := c.Find("d", entries("k=1"))
		if limit.Shadow != want || limit.RequestsPerUnit != 16 {
			t.Errorf("shadow_mode: %s is read as %v, and 0x10 as %d", word, limit.Shadow, limit.RequestsPerUnit)
		}
	}
	c := parse(t, `
domain: yes
descriptors:
  - key: on
    value: 0123
    rate_limit: {unit: day, requests_per_unit: 1_000}
    metadata: {y: yes, no: "no", n1: 0x1f, f: 1.5, list: [1, {a: ~}], date: 2026-01-02, 7: seven}
`)
	limit, _ := c.Find("yes", entries("on=0123"))
	want := map[string]any{
		"true": true, "false": "no", "n1": 31.0, "f": 1.5, "list": []any{1.0, map[string]any{"a": nil}}, "date": "2026-01-02", "7": "seven",
	}
	if limit == nil || limit.RequestsPerUnit != 1000 || !reflect.DeepEqual(limit.Metadata, want) {
		t.Errorf("the limit is %+v, want the metadata %v", limit, want)
	}
}

// TestAnchorsAndMerges reads a file in which limits are written once.
func TestAnchorsAndMerges(t *testing.T) {
	c := parse(t, `
domain: d
descriptors:
  - &one
    key: a
    rate_limit: &limit {unit: day, requests_per_unit: 1}
  - <<: *one
    key: b
  - key: c
    rate_limit: {<<: *limit, requests_per_unit: 2}
`)
	for key, want := range map[string]uint32{"a": 1, "b": 1, "c": 2} {
		if limit, _ := c.Find("d", entries(key)); limit == nil || limit.RequestsPerUnit != want {
			t.Errorf("%s has the limit %+v, want %d", key, limit, want)
		}
	}
}

// TestLimits tells which limit the numbers of a file make.
func TestLimits(t *testing.T) {
	for numbers, want := range map[string]string{
		"unit: second, requests_per_unit: 5":                                     "per-second: calendar 5, every 1s",
		"unit: week, requests_per_unit: 5":                                       "per-week: calendar 5, every 7d",
		"unit: month, requests_per_unit: 5":                                      "per-month: calendar 5, every 30d",
		"unit: year, requests_per_unit: 5":                                       "per-year: calendar 5, every 365d",
		"unit: month, requests_per_unit: 5, time_zone: Europe/Berlin":            "per-month: calendar 5, month@1 Europe/Berlin",
		"unit: week, requests_per_unit: 5, time_zone: UTC":                       "per-week: calendar 5, week@monday UTC",
		"unit: minute, requests_per_unit: 5, algorithm: leaky":                   "per-minute: leaky 5, 5/m",
		"unit: minute, requests_per_unit: 5, algorithm: token_bucket, burst: 50": "per-minute: token-bucket 50, 5/m",
		"unit: hour, requests_per_unit: 5, algorithm: gcra, burst: 1":            "per-hour: gcra 1, 5/h",
		"unit: hour, requests_per_unit: 5, algorithm: sliding_window":            "per-hour: sliding-window 5, 1h",
		"unit: day, requests_per_unit: 5, algorithm: sliding_log":                "per-day: sliding-log 5, 1d",
		"unit: day, requests_per_unit: 5, debt: 3":                               "per-day: calendar 5, every 1d, debt 3",
		"unit: day, requests_per_unit: 5, debt: 0":                               "per-day: calendar 5, every 1d",
		"unit: day, requests_per_unit: 0x10, debt: 0x1_0":                        "per-day: calendar 16, every 1d, debt 16",
		"unit: hour, requests_per_unit: 5, algorithm: gcra, debt: unlimited":     "per-hour: gcra 5, 5/h, debt unlimited",
	} {
		c := parse(t, "domain: d\ndescriptors: [{key: k, rate_limit: {"+numbers+"}}]")
		limit, _ := c.Find("d", entries("k"))
		if got := limit.Counts.String(); got != want {
			t.Errorf("%s is %q, want %q", numbers, got, want)
		}
	}
	c := parse(t, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 0}}, {key: u, rate_limit: {unlimited: true}}]")
	none, _ := c.Find("d", entries("k"))
	unlimited, _ := c.Find("d", entries("u"))
	if none.Counts.Algorithm() != "" || none.Unlimited || !unlimited.Unlimited {
		t.Errorf("no request is %+v, and all are %+v", none, unlimited)
	}
}

// TestMistakesAreTold wants each mistake to be told with its line and column.
func TestMistakesAreTold(t *testing.T) {
	const good = "domain: d\ndescriptors:\n  - key: k\n"
	for text, want := range map[string]string{
		"":                                      "a.yaml:1:1: the file is empty",
		"descriptors: []":                       "a.yaml:1:1: the file has to name a domain",
		"domain: ''":                            "a.yaml:1:9: the file has to name a domain",
		"[a]":                                   "a.yaml:1:1: a file is a mapping",
		"domain: d\n  x: [":                     "a.yaml:1:9: this is no YAML",
		"domain: d\ndomain: e":                  `a.yaml:2:1: the key "domain" stands here twice`,
		"domain: d\nlimits: 1":                  `a.yaml:2:1: unknown key "limits"`,
		"domain: d\n404: 1":                     `a.yaml:2:1: unknown key "404"`,
		"domain: d\ndescriptors: a":             "a.yaml:2:14: descriptors is a list",
		"domain: d\ndescriptors:\n  - a":        "a.yaml:3:5: a descriptor is a mapping",
		"domain: d\ndescriptors:\n  - value: v": "a.yaml:3:5: a descriptor has to have a key",
		good + "  - key: k":                     "a.yaml:4:10: the descriptor k stands here twice",
		good + "    value: v\n  - key: k\n    value: v":                                                 "a.yaml:5:10: the descriptor k_v stands here twice",
		good + "    value: [v]":                                                                         "a.yaml:4:12: value is a text",
		good + "    shadow_mode: maybe":                                                                 "a.yaml:4:18: shadow_mode is true or false",
		good + "    shadow_mode: 'true'":                                                                "a.yaml:4:18: shadow_mode is true or false",
		good + "    share_threshold: true":                                                              "a.yaml:3:10: share_threshold is for descriptors with a star",
		good + "    metadata: 7":                                                                        "a.yaml:4:15: metadata is a mapping",
		good + "    metadata: {a: .nan}":                                                                "a.yaml:4:19: .nan is no number",
		good + "    rate_limit: {}":                                                                     `a.yaml:4:17: the unit "" is none of`,
		good + "    rate_limit: {unit: fortnight}":                                                      `a.yaml:4:24: the unit "fortnight" is none of`,
		good + "    rate_limit: {unit: day, requests_per_unit: -1}":                                     "a.yaml:4:48: requests_per_unit is a whole number",
		good + "    rate_limit: {unit: day, requests_per_unit: 4294967296}":                             "a.yaml:4:48: requests_per_unit is a whole number",
		good + "    rate_limit: {unit: day, requests_per_unit: 1.5}":                                    "a.yaml:4:48: requests_per_unit is a whole number",
		good + "    rate_limit: {unit: day, unlimited: true}":                                           "a.yaml:4:24: an unlimited descriptor has no unit",
		good + "    rate_limit: {unit: day, replaces: [{name: ''}]}":                                    "a.yaml:4:40: replaces has to name a limit",
		good + "    rate_limit: {unit: day, name: a, replaces: [{name: a}]}":                            `a.yaml:4:17: the limit "a" cannot replace itself`,
		good + "    rate_limit: {unit: day, replaces: a}":                                               "a.yaml:4:39: replaces is a list",
		good + "    rate_limit: {unit: day, requests_per_unit: 1, debt: much}":                          `a.yaml:4:17: the debt "much" is neither a whole number`,
		good + "    rate_limit: {unit: day, requests_per_unit: 1, debt: -1}":                            `a.yaml:4:17: the debt "-1" is neither a whole number`,
		good + "    rate_limit: {unit: day, requests_per_unit: 1, debt: 2}":                             "a.yaml:4:17: ",
		good + "    rate_limit: {unit: day, requests_per_unit: 1, debt: unlimited}":                     "a.yaml:4:17: ",
		good + "    rate_limit: {unit: day, requests_per_unit: 1, algorithm: sliding_log, debt: 1}":     "a.yaml:4:17: ",
		good + "    rate_limit: {unit: minute, requests_per_unit: 1, algorithm: concurrent, debt: 1}":   "a.yaml:4:17: debt is for what is counted over time",
		good + "    rate_limit: {unit: day, algorithm: fast}":                                           `a.yaml:4:40: the algorithm "fast" is none of`,
		good + "    rate_limit: {unit: day, requests_per_unit: 1, burst: 2}":                            "a.yaml:4:17: burst is for the algorithms",
		good + "    rate_limit: {unit: day, requests_per_unit: 1, algorithm: leaky, burst: 0}":          "a.yaml:4:17: a burst of 0",
		good + "    rate_limit: {unit: hour, requests_per_unit: 1, time_zone: UTC}":                     "a.yaml:4:17: time_zone is for day",
		good + "    rate_limit: {unit: day, requests_per_unit: 1, time_zone: Mars/Base}":                "a.yaml:4:17: ",
		good + "    rate_limit: {unit: day, requests_per_unit: 2000000, algorithm: sliding_log}":        "a.yaml:4:17: ",
		good + "    rate_limit: {unit: year, requests_per_unit: 4294967295, algorithm: sliding_window}": "a.yaml:4:17: ",
		"domain: &x [*x]":                 "a.yaml:1:9: domain is a text",
		good + "    metadata: &x {a: *x}": "more than 100 values stand inside one another",
	} {
		_, err := Parse([]File{{"a.yaml", []byte(text)}}, Options{})
		var all Errors
		if !errors.As(err, &all) || !strings.Contains(err.Error(), want) || all[0].Column < 1 {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestAliasesMultiplyNothing reads a file that would be very large if its aliases were written out.
func TestAliasesMultiplyNothing(t *testing.T) {
	var b strings.Builder
	b.WriteString("domain: d\ndescriptors:\n  - key: k\n    metadata:\n      a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n")
	for i := 1; i < 12; i++ {
		a := "*a" + strconv.Itoa(i-1)
		b.WriteString("      a" + strconv.Itoa(i) + ": &a" + strconv.Itoa(i) + " [" + strings.Repeat(a+", ", 9) + a + "]\n")
	}
	if _, err := Parse([]File{{"a.yaml", []byte(b.String())}}, Options{}); err == nil || !strings.Contains(err.Error(), "values") {
		t.Errorf("%v", err)
	}
}

// TestKeysInTheWrongPlaceAreTold: the reference ignores them, so that files that have them go on to work.
func TestKeysInTheWrongPlaceAreTold(t *testing.T) {
	c := parse(t, "domain: d\ndescriptors:\n  - key: k\n    rate_limit: {unit: day, requests_per_unit: 1, shadow_mode: true}\n")
	const want = "a.yaml:4:51: shadow_mode has no effect here: it is a key of a descriptor"
	if got := c.Warnings().Error(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if limit, _ := c.Find("d", entries("k")); limit.Shadow {
		t.Error("it has an effect")
	}
}

// TestDomainsOfSeveralFiles: two files of one domain are an error, unless they are to be merged.
func TestDomainsOfSeveralFiles(t *testing.T) {
	file := func(name, key string) File {
		return File{name, []byte("domain: d\ndescriptors: [{key: " + key + ", rate_limit: {unit: day, requests_per_unit: 1}}]")}
	}
	if _, err := Parse([]File{file("a", "k"), file("b", "l")}, Options{}); err == nil || !strings.HasPrefix(err.Error(), "b:1:9: the domain") {
		t.Errorf("%v", err)
	}
	c, err := Parse([]File{file("a", "k"), file("b", "l")}, Options{Merge: true})
	if err != nil {
		t.Fatal(err)
	}
	const dump = "d.k: unit=DAY requests_per_unit=1, shadow_mode: false, quota_mode: false\n" +
		"d.l: unit=DAY requests_per_unit=1, shadow_mode: false, quota_mode: false\n"
	if got := c.Dump(); got != dump || c.Domains() != 1 {
		t.Errorf("%d domains: %q", c.Domains(), got)
	}
	if _, err = Parse([]File{file("a", "k"), file("b", "k")}, Options{Merge: true}); err == nil {
		t.Error("the same descriptor stands in both")
	}
}

// TestDumpTellsWhatDecides: real months, algorithms and debts stand behind what the reference tells of a limit, in the words in which the limit is described.
func TestDumpTellsWhatDecides(t *testing.T) {
	c := parse(t, `domain: d
descriptors:
  - {key: plain, rate_limit: {unit: month, requests_per_unit: 5}}
  - {key: zone, rate_limit: {unit: month, requests_per_unit: 5, time_zone: UTC}}
  - {key: debt, rate_limit: {unit: hour, requests_per_unit: 5, debt: 3}}
  - {key: leaky, rate_limit: {unit: hour, requests_per_unit: 5, algorithm: leaky}}
  - {key: places, rate_limit: {unit: minute, requests_per_unit: 5, algorithm: concurrent}}
  - {key: none, rate_limit: {unit: hour, requests_per_unit: 0, algorithm: leaky}}
`)
	want := []string{
		"", "per-month: calendar 5, month@1 UTC", "per-hour: calendar 5, every 1h, debt 3", "per-hour: leaky 5, 5/h", "at-once: concurrent 5, 1m", "",
	}
	lines, said := strings.Split(strings.TrimSuffix(c.Dump(), "\n"), "\n"), c.Describe()
	if len(lines) != len(want) || len(said) != len(want) {
		t.Fatalf("%q, %q", lines, said)
	}
	for i, line := range lines {
		_, text, _ := strings.Cut(line, ", limit: ")
		if text != want[i] || !strings.Contains(said[i], text) {
			t.Errorf("%q tells %q, want %q; it is described as %q", line, text, want[i], said[i])
		}
	}
}

// TestWindowEndsWithItsUnit counts the time to the end of a window as the reference's calendar has it.
func TestWindowEndsWithItsUnit(t *testing.T) {
	now := time.Date(2026, 11, 25, 10, 30, 15, 250_000_000, time.UTC)
	for unit, want := range map[Unit]time.Duration{
		Second: 750 * time.Millisecond, Minute: 44*time.Second + 750*time.Millisecond, Day: 13*time.Hour + 29*time.Minute + 44*time.Second + 750*time.Millisecond,
		Month: time.Date(2026, 12, 3, 0, 0, 0, 0, time.UTC).Sub(now),
	} {
		if got := unit.Window(now); got != want {
			t.Errorf("a %s ends in %v, want %v", unit, got, want)
		}
	}
}

// FuzzParse wants any text to be read or refused, and every key to tell its domain and entries.
func FuzzParse(f *testing.F) {
	f.Add(tree, "tenant", "small", "path", "/login")
	f.Add("domain: d\ndescriptors: [{key: a*, value: '*b*', share_threshold: y}]", "a", "b", "", "")
	f.Add("a: &a [*a]", "a", "b_c", "a_b", "c")
	f.Fuzz(func(t *testing.T, text, key, value, key2, value2 string) {
		c, err := Parse([]File{{"f", []byte(text)}}, Options{})
		var all Errors
		if err != nil && (!errors.As(err, &all) || len(all) == 0 || all[0].Line < 1) {
			t.Fatalf("%v", err)
		}
		descriptor := []Entry{{key, value}, {key2, value2}}
		if err == nil {
			c.Find("d", descriptor)
			c.Find("shop", descriptor[:1])
		}
		domain, back := split(t, KeyOf(text, descriptor))
		if domain != text || !reflect.DeepEqual(back, descriptor) {
			t.Errorf("the key of %q, %q tells %q, %q", text, descriptor, domain, back)
		}
	})
}

// split takes a key apart again.
func split(t *testing.T, key string) (domain string, entries []Entry) {
	t.Helper()
	next := func() string {
		length, rest, _ := strings.Cut(key, ":")
		n, err := strconv.Atoi(length)
		if err != nil {
			t.Fatal(err)
		}
		key = rest[n:]
		return rest[:n]
	}
	domain = next()
	for key != "" {
		key = key[1:]
		e := Entry{Key: next()}
		key = key[1:]
		e.Value = next()
		entries = append(entries, e)
	}
	return domain, entries
}
