// Package tree reads YAML and JSON into nodes that know where they stand.
package tree

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// Kind is the kind of a [Node].
type Kind string

// The kinds of nodes, as an error calls them.
const (
	Null     Kind = "nothing"
	Text     Kind = "a text"
	Bool     Kind = "true or false"
	Number   Kind = "a number"
	Sequence Kind = "a list"
	Mapping  Kind = "a mapping"
)

// Node is a value and where it stands.
type Node struct {
	Position

	Kind  Kind
	Text  string  // of a Text, and of a Bool and a Number as it is written
	Keys  []*Node // of a Mapping: Text nodes, all different
	Items []*Node // of a Sequence, and those of a Mapping for its Keys

	// Cut is set in the outermost Node only. It is where a value begins that may have been longer, because it is the last
	// of a text of YAML without a line end at its end. Otherwise it is the zero Position.
	Cut Position
}

// Position is where something stands, both counted from 1. The zero Position is nowhere.
type Position struct{ Line, Column int }

// Error says why a text cannot be read, and where.
type Error struct {
	Position

	Reason string
}

func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Reason)
}

func (p Position) errorf(format string, args ...any) *Error {
	return &Error{p, fmt.Sprintf(format, args...)}
}

const (
	// Most is how many bytes a document may have.
	Most = 1 << 20
	// deepest is how many values may stand inside one another.
	deepest = 32
)

// Parse reads a document: JSON if it begins with a brace, and otherwise YAML, without anchors, aliases, tags and merges.
// Every error is an [*Error]. No input makes it panic, or take much memory or time: bytes, depth and values are bounded
// before the tree is built.
func Parse(text []byte) (*Node, error) {
	if len(text) > Most {
		return nil, Position{1, 1}.errorf("the document has %d bytes, which are more than %d", len(text), Most)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if !utf8.Valid(text) {
		return nil, after(text, invalidUTF8(text)).errorf("this is no UTF-8")
	}
	if trimmed := bytes.TrimLeft(text, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' {
		return parseJSON(text)
	}
	return parseYAML(text)
}

func invalidUTF8(text []byte) int {
	at := 0
	for at < len(text) {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return at
}

// after returns the position behind a number of bytes of a text.
func after(text []byte, offset int) Position {
	return Position{1, 1}.behind(text[:min(offset, len(text))])
}

// behind returns the position behind a text that begins at p.
func (p Position) behind(text []byte) Position {
	if lines := bytes.Count(text, []byte{'\n'}); lines > 0 {
		p = Position{p.Line + lines, 1}
		text = text[bytes.LastIndexByte(text, '\n')+1:]
	}
	return Position{p.Line, p.Column + utf8.RuneCount(text)}
}

// distinct returns an error if a mapping has a key twice.
func (n *Node) distinct() error {
	seen := make(map[string]*Node, len(n.Keys))
	for _, key := range n.Keys {
		if other := seen[key.Text]; other != nil {
			return key.errorf("%q stands here a second time: it is in line %d already", key.Text, other.Line)
		}
		seen[key.Text] = key
	}
	return nil
}
