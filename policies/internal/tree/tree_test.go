package tree_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/policies/internal/tree"
)

// outline writes a node with where it stands.
func outline(n *tree.Node) string {
	at := fmt.Sprintf("@%d:%d", n.Line, n.Column)
	switch n.Kind {
	case tree.Mapping:
		var pairs []string
		for i, key := range n.Keys {
			pairs = append(pairs, outline(key)+"="+outline(n.Items[i]))
		}
		return "{" + strings.Join(pairs, " ") + "}" + at
	case tree.Sequence:
		var items []string
		for _, item := range n.Items {
			items = append(items, outline(item))
		}
		return "[" + strings.Join(items, " ") + "]" + at
	case tree.Null:
		return "null" + at
	default:
	}
	return n.Text + at
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\nb:\n  - x\n  - y: true\n":  "{a@1:1=1@1:4 b@2:1=[x@3:5 {y@4:5=true@4:8}@4:5]@3:3}@1:1",
		"a:\nb: [p, 'q r']":               "{a@1:1=null@1:1 b@2:1=[p@2:5 q r@2:8]@2:4}@1:1",
		"a: |\n  x\n  y\n":                "{a@1:1=x\ny\n@1:4}@1:1",
		"# c\n200: POST /a/{id}":          "{200@2:1=POST /a/{id}@2:6}@2:1",
		"{\n\t\"a\": [1, {\"b\": null}]}": "{a@2:2=[1@2:8 {b@2:12=null@2:17}@2:11]@2:7}@1:1",
		"---\na: b\n...\n":                "{a@2:1=b@2:4}@2:1",
		"\ufeffa: ä b # c":                "{a@1:1=ä b@1:4}@1:1",
	} {
		n, err := tree.Parse([]byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got := outline(n); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "line 1, column 1: the document is empty",
		"# nothing\n":                            "line 1, column 1: the document is empty",
		"a: 1\nb: 2\na: 3":                       "line 3, column 1: ",
		`{"a": 1, "a": 2}`:                       `line 1, column 10: "a" stands here a second time: it is in line 1 already`,
		"a: &x 1\nb: *x":                         "line 1, column 4: anchors, aliases and merges are not read: write the value out, or name a limit",
		"a: !!str 1":                             "line 1, column 4: tags are not read: leave !!str out",
		"a: 1\n---\nb: 2":                        "line 3, column ",
		"a: [1":                                  "line 1, column ",
		"{\"a\": 1":                              "line 1, column 8: the document ends in the middle: a brace or a bracket is not closed",
		"{\"a\": 1}\n{":                          "line 2, column 1: something follows the end of the document: remove it",
		"{\"a\" 1}":                              "line 1, column ",
		"a: \xff":                                "line 1, column 4: this is no UTF-8",
		strings.Repeat("[", 1000):                "line 1, column 65: more than 64 brackets are open",
		strings.Repeat(`{"a":`, 1000):            "line 1, column ",
		"a:\n" + strings.Repeat("- ", 1000):      "line 2, column 1: this line is indented too far: more than 32 values stand inside one another",
		strings.Repeat(" ", 5000) + "a: 1":       "line 1, column 1: this line is indented too far: more than 32 values stand inside one another",
		strings.Repeat("#\n", tree.Most/2) + "a": "line 1, column 1: the document has 1048577 bytes, which are more than 1048576",
		"a:\n" + strings.Repeat("- 1\n", 1<<16):  "line 65537, column 1: the document has more than 131072 words and signs: ",
		"%YAML 1.1\n---\na: 1":                   "line 1, column 1: directives are not read: leave the line out",
		"a: 1\nb:\n  c: 1\n  d: 1\n  c: 1":       `line 5, column 3: "c" stands here a second time: it is in line 3 already`,
		"a: {b: 1, b: 2}":                        `line 1, column 11: "b" stands here a second time: it is in line 1 already`,
	} {
		_, err := tree.Parse([]byte(text))
		if _, ok := errors.AsType[*tree.Error](err); !ok || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
}

// YAML reads JSON, too: both readers say the same.
func TestJSONIsYAML(t *testing.T) {
	text := `{"a": ["x", 2, true, null], "b": {"c": "d e"}}`
	asJSON, err := tree.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := tree.Parse([]byte("---\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	strip(asJSON)
	strip(asYAML)
	if !reflect.DeepEqual(asJSON, asYAML) {
		t.Errorf("JSON %s, YAML %s", outline(asJSON), outline(asYAML))
	}
}

// Each position goes on from the one before: a long document is not counted from its beginning for each of its values.
func TestPositionsInLongJSON(t *testing.T) {
	const items = 1 << 16
	text := `{"ä": [` + strings.Repeat("1,\n", items) + "true, \"ö\",\n\n  false]}"
	n, err := tree.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	list := n.Items[0]
	if got, want := outline(list.Items[0])+" "+outline(list.Items[1])+" "+outline(list.Items[items])+" "+outline(list.Items[items+1])+" "+outline(list.Items[items+2]),
		fmt.Sprintf("1@1:8 1@2:1 true@%d:1 ö@%d:7 false@%d:3", items+1, items+1, items+3); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func strip(n *tree.Node) {
	n.Position = tree.Position{}
	for _, below := range append(n.Keys, n.Items...) {
		strip(below)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"a: 1\nb: [x, {y: z}]\n", `{"a": [1, "b", null]}`, "a: |\n x", "- ? a\n: b", "a: &x 1\n<<: *x"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := tree.Parse(text)
		if _, ok := errors.AsType[*tree.Error](err); (err == nil) == ok || (n == nil) != ok {
			t.Fatalf("%q: %v, %v", text, n, err)
		}
	})
}
