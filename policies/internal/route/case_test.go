package route

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Whichever letters of a path are capitals, and escaped, the request meets the patterns that the path in small letters meets.
func TestAnyCaseHidesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := []string{"/a", "/b", "/é", "/{x}", "/", "/c d", "/..", "/%2F", "/a%2Fb"}
		table, other := new(Table), &Table{AnyCase: true}
		for range rapid.IntRange(1, 6).Draw(t, "patterns") {
			drawn := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "é", "{x}", "c%20d"}), 0, 3).Draw(t, "pattern")
			for i, piece := range drawn {
				drawn[i] = strings.Replace(piece, "x", fmt.Sprintf("x%d", i), 1) + "/"
			}
			pattern := "/" + strings.Join(drawn, "")
			if rapid.Bool().Draw(t, "closed") && pattern != "/" {
				pattern = strings.TrimSuffix(pattern, "/")
			}
			if slices.Contains(table.patterns, pattern) {
				continue
			}
			if _, err := table.Add(pattern); err == nil {
				if _, err := other.Add(strings.ToUpper(pattern)); err != nil {
					t.Fatalf("%q: %v", pattern, err)
				}
			}
		}
		plain := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 4).Draw(t, "path"), "")
		var small, written strings.Builder
		for _, c := range plain {
			if strings.ContainsRune("/%2F", c) { // of an escape
				small.WriteRune(c)
				written.WriteRune(c)
				continue
			}
			letter, capital := string(c), string(c)
			if rapid.Bool().Draw(t, "capital") {
				capital = strings.ToUpper(capital)
			}
			if c == ' ' || rapid.Bool().Draw(t, "escaped") {
				letter, capital = escaped(letter), escaped(capital)
			}
			small.WriteString(letter)
			written.WriteString(capital)
		}
		meets := func(table *Table, path string) []int {
			u, err := url.ParseRequestURI(path)
			if err != nil {
				t.Fatal(err)
			}
			numbers, readable := table.Met(nil, &http.Request{Method: http.MethodGet, URL: u}, Known{})
			if !readable {
				t.Fatalf("%q is not readable", path)
			}
			return numbers
		}
		got := meets(other, written.String())
		for _, number := range meets(table, small.String()) {
			if !slices.Contains(got, number) {
				t.Errorf("%s meets %q, and %s does not, of %q", small.String(), table.Pattern(number), written.String(), table.patterns)
			}
		}
	})
}

// escaped returns a letter with all of its bytes escaped.
func escaped(letter string) string {
	return "%" + strings.ReplaceAll(fmt.Sprintf("% X", letter), " ", "%")
}

// Where a router tells the route, its capitals do not matter either, and the names of its wildcards stay.
func TestRoutesInAnyCase(t *testing.T) {
	table := &Table{AnyCase: true}
	for _, pattern := range []string{"POST Example.test/Users/{Id}/Reset", "/users/Me/reset"} {
		if _, err := table.Add(pattern); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		route, path string
		values      values
		want        string
	}{
		{"/USERS/{ID}/reset", "/Users/7/Reset", values{"ID": "7"}, "POST Example.test/users/{Id}/reset"},
		{"/users/{ID}/reset", "/Users/ME/Reset", values{"ID": "ME"}, "POST Example.test/users/{Id}/reset /users/me/reset"},
	} {
		r := &http.Request{Method: http.MethodPost, Host: "example.TEST", URL: &url.URL{Path: test.path}}
		if got := met(table, r, Known{Route: test.route, Values: test.values, Whole: true}); got != test.want {
			t.Errorf("%s by %s meets %q, want %q", test.path, test.route, got, test.want)
		}
	}
	if _, err := table.Add("/users/ME/Reset"); err == nil {
		t.Error("a pattern that differs in its capitals alone is added twice")
	}
}
