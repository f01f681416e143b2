package tree

import (
	"bytes"
	"strings"

	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

const (
	// mostTokens is how many words and signs YAML may have.
	mostTokens = 1 << 17
	// mostMoves is how many pointers the parser of YAML may move because of long mappings and of values that are left out: 64 MiB of them.
	mostMoves = 1 << 23
	// mostNodes is how many values and keys JSON may have. YAML has no more of them than words and signs.
	mostNodes = mostTokens
)

// tooMuch returns an error if a text opens many more brackets than it closes, is indented far, or has very many signs, before anything reads it
// by recursion or keeps a token for each sign.
func tooMuch(text []byte) error {
	depth, signs, line := 0, 0, 0
	for rest := range bytes.Lines(text) {
		line++
		signs++
		trimmed := bytes.TrimLeft(rest, " -?")
		if len(trimmed) > 0 && trimmed[0] == '#' {
			rest, trimmed = nil, nil // a comment is one word
		}
		indicators := bytes.Count(rest[:len(rest)-len(trimmed)], []byte("- ")) + bytes.Count(rest[:len(rest)-len(trimmed)], []byte("? "))
		if len(rest)-len(trimmed) > 16*deepest || indicators > deepest {
			return Position{line, 1}.errorf("this line is indented too far: more than %d values stand inside one another", deepest)
		}
		for i, sign := range rest {
			switch sign {
			case '[', '{':
				depth++
				signs++
			case ']', '}':
				depth = max(0, depth-1)
				signs++
			case ',', ':', '-', '?':
				if i+1 == len(rest) || strings.IndexByte(" \t\r\n", rest[i+1]) >= 0 || sign == ',' {
					signs++
				}
			}
			if depth > 2*deepest {
				return Position{line, i + 1}.errorf("more than %d brackets are open", 2*deepest)
			}
		}
		if signs > mostTokens {
			return Position{line, 1}.tooManyTokens()
		}
	}
	return nil
}

func (p Position) tooManyTokens() error {
	return p.errorf("the document has more than %d words and signs: put long lists of addresses into a file of package lists", mostTokens)
}

// tokensOf returns the tokens of YAML. It returns an error for parts that are not read, and for texts that would keep the
// parser busy for too long: the parser copies the keys of a block mapping for each of them, and moves all tokens for each
// value that is left out.
func tokensOf(text []byte) (token.Tokens, error) {
	tokens := lexer.Tokenize(string(text))
	if len(tokens) > mostTokens {
		return nil, positionOf(tokens[mostTokens]).tooManyTokens()
	}
	b := bounds{tokens: tokens}
	for i, one := range tokens { // each is looked at a few times at most
		if err := unread(one); err != nil {
			return nil, err
		}
		b.follow(i)
		if b.moves > mostMoves {
			return nil, positionOf(one).errorf("the document has too many names in one mapping, or leaves out too many values:" +
				" a mapping has room for some 4000 names")
		}
	}
	return tokens, nil
}

// unread returns an error if a token begins something that is not read.
func unread(one *token.Token) error {
	switch one.Type {
	case token.AnchorType, token.AliasType, token.MergeKeyType:
		return positionOf(one).errorf("anchors, aliases and merges are not read: write the value out, or name a limit")
	case token.TagType:
		return positionOf(one).errorf("tags are not read: leave %s out", one.Value)
	case token.MappingKeyType:
		return positionOf(one).errorf("a key is a text: leave the question mark out")
	default:
		return nil
	}
}

// bounds follows the tokens of a document, and counts the tokens that the parser will move.
type bounds struct {
	tokens token.Tokens
	moves  int
	blocks []block // the block mappings that are open, from the outermost one
	flows  []flow  // the brackets that are open
}

// block is a block mapping.
type block struct{ column, keys int }

// flow is the content of brackets.
type flow struct {
	mapping bool
	colon   bool // since the last comma
}

// follow goes on to the next token.
func (b *bounds) follow(i int) {
	one := b.tokens[i]
	switch one.Type {
	case token.MappingStartType, token.SequenceStartType:
		b.flows = append(b.flows, flow{mapping: one.Type == token.MappingStartType})
	case token.MappingEndType, token.SequenceEndType, token.CollectEntryType:
		b.endsEntry(i)
	case token.MappingValueType:
		column := b.keyColumn(i)
		if len(b.flows) > 0 {
			b.flows[len(b.flows)-1].colon = true
		} else {
			b.moves += b.count(column)
		}
		if b.leavesOut(i, column, token.SequenceEntryType) {
			b.moves += len(b.tokens)
		}
	case token.SequenceEntryType:
		b.closeBlocks(one.Position.Column)
		if b.leavesOut(i, one.Position.Column, token.UnknownType) {
			b.moves += len(b.tokens)
		}
	default:
	}
}

// endsEntry follows a comma or a bracket that closes.
func (b *bounds) endsEntry(i int) {
	if len(b.flows) == 0 {
		return
	}
	last := &b.flows[len(b.flows)-1]
	if last.mapping && !last.colon && i > 0 && b.tokens[i-1].Type != token.CollectEntryType && b.tokens[i-1].Type != token.MappingStartType {
		b.moves += len(b.tokens) // {a, b} has keys without values
	}
	last.colon = false
	if b.tokens[i].Type != token.CollectEntryType {
		b.flows = b.flows[:len(b.flows)-1]
	}
}

// keyColumn returns the column of the key in front of a colon.
func (b *bounds) keyColumn(i int) int {
	if i > 0 && b.tokens[i-1].Position.Line == b.tokens[i].Position.Line {
		return b.tokens[i-1].Position.Column
	}
	return b.tokens[i].Position.Column
}

// closeBlocks ends the mappings that stand further right than a token in this column.
func (b *bounds) closeBlocks(column int) {
	for len(b.blocks) > 0 && b.blocks[len(b.blocks)-1].column > column {
		b.blocks = b.blocks[:len(b.blocks)-1]
	}
}

// count counts a key of a block mapping, and returns how many stand in front of it.
func (b *bounds) count(column int) (before int) {
	b.closeBlocks(column)
	if len(b.blocks) == 0 || b.blocks[len(b.blocks)-1].column < column {
		b.blocks = append(b.blocks, block{column: column})
	}
	last := &b.blocks[len(b.blocks)-1]
	last.keys++
	return last.keys - 1
}

// leavesOut reports whether the token, which stands in a column, has no value. Tokens of a kind may begin in that column.
func (b *bounds) leavesOut(i, column int, kind token.Type) bool {
	next := i + 1
	for next < len(b.tokens) && b.tokens[next].Type == token.CommentType {
		next++
	}
	if next == len(b.tokens) {
		return true
	}
	at := b.tokens[next]
	if len(b.flows) > 0 {
		return at.Type == token.CollectEntryType || at.Type == token.MappingEndType || at.Type == token.SequenceEndType
	}
	return at.Position.Line > b.tokens[i].Position.Line && (at.Position.Column < column || at.Position.Column == column && at.Type != kind)
}
