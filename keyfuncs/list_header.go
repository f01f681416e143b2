package keyfuncs

import "strings"

// How much of a list header is looked at, from the right. A client may send a
// megabyte of it.
const (
	mostEntries = 32
	mostBytes   = 4 << 10
)

// entries reads the entries of a list header from the right, over all its lines as if they were one. An empty entry is an
// entry: the proxy that wrote it did not know the client, and to skip it would be to believe the entry left of it.
type entries struct {
	lines     []string         // the lines not yet begun
	line      string           // the rest of the current line
	underway  bool             // line has an entry left, though it may be empty
	comma     func(string) int // the place of the last comma that separates, or -1
	entries   int              // how many more may be read
	bytes     int              // how many more may be looked at
	exhausted bool             // there was more than may be read
}

func entriesFromRight(lines []string, comma func(string) int) entries {
	return entries{lines: lines, comma: comma, entries: mostEntries, bytes: mostBytes}
}

// next returns the next entry further left, and false if there is none or no
// more may be read, in which case exhausted is set.
func (e *entries) next() (string, bool) {
	if !e.underway {
		last := len(e.lines) - 1
		if last < 0 {
			return "", false
		}
		e.lines, e.line, e.underway = e.lines[:last], e.lines[last], true
	}
	visible := e.line[max(0, len(e.line)-e.bytes):]
	comma := e.comma(visible)
	if e.entries == 0 || comma < 0 && len(visible) < len(e.line) {
		e.exhausted = true
		return "", false
	}
	entry := visible[comma+1:]
	e.entries--
	e.bytes = max(0, e.bytes-len(entry)-1)
	if comma < 0 {
		e.underway = false
	} else {
		e.line = e.line[:len(e.line)-len(entry)-1]
	}
	return trimSpace(entry), true
}

// lastComma finds the last separator of a header that has no quoted strings.
func lastComma(line string) int {
	return strings.LastIndexByte(line, ',')
}

// trimSpace trims HTTP's optional whitespace.
func trimSpace(text string) string {
	return strings.Trim(text, " \t")
}
