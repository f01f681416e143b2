//go:build !race

// The source is read in one goroutine: make test runs it without the race detector, which takes three times as long.

package budgets

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// riddles are words that stand for a noun which the reader has to find.
var (
	riddles = regexp.MustCompile(`(?i)\b(what|whatever|whose|whoever|whom|nobody|somebody|anybody|those (that|who|which)|that which|so many)\b`)
	whats   = regexp.MustCompile(`(?i)\bwhat\b`)
	words   = regexp.MustCompile(`[A-Za-z][A-Za-z'’-]*`)
)

// count is the number of riddles and of words in prose.
type count struct{ riddles, whats, words int }

func (c *count) read(text string) {
	c.riddles += len(riddles.FindAllString(text, -1))
	c.whats += len(whats.FindAllString(text, -1))
	c.words += len(words.FindAllString(text, -1))
}

// Prose that names its nouns is read once.
func TestCommentsNameTheirNouns(t *testing.T) {
	var c count
	for _, file := range sources(t) {
		for _, group := range file.Comments {
			c.read(group.Text())
		}
	}
	for _, text := range luaComments(t) {
		c.read(text)
	}
	t.Logf("%d words", c.words)
	keep(t, "riddle pronouns in 100,000 words of comments", c.riddles*100_000/c.words, 0)
	keep(t, "\"what\" in 100,000 words of comments", c.whats*100_000/c.words, 0)
}

// The pages are prose, too. Their budgets are whole counts: a new page has no share of the old ones.
func TestPagesNameTheirNouns(t *testing.T) {
	var all count
	for path, text := range pages(t) {
		var c count
		c.read(prose(text))
		if c.riddles > 0 {
			t.Logf("%s: %d riddles, %d of them \"what\", in %d words", path, c.riddles, c.whats, c.words)
		}
		all.riddles += c.riddles
		all.whats += c.whats
		all.words += c.words
	}
	t.Logf("%d words", all.words)
	keep(t, "riddle pronouns on the pages", all.riddles, 0)
	keep(t, "\"what\" on the pages", all.whats, 0)
}

// Code is no prose, and a line may end within a riddle.
func TestProseOfAPage(t *testing.T) {
	page := "# What\n\none `what`, [link](a.md#what)\n\n    what\n\n    whose\n\n```\nwhom\n```\n\n- those\n  that\n    go on\n"
	if got, want := prose(page), "# What one , [link - those that go on"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// pages returns the text of each page that is written by hand, by its path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	read := func(path string) error {
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	}
	generated := filepath.Join(root, "docs/benchmarks.md")
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" || path == generated {
			return err
		}
		return read(path)
	})
	err = errors.Join(err, read(filepath.Join(root, "README.md")), read(filepath.Join(root, "CONTRIBUTING.md")))
	if err != nil || len(all) < 60 {
		t.Fatalf("%d pages: %v", len(all), err)
	}
	return all
}

// codeAndTargets are pieces of code within a line, and the targets of links.
var codeAndTargets = regexp.MustCompile("`[^`]*`|\\]\\([^)]*\\)")

// prose returns the text of a page in one line, without code and the targets of links.
func prose(page string) string {
	var text strings.Builder
	fenced, indented, blank := false, false, true
	for line := range strings.Lines(page) {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			fenced = !fenced
		}
		indented = strings.HasPrefix(line, "    ") && (blank || indented)
		blank = strings.TrimSpace(line) == ""
		if !fence && !fenced && !indented {
			text.WriteString(line)
		}
	}
	return strings.Join(strings.Fields(codeAndTargets.ReplaceAllString(text.String(), "")), " ")
}

// luaComments returns the comments of each script and module of Redis.
func luaComments(t *testing.T) (comments []string) {
	t.Helper()
	comment := regexp.MustCompile(`(?m)(?:^|\s)--(.*)$`)
	err := filepath.WalkDir(filepath.Join(root, "core/internal/script/lua"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".lua" || entry.IsDir() {
			return err
		}
		source, err := os.ReadFile(path)
		var all strings.Builder
		for _, line := range comment.FindAllStringSubmatch(string(source), -1) {
			all.WriteString(line[1] + "\n")
		}
		comments = append(comments, all.String())
		return err
	})
	if err != nil || len(comments) < 40 {
		t.Fatalf("%d scripts have comments: %v", len(comments), err)
	}
	return comments
}
