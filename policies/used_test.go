package policies

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// What a document says to no effect is an error that says where it stands.
func TestWhatHasNoEffectIsAnError(t *testing.T) {
	const one = "policies: [{limit: 'leaky 1, 1/s', key: ip}]\n"
	for text, want := range map[string]string{
		"{}":                                   "line 1, column 1: no policy limits anything: write policies, or limitsNothing: true if that is meant",
		"limits: {}\n":                         "line 1, column 1: no policy limits anything",
		"version: 1\npolicies: []\n":           "line 2, column 11: no policy limits anything",
		"policies: [{limit: unlimited}]\n":     "line 1, column 11: no policy limits anything",
		"lists: {deny: [192.0.2.1]}\n":         "line 1, column 1: no policy limits anything",
		"limitsNothing: false\n":               "line 1, column 1: no policy limits anything",
		"limitsNothing: true\n" + one:          "line 1, column 16: limitsNothing is true, but there are policies that limit: leave limitsNothing or the policies out",
		"limitsNothing: yes\n":                 "line 1, column 16: limitsNothing is a text: want true or false",
		"limits:\n  a: leaky 1, 1/s\n" + one:   `line 2, column 3: no policy uses the limit "a": write a policy with it, or leave it out`,
		"limits:\n  a: unlimited\n" + one:      `line 2, column 3: no policy uses the limit "a"`,
		"plans: {p: {'*': unlimited}}\n" + one: `line 1, column 9: no policy uses the plans of "p"`,
		"bans: {b: 'ban 5, 10m, first 10m, factor 2, longest 7d, forget 1d'}\n" + one: `line 1, column 8: no policy uses the ban "b"`,
		"plans: {p: {'*': unlimited}}\npolicies: [{limit: p, key: ip}]\n":             "line 2, column 11: no policy limits anything",
		"plans: {p: {free: 'leaky 1, 1/s'}}\npolicies: [{limit: p, key: ip}]\n":       `line 1, column 9: the plans of "p" have no "*": write the limit of requests of another plan`,
		"lists: {}\n" + one:          "line 1, column 8: lists have no entry: write one under allow or deny, or leave lists out",
		"lists: {allow: []}\n" + one: "line 1, column 8: lists have no entry",
		"lists: {deny: ['key:a'], key: header A, address: ip}\n" + one:                                   "line 1, column 50: address is looked up among addresses, of which allow and deny have none",
		"lists: {deny: [192.0.2.1], key: header A}\n" + one:                                              "line 1, column 33: key is looked up among keys, of which allow and deny have none",
		"policies:\n  - limit: leaky 1, 1/s\n    key: ip":                                                "line 3, column 10: the last line has no line end, so it may have been cut: write one behind it",
		"policies:\n  - limit: leaky 1, 1/s\n    key: ip\n    cost: 1":                                   "line 4, column 11: the last line has no line end",
		"policies:\n  - limit: leaky 1, 1/s\n    key: ip\n    name: |\n      a":                          "line 5, column 7: the last line has no line end",
		"policies:\n  - key: ip\n    limit: unlimited\n  - key: ip\n    firstOf: [{limit: unlimited}]\n": "line 2, column 3: no policy limits anything",
	} {
		_, err := Parse([]byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q:\n%v, want\n%s", text, err, want)
		}
	}
	for _, text := range []string{
		"limitsNothing: true\n", "policies: []\nlimitsNothing: true\n", "limitsNothing: true\nlists: {deny: [192.0.2.1]}\npolicies: [{limit: unlimited}]\n",
		`{"limitsNothing": true}`, "policies: [{limit: 'leaky 1, 1/s', key: ip, shadow: true}]", "policies:\n  - limit: leaky 1, 1/s\n    key: 'ip'",
		"policies:\n  - limit: leaky 1, 1/s\n    key: ip # all", "policies:\n  - limit: leaky 1, 1/s\n    key: ip\n...",
		"plans: {p: {a: 'leaky 1, 1/s', '*': unlimited}}\npolicies: [{key: ip, firstOf: [{limit: p}]}]",
	} {
		if _, err := Parse([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A document that a program has made is held to the same.
func TestWhatHasNoEffectInAProgramIsAnError(t *testing.T) {
	if _, err := new(Document).Set(Options{}); err == nil || err.Error() != "no policy limits anything: write policies, or limitsNothing: true if that is meant" {
		t.Errorf("%v", err)
	}
	if _, err := (&Document{LimitsNothing: true}).Set(Options{}); err != nil {
		t.Error(err)
	}
}

// examples returns the documents that the documentation shows.
func examples(t *testing.T) (all []string) {
	t.Helper()
	for _, page := range []string{"../README.md", "../docs/policies.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			all = append(all, block)
		}
	}
	return all
}

func listsOf(d *Document) Lists {
	l := d.Lists
	l.at = nil
	return l
}

// shorter reports whether what a cut policy says in a field is nothing, or the first entries of what it says.
func shorter(got, want reflect.Value) bool {
	if got.IsZero() {
		return true
	}
	switch got.Kind() {
	case reflect.Slice:
		if got.Len() > want.Len() {
			return false
		}
		for i := range got.Len() - 1 {
			if !reflect.DeepEqual(got.Index(i).Interface(), want.Index(i).Interface()) {
				return false
			}
		}
		return true
	case reflect.Struct: // ByStatus
		return got.FieldByName("Units").Len() <= want.FieldByName("Units").Len()
	default:
		return false
	}
}
