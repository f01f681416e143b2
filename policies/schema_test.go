package policies

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/weir-go/ratelimit/policies/internal/tree"
)

// readSchema reads schema.json, both as a schema and as it stands there.
func readSchema(t *testing.T) (schema *jsonschema.Schema, raw map[string]any) {
	t.Helper()
	text, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", raw); err != nil {
		t.Fatal(err)
	}
	schema, err = c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema, raw
}

// value returns a text as a validator wants it.
func value(t interface{ Fatal(args ...any) }, text string) any {
	root, err := tree.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return valueOf(root)
}

func valueOf(n *tree.Node) any {
	switch n.Kind {
	case tree.Mapping:
		all := make(map[string]any)
		for i, key := range n.Keys {
			all[key.Text] = valueOf(n.Items[i])
		}
		return all
	case tree.Sequence:
		all := make([]any, len(n.Items))
		for i, item := range n.Items {
			all[i] = valueOf(item)
		}
		return all
	case tree.Number:
		return json.Number(n.Text)
	case tree.Bool:
		return n.Text == "true"
	case tree.Null:
		return nil
	default:
	}
	return n.Text
}

// Whatever is read suits the schema.
func TestSchemaTakesWhatIsRead(t *testing.T) {
	schema, _ := readSchema(t)
	for _, text := range []string{whole, matching, rules(8), "limitsNothing: true\n", "limitsNothing: true\nlists: {deny: [192.0.2.1]}"} {
		if err := schema.Validate(value(t, text)); err != nil {
			t.Errorf("%v of\n%s", err, text)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := drawDocument(t).String()
		if err := schema.Validate(value(t, text)); err != nil {
			t.Fatalf("%v of\n%s", err, text)
		}
	})
}

// The schema refuses what cannot be read, as far as it is about the shape.
func TestSchemaRefuses(t *testing.T) {
	schema, _ := readSchema(t)
	for _, text := range []string{
		"{}", "limits: {}", "policies: []", "limitsNothing: false\n", "lists: {deny: [192.0.2.1]}", "plans: {a: {free: 'leaky 1, 1/s'}}",
		"lists: {}\npolicies: [{limit: 'leaky 1, 1/s', key: ip}]", "lists: {deny: []}\npolicies: [{limit: 'leaky 1, 1/s', key: ip}]",
		"limit: {}", "limits: []", "limits: {a: 5}", "limits: {9a: 'leaky 1, 1/s'}", "version: 2", "plans: {a: {}}", "bans: {a: 'leaky 1, 1/s'}",
		"lists: {allow: x}", "lists: {address: user}", "policies: {}", "policies: [{key: ip}]", "policies: [{limit: a, ban: b}]",
		"policies: [{limit: a, keys: ip}]", "policies: [{limit: a, cost: -1}]", "policies: [{limit: a, settle: {6xx: 1}}]", "policies: [{limit: a, settle: {}}]",
		"policies: [{limit: a, settle: {5xx: forgive}}]", "policies: [{limit: a, enforced: 25}]", "policies: [{limit: a, onError: shut}]",
		"policies: [{limit: a, maxWait: 5}]", "policies: [{limit: a, shadow: 1}]", "policies: [{limit: a, match: []}]", "policies: [{limit: a, match: {path: /}}]",
		"policies: [{firstOf: [{limit: a, shadow: true}]}]", "policies: [{limit: a, headroom: x}]",
	} {
		if schema.Validate(value(t, text)) == nil {
			t.Errorf("the schema takes %s", text)
		}
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}

// The schema knows the fields that are read, and no other.
func TestSchemaHasTheFields(t *testing.T) {
	_, raw := readSchema(t)
	definitions := raw["$defs"].(map[string]any)
	match := definitions["match"].(map[string]any)["anyOf"].([]any)[1]
	for text, of := range map[string]any{
		"x: 1":                            raw,
		"lists: {x: 1}":                   raw["properties"].(map[string]any)["lists"],
		"policies: [{x: 1}]":              definitions["policy"],
		"policies: [{firstOf: [{x: 1}]}]": definitions["alternative"],
		"policies: [{match: {x: 1}}]":     match,
	} {
		_, err := Parse([]byte(text))
		found, _ := errors.AsType[Errors](err)
		_, names, _ := strings.Cut(found[0].Reason, "want one of ")
		known := strings.Split(names, ", ")
		slices.Sort(known)
		if stated := slices.Sorted(maps.Keys(of.(map[string]any)["properties"].(map[string]any))); !slices.Equal(stated, known) {
			t.Errorf("%s: the schema has %q, and the reader %q", text, stated, known)
		}
	}
}
