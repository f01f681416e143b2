package tree_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/policies/internal/tree"
)

// bombs are texts of a length that are much work for a reader that does not bound it.
func bombs(length int) map[string]string {
	times := func(text string) string { return strings.Repeat(text, length/len(text)) }
	var names strings.Builder
	for i := 0; names.Len() < length-10; i++ {
		fmt.Fprintf(&names, "h%d:\n", i)
	}
	return map[string]string{
		"one name":                  times("h1:\n"),
		"names":                     names.String(),
		"values":                    strings.ReplaceAll(names.String()[:length/2], ":\n", ": 1\n"),
		"names in a list":           times("-\n  h:\n"),
		"names behind dashes":       times("- h:\n"),
		"dashes":                    times("-\n"),
		"dashes in a row":           "a:\n" + times("- - - -\n"),
		"colons":                    times(":\n"),
		"colons in a row":           times(": "),
		"question marks":            times("? a\n"),
		"a list in brackets":        "a: [" + times("x,") + "]",
		"no values in brackets":     "a: {" + times("x,") + "}",
		"no values behind colons":   "a: {" + times("x:,") + "}",
		"lines in brackets":         "a: [" + times("x,\n") + "]",
		"aliases":                   "a: &a x\nb: [" + times("*a,") + "]",
		"aliases of aliases":        "a: &a [x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: [" + times("*c,") + "]",
		"anchors":                   times("- &a\n"),
		"merges":                    times("<<: *a\n"),
		"tags":                      times("- !!str\n"),
		"documents":                 times("---\n"),
		"comments":                  times("#\n"),
		"comments in a value":       "a:\n" + times("  #\n"),
		"lines of a text":           "a: x\n" + times("  x\n"),
		"lines of a literal":        "a: |\n" + times("  x\n"),
		"lines of a quoted text":    "a: \"x\n" + times("  x\n") + "\"",
		"empty lines":               "a: 1" + times("\n") + "b: 1",
		"spaces":                    "a: " + times(" ") + "b",
		"escapes":                   "a: \"" + times("\\n") + "\"",
		"a long name":               times("x") + ": 1",
		"brackets in JSON":          `{"a": [` + times("[],") + `[]]}`,
		"numbers in JSON":           `{"a": [` + times("1,") + `1]}`,
		"names in JSON":             `{"a": [` + times(`{"":0},`) + `0]}`,
		"aliases in the end of one": times("a: 1\n") + "b: *a",
	}
}

// What the parser of YAML takes a time for that grows with the square of it is never given to the parser, and does not count as memory.
func TestNoTextThatLeavesOutManyValuesIsParsed(t *testing.T) {
	for _, name := range []string{
		"one name", "names", "names in a list", "names behind dashes", "dashes", "colons", "no values in brackets", "no values behind colons",
	} {
		_, err := tree.Parse([]byte(bombs(tree.Most / 16)[name]))
		if err == nil || !strings.HasSuffix(err.Error(), "the document has too many names in one mapping, or leaves out too many values: a mapping has room for some 4000 names") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
