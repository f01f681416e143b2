package doctest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	code = regexp.MustCompile("`[^`]*`")
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	text = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// Every link to a file or to a heading leads to one. Links to other sites are not followed.
func TestLinksLeadSomewhere(t *testing.T) {
	all := pages(t)
	headings := make(map[string]map[string]bool)
	for _, p := range all {
		headings[p.name] = anchors(p)
	}
	for _, p := range all {
		p.prose(func(number int, line string) {
			for _, target := range link.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
				if strings.Contains(target[1], "://") || strings.HasPrefix(target[1], "mailto:") {
					continue
				}
				file, anchor, _ := strings.Cut(target[1], "#")
				name := p.name
				if file != "" {
					name = path.Join(path.Dir(p.name), file)
				}
				if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
					t.Errorf("%s:%d: %s leads nowhere: there is no %s", p.name, number, target[1], name)
				} else if anchor != "" && !headings[name][anchor] {
					t.Errorf("%s:%d: %s leads nowhere: %s has no such heading", p.name, number, target[1], name)
				}
			}
		})
	}
}

// The contents list every page of docs.
func TestContentsListEveryPage(t *testing.T) {
	contents, err := os.ReadFile(filepath.Join(root, "docs", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages(t) {
		if name := path.Base(p.name); path.Dir(p.name) == "docs" && name != "README.md" &&
			!strings.Contains(string(contents), "]("+name+")") {
			t.Errorf("docs/README.md does not link to %s", p.name)
		}
	}
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(p page) map[string]bool {
	found := make(map[string]bool)
	p.prose(func(_ int, line string) {
		title := strings.TrimLeft(line, "#")
		if title == line || !strings.HasPrefix(title, " ") {
			return
		}
		title = text.ReplaceAllString(strings.TrimSpace(title), "$1")
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, title)
		for n, first := 1, slug; found[slug]; n++ {
			slug = fmt.Sprint(first, "-", n)
		}
		found[slug] = true
	})
	return found
}
