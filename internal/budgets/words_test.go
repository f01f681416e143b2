package budgets

import (
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
	for _, file := range sources(t) {
		for _, group := range file.Comments {
			text := group.Text()
			riddle += len(riddles.FindAllString(text, -1))
			what += len(whats.FindAllString(text, -1))
			all += len(words.FindAllString(strings.ReplaceAll(text, "\n\t", "\n"), -1))
		}
	}
	t.Logf("%d words", all)
	keep(t, "riddle pronouns in 100,000 words of comments", riddle*100_000/all, 0)
	keep(t, "\"what\" in 100,000 words of comments", what*100_000/all, 0)
}
