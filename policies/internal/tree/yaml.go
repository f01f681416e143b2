package tree

import (
	"bytes"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

func parseYAML(text []byte) (n *Node, err error) {
	if err := tooMuch(text); err != nil {
		return nil, err
	}
	defer func() { // a panic of the parser's must not end this program
		if reason := recover(); reason != nil {
			n, err = nil, Position{1, 1}.errorf("this cannot be read as YAML: %v", reason)
		}
	}()
	tokens, err := tokensOf(text)
	if err != nil {
		return nil, err
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
	n, err = yamlNode(body, 0)
	if err == nil && !bytes.HasSuffix(text, []byte{'\n'}) && len(tokens) > 0 {
		n.Cut = cut(tokens[len(tokens)-1])
	}
	return n, err
}

// cut returns where a value begins that may have been longer, if it is the last thing in a text.
func cut(last *token.Token) Position {
	switch last.Type {
	case token.MappingEndType, token.SequenceEndType, token.SingleQuoteType, token.DoubleQuoteType, token.CommentType, token.DocumentEndType:
		return Position{}
	default:
		return positionOf(last)
	}
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

// yamlNode returns the Node of a node of the parser.
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
