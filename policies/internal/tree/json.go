package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
)

// jsonReader reads nodes from JSON.
type jsonReader struct {
	text    []byte
	decoder *json.Decoder
	offset  int      // how much of the text stands in front of at
	at      Position // where the next token began when here was called last
	nodes   int
}

func parseJSON(text []byte) (*Node, error) {
	r := jsonReader{text: text, decoder: json.NewDecoder(bytes.NewReader(text)), at: Position{1, 1}}
	r.decoder.UseNumber()
	n, err := r.value(0)
	if err != nil {
		return nil, r.positioned(err)
	}
	end := r.here()
	if _, err := r.decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, end.errorf("something follows the end of the document: remove it")
	}
	return n, nil
}

// positioned returns an error that knows where it is.
func (r *jsonReader) positioned(err error) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return after(r.text, max(0, int(syntax.Offset)-1)).errorf("this is no JSON: %v", err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return after(r.text, len(r.text)).errorf("the document ends in the middle: a brace or a bracket is not closed")
	}
	return r.here().errorf("this is no JSON: %v", err)
}

// here returns where the next token begins.
func (r *jsonReader) here() Position {
	next := int(r.decoder.InputOffset())
	for next < len(r.text) && strings.IndexByte(" \t\r\n,:", r.text[next]) >= 0 {
		next++
	}
	r.at = r.at.behind(r.text[r.offset:next])
	r.offset = next
	return r.at
}

func (r *jsonReader) value(depth int) (*Node, error) {
	n := &Node{Position: r.here()}
	if depth > deepest {
		return nil, n.errorf("more than %d values stand inside one another", deepest)
	}
	if r.nodes++; r.nodes > mostNodes {
		return nil, n.errorf("the document has more than %d values: put long lists of addresses into a file of package lists", mostNodes)
	}
	token, err := r.decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		if err := r.inside(n, token, depth); err != nil {
			return nil, err
		}
	case string:
		n.Kind, n.Text = Text, token
	case json.Number:
		n.Kind, n.Text = Number, token.String()
	case bool:
		n.Kind, n.Text = Bool, strconv.FormatBool(token)
	default:
		n.Kind = Null
	}
	return n, nil
}

// inside reads the content of a list or a mapping, and its end.
func (r *jsonReader) inside(n *Node, begin json.Delim, depth int) error {
	n.Kind = Sequence
	if begin == '{' {
		n.Kind = Mapping
	}
	for r.decoder.More() {
		if n.Kind == Mapping {
			key, err := r.value(depth)
			if err != nil {
				return err
			}
			n.Keys = append(n.Keys, key)
		}
		item, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		n.Items = append(n.Items, item)
	}
	if _, err := r.decoder.Token(); err != nil {
		return err
	}
	return n.distinct()
}
