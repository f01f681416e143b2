package policies

import (
	"os"
	"strings"
	"testing"
)

// What the documentation shows can be read, and suits the schema.
func TestDocumentationIsRead(t *testing.T) {
	schema, _ := readSchema(t)
	found := 0
	for _, page := range []string{"../README.md", "../docs/policies.md", "../docs/bans.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			found++
			if _, err := Parse([]byte(block)); err != nil {
				t.Errorf("%s: %v of\n%s", page, err, block)
			}
			if err := schema.Validate(value(t, block)); err != nil {
				t.Errorf("%s: %v of\n%s", page, err, block)
			}
		}
	}
	if found < 3 {
		t.Errorf("%d blocks", found)
	}
	inDoc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(inDoc), "schema.json.\n//\n")
	block, _, _ = strings.Cut(block, "// [Policy] has")
	block = strings.ReplaceAll(strings.ReplaceAll(block, "//\t", ""), "//\n", "\n")
	if _, err := Parse([]byte(block)); err != nil {
		t.Errorf("doc.go: %v of\n%s", err, block)
	}
}
