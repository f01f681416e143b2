// Package descriptors reads the configuration of Envoy's rate limit service, and finds the limit of a descriptor.
//
// A descriptor is a list of entries, each a key with a value. The configuration of a domain is a tree: each entry leads one level down, by the
// descriptor that has its key and value, else by the first one in the file whose pattern matches, else by the one that has its key and no value. The
// limit of the last entry counts. Package descriptors is pure: it reads texts, and knows no server, no clock and no network.
package descriptors

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Entry is a part of a descriptor: a key with its value.
type Entry struct{ Key, Value string }

// Config is the configuration of all domains. It does not change, and may be used by many goroutines at once.
type Config struct {
	domains  map[string]*node
	limits   []*Limit
	warnings Errors
}

// node is a descriptor of the configuration, or the root of a domain.
type node struct {
	limit     *Limit
	valued    map[Entry]*node  // the descriptors below that have a value without a star
	valueless map[string]*node // those without a value, by their keys
	patterns  []*pattern       // those with a star, in the order of the files

	exact         bool // it has a value without a star
	valueToMetric bool
	byValue       bool // its own valueToMetric, or that of a descriptor above, puts values into the names of metrics
}

// pattern is a descriptor with a star.
type pattern struct {
	Entry

	key, value glob
	anyValue   bool // the descriptor has no value
	shared     bool // all values that match share the limit
	node       *node
}

func (p *pattern) matches(e Entry) bool {
	return p.key.matches(e.Key) && (p.anyValue || p.value.matches(e.Value))
}

// Domains returns how many domains there are.
func (c *Config) Domains() int { return len(c.domains) }

// Has reports whether there is a domain.
func (c *Config) Has(domain string) bool { return c.domains[domain] != nil }

// Warnings returns the parts of the files that have no effect where they stand.
func (c *Config) Warnings() Errors { return c.warnings }

// Find returns the limit of a descriptor, and the key of its state. There is no limit (nil) if the domain is not known, or if the descriptor does
// not match.
func (c *Config) Find(domain string, entries []Entry) (limit *Limit, key string) {
	at := c.domains[domain]
	if at == nil {
		return nil, ""
	}
	var state []byte
	state = appendText(state, domain)
	for _, e := range entries {
		next, by := at.next(e)
		if next == nil {
			return nil, ""
		}
		if by != nil && by.shared {
			state = appendEntry(state, by.Entry, '~')
		} else {
			state = appendEntry(state, e, '=')
		}
		at = next
	}
	if at.limit == nil || len(entries) == 0 {
		return nil, ""
	}
	return at.limit, string(state)
}

// next returns the descriptor to which an entry leads, and the pattern that it matches, if it is by one.
func (n *node) next(e Entry) (*node, *pattern) {
	if found := n.valued[e]; found != nil {
		return found, nil
	}
	for _, p := range n.patterns {
		if p.matches(e) {
			return p.node, p
		}
	}
	return n.valueless[e.Key], nil
}

// KeyOf returns the key of the state of a descriptor that brings its own limit. No two descriptors have the same one.
func KeyOf(domain string, entries []Entry) string {
	state := appendText(nil, domain)
	for _, e := range entries {
		state = appendEntry(state, e, '=')
	}
	return string(state)
}

// appendEntry appends an entry so that no other entries make the same text: the lengths stand in front. The sign tells a value from a pattern.
func appendEntry(to []byte, e Entry, sign byte) []byte {
	to = append(to, '/')
	to = appendText(to, e.Key)
	to = append(to, sign)
	return appendText(to, e.Value)
}

func appendText(to []byte, text string) []byte {
	to = strconv.AppendInt(to, int64(len(text)), 10)
	to = append(to, ':')
	return append(to, text...)
}

// Dump returns all limits, one a line, in the order of the files. Of those that do not count as the reference's do it has the text that decides, too.
func (c *Config) Dump() string {
	var b strings.Builder
	for _, l := range c.limits {
		_, _ = fmt.Fprintf(&b, "%s: unit=%s requests_per_unit=%d, shadow_mode: %t, quota_mode: %t", l.path, l.Unit, l.RequestsPerUnit, l.Shadow, l.Quota)
		if l.Unlimited {
			_, _ = b.WriteString(", unlimited: true")
		}
		if text := l.own(); text != "" {
			_, _ = fmt.Fprintf(&b, ", limit: %s", text)
		}
		_ = b.WriteByte('\n')
	}
	return b.String()
}

// Describe puts the configuration into words, a sentence for each limit, in the order of the files. Warnings come last.
func (c *Config) Describe() []string {
	lines := make([]string, 0, len(c.limits)+len(c.warnings))
	for _, l := range c.limits {
		lines = append(lines, l.path+": "+l.Describe()+".")
	}
	if len(lines) == 0 {
		lines = append(lines, "No request is limited.")
	}
	for _, w := range c.warnings {
		lines = append(lines, w.Error()+".")
	}
	return lines
}

// Error is something that is wrong in a file or in a resource.
type Error struct {
	// File is the name of the file, or of the resource.
	File string
	// Line and Column are a place in a file. They are 0 in a resource.
	Line, Column int
	// Path is a place in a resource, such as descriptors[0].rate_limit.
	Path   string
	Reason string
}

// Error returns the file, the line, the column and the reason, or the resource, the path and the reason.
func (e *Error) Error() string {
	switch {
	case e.Line == 0 && e.Path == "":
		return fmt.Sprintf("%s: %s", e.File, e.Reason)
	case e.Line == 0:
		return fmt.Sprintf("%s: %s: %s", e.File, e.Path, e.Reason)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Reason)
}

// Errors are all that is wrong, in the order of the files.
type Errors []*Error

// Error returns the errors, one a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

func (e Errors) sort() {
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// glob is a text with stars, cut at them. Each star stands for any text, also the empty one.
type glob []string

func globOf(text string) glob { return strings.Split(text, "*") }

func (g glob) matches(text string) bool {
	if len(g) == 1 {
		return g[0] == text
	}
	first, last := g[0], g[len(g)-1]
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range g[1 : len(g)-1] {
		_, after, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = after
	}
	return true
}
