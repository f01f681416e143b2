//go:build !race

// The source is read in one goroutine: make test runs it without the race detector, which takes three times as long.

package budgets

import (
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

// Prose that names its nouns is read once.
func TestCommentsNameTheirNouns(t *testing.T) {
	riddle, what, all := 0, 0, 0
	read := func(text string) {
		riddle += len(riddles.FindAllString(text, -1))
		what += len(whats.FindAllString(text, -1))
		all += len(words.FindAllString(strings.ReplaceAll(text, "\n\t", "\n"), -1))
	}
	for _, file := range sources(t) {
		for _, group := range file.Comments {
			read(group.Text())
		}
	}
	for _, text := range luaComments(t) {
		read(text)
	}
	t.Logf("%d words", all)
	keep(t, "riddle pronouns in 100,000 words of comments", riddle*100_000/all, 0)
	keep(t, "\"what\" in 100,000 words of comments", what*100_000/all, 0)
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
