package descriptors

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The words of YAML 1.1 for yes and no. YAML 1.2, which the library reads, has true and false alone.
var booleans = map[string]bool{}

func init() { //nolint:gochecknoinits // a table that is made of a shorter one
	for value, words := range map[bool]string{true: "y yes true on", false: "n no false off"} {
		for word := range strings.FieldsSeq(words) {
			booleans[word], booleans[strings.ToUpper(word)], booleans[strings.ToUpper(word[:1])+word[1:]] = value, value, value
		}
	}
}

// decimal is a number that is no integer.
var decimal = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

// quoted reports whether a scalar is a text, whatever it looks like.
func quoted(n *yaml.Node) bool {
	const texts = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	return n.Style&texts != 0 || n.Style&yaml.TaggedStyle != 0 && n.ShortTag() == "!!str"
}

// null reports whether a value is left out.
func null(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode || quoted(n) {
		return false
	}
	switch n.Value {
	case "", "~", "null", "Null", "NULL":
		return true
	}
	return false
}

// integer returns a whole number as YAML 1.1 writes it: also 0x1f, 0b11, 017 and 1_000.
func integer(n *yaml.Node) (int64, bool) {
	if quoted(n) {
		return 0, false
	}
	i, err := strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 0, 64)
	return i, err == nil
}

// value returns a scalar as JSON has it.
func value(n *yaml.Node) (any, error) {
	if quoted(n) {
		return n.Value, nil
	}
	if null(n) {
		return nil, nil //nolint:nilnil // null is a value
	}
	if b, ok := booleans[n.Value]; ok {
		return b, nil
	}
	if i, ok := integer(n); ok {
		return float64(i), nil
	}
	if plain := strings.ReplaceAll(n.Value, "_", ""); decimal.MatchString(plain) {
		f, err := strconv.ParseFloat(plain, 64)
		if err != nil || math.IsInf(f, 0) {
			return nil, fmt.Errorf("%s is too large a number", n.Value)
		}
		return f, nil
	}
	switch strings.ToLower(strings.TrimLeft(n.Value, "+-")) {
	case ".inf", ".nan":
		return nil, fmt.Errorf("%s is no number that metadata can have", n.Value)
	}
	return n.Value, nil
}

// keyText returns the key of a mapping in metadata as the reference writes it: a key y becomes true.
func keyText(n *yaml.Node) (string, error) {
	v, err := value(n)
	if err != nil {
		return "", err
	}
	switch v := v.(type) {
	case nil:
		return "<nil>", nil
	case bool:
		return strconv.FormatBool(v), nil
	case float64:
		if i, ok := integer(n); ok {
			return strconv.FormatInt(i, 10), nil
		}
		return fmt.Sprint(v), nil
	}
	return n.Value, nil
}
