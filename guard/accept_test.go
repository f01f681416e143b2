package guard

import (
	"strings"
	"testing"
)

func TestPlainTextIsForWhoRanksItStrictlyAboveJSON(t *testing.T) {
	for _, c := range []struct {
		accept string
		want   bool
	}{
		// Nothing is said, or nothing of the two.
		{"", false},
		{"*/*", false},
		{"text/html", false},
		{"text/html, application/xhtml+xml, */*;q=0.8", false},
		{"image/*", false},

		// Both are named.
		{"text/plain", true},
		{"TEXT/Plain", true},
		{"text/plain; charset=utf-8", true},
		{"text/plain, application/json", false},
		{"application/json, text/plain", false},
		{"text/plain, application/problem+json", false},
		{"text/plain, application/json;q=0.9", true},
		{"text/plain;q=0.9, application/json", false},
		{"text/plain;q=0.9, application/json;q=0.8", true},
		{"text/plain;q=0.001, application/json;q=0", true},
		{"text/plain;q=0", false},
		{"text/plain, */*", false},
		{"text/plain, */*;q=0.5", true},

		// The most specific range counts, wherever it stands.
		{"text/*", true},
		{"text/*, application/*", false},
		{"text/*;q=0.5, application/*;q=0.4", true},
		{"text/plain;q=0.2, text/*, application/json;q=0.5", false},
		{"text/*, text/plain;q=0.2, application/json;q=0.5", false},
		{"*/*, text/plain;q=0.5", false},
		{"*/*;q=0.1, application/*;q=0.2, application/json;q=0.3, text/plain;q=0.25", false},
		{"application/json, application/problem+json;q=0.1, text/plain;q=0.5", true},
		{"application/json;q=0.1, application/problem+json, text/plain;q=0.5", false},
		{"text/plain;q=0.1, text/plain;q=0.9, application/json;q=0.5", true},
		{"text/plain;q=0.9, text/plain;q=0.1, application/json;q=0.5", true},

		// What is malformed is not said.
		{"text/plain;q=two", false},
		{"text/plain;q=2", false},
		{"text/plain;q=-1", false},
		{"text/plain;q=NaN", false},
		{"text/plain;q=", false},
		{"text/plain;q=1;q=0.5", false},
		{"text/plain;;", false},
		{"text", false},
		{",,text/plain,,", true},
		{"/, ;, text/plain", true},
		{"text/plain, application/json;q=NaN", true},

		// No more than a kilobyte is read.
		{strings.Repeat("a/b,", 256) + "text/plain", false},
		{"text/plain," + strings.Repeat("a/b,", 1<<18), true},
	} {
		if got := prefersPlainText([]string{c.accept}); got != c.want {
			t.Errorf("Accept: %.80s: %v, want %v", c.accept, got, c.want)
		}
	}
	if prefersPlainText(nil) {
		t.Error("no Accept: true, want false")
	}
	if prefersPlainText([]string{"text/plain;q=0.5", "application/json"}) {
		t.Error("two lines are not read as one")
	}
}

func FuzzPrefersPlainText(f *testing.F) {
	for _, accept := range []string{"", "*/*", "text/plain", "text/plain;q=0.5, application/json;q=0.4", `text/plain;a="b,c"`, "text/plain;q=NaN", ",;=/"} {
		f.Add(accept)
	}
	f.Fuzz(func(t *testing.T, accept string) {
		plain := prefersPlainText([]string{accept})
		if plain != prefersPlainText([]string{accept}) {
			t.Error("not the same twice")
		}
		if plain && !strings.Contains(strings.ToLower(accept), "text/") {
			t.Errorf("%q prefers text that it does not name", accept)
		}
		if prefersPlainText([]string{"application/problem+json", accept}) {
			t.Errorf("%q beats the highest rank of JSON", accept)
		}
	})
}
