package tree

import (
	"bytes"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

func parseYAML(text []byte) (n *Node, err error) {
	if err := tooDeep(text); err != nil {
		return nil, err
	}
	defer func() { // what another program writes must not end this one
		if reason := recover(); reason != nil {
			n, err = nil, Position{1, 1}.errorf("this cannot be read as YAML: %v", reason)
		}
	}()
	tokens := lexer.Tokenize(string(text))
	if len(tokens) > mostTokens {
		return nil, positionOf(tokens[mostTokens]).errorf(
			"the document has more than %d words and signs: put long lists of addresses into a file of package lists", mostTokens)
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // which distinct finds faster
	if err != nil {
		return nil, positioned(err)
	}
	var body ast.Node
	for _, document := range file.Docs {
		if document.Body == nil || document.Body.Type() == ast.CommentType {
			continue
		}
		if document.Body.Type() == ast.DirectiveType {
			return nil, positionOf(document.Body.GetToken()).errorf("directives are not read: leave the line out")
		}
		if body != nil {
			return nil, positionOf(document.Body.GetToken()).errorf("a second document begins here: write one for each file")
		}
		body = document.Body
	}
	if body == nil {
		return nil, Position{1, 1}.errorf("the document is empty")
	}
	return yamlNode(body, 0)
}

// tooDeep returns an error if a text opens many more brackets than it closes, or is indented far, before anything reads it by recursion.
func tooDeep(text []byte) error {
	depth := 0
	line := 0
	for rest := range bytes.Lines(text) {
		line++
		trimmed := bytes.TrimLeft(rest, " -?")
		if len(trimmed) > 0 && trimmed[0] == '#' {
			continue
		}
		indicators := bytes.Count(rest[:len(rest)-len(trimmed)], []byte("- ")) + bytes.Count(rest[:len(rest)-len(trimmed)], []byte("? "))
		if len(rest)-len(trimmed) > 16*deepest || indicators > deepest {
			return Position{line, 1}.errorf("this line is indented too far: more than %d values stand inside one another", deepest)
		}
		for i, b := range rest {
			switch b {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(0, depth-1)
			}
			if depth > 2*deepest {
				return Position{line, i + 1}.errorf("more than %d brackets are open", 2*deepest)
			}
		}
	}
	return nil
}

// positioned returns an error of the parser that knows where it is.
func positioned(err error) error {
	if known, ok := err.(interface {
		GetToken() *token.Token
		GetMessage() string
	}); ok {
		hint := ""
		if strings.Contains(known.GetMessage(), "must be specified") {
			hint = ": put quotes around a text that has commas, braces or brackets"
		}
		return positionOf(known.GetToken()).errorf("this is no YAML: %s%s", known.GetMessage(), hint)
	}
	return Position{1, 1}.errorf("this is no YAML: %s", strings.TrimSpace(err.Error()))
}

func positionOf(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return Position{1, 1}
	}
	return Position{t.Position.Line, t.Position.Column}
}

// yamlNode returns the node of what the parser has read.
func yamlNode(from ast.Node, depth int) (*Node, error) {
	n := &Node{Position: positionOf(from.GetToken())}
	if depth > deepest {
		return nil, n.errorf("more than %d values stand inside one another", deepest)
	}
	switch from := from.(type) {
	case *ast.NullNode:
		n.Kind = Null
	case *ast.BoolNode:
		n.Kind, n.Text = Bool, from.GetToken().Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		n.Kind, n.Text = Number, from.GetToken().Value
	case *ast.StringNode:
		n.Kind, n.Text = Text, from.Value
	case *ast.LiteralNode:
		n.Kind, n.Text = Text, from.Value.Value
	case *ast.MappingNode:
		n.Kind = Mapping
		if len(from.Values) > 0 && !from.IsFlowStyle {
			n.Position = positionOf(from.Values[0].Key.GetToken())
		}
		if err := n.addPairs(from.Values, depth); err != nil {
			return nil, err
		}
	case *ast.MappingValueNode:
		n.Kind, n.Position = Mapping, positionOf(from.Key.GetToken())
		if err := n.addPairs([]*ast.MappingValueNode{from}, depth); err != nil {
			return nil, err
		}
	case *ast.SequenceNode:
		n.Kind = Sequence
		for _, value := range from.Values {
			item, err := yamlNode(value, depth+1)
			if err != nil {
				return nil, err
			}
			n.Items = append(n.Items, item)
		}
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return nil, n.errorf("anchors, aliases and merges are not read: write the value out, or name a limit")
	case *ast.TagNode:
		return nil, n.errorf("tags are not read: leave %s out", from.Start.Value)
	default:
		return nil, n.errorf("a %s is not read here", from.Type())
	}
	return n, nil
}

// addPairs adds keys and their values to a mapping.
func (n *Node) addPairs(pairs []*ast.MappingValueNode, depth int) error {
	for _, pair := range pairs {
		key, err := yamlNode(pair.Key, depth)
		if err != nil {
			return err
		}
		if key.Kind == Mapping || key.Kind == Sequence {
			return key.errorf("a key is a text")
		}
		if key.Kind == Null {
			key.Text = "null"
		}
		item, err := yamlNode(pair.Value, depth+1)
		if err != nil {
			return err
		}
		if item.Kind == Null {
			item.Position = key.Position
		}
		n.Keys, n.Items = append(n.Keys, key), append(n.Items, item)
	}
	return n.distinct()
}
