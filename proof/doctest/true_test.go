package doctest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A snippet that declares functions, such as a test, stands word for word in this package,
// where it is run.
func TestSnippetsAreRun(t *testing.T) {
	shown, err := os.ReadFile("shown_test.go")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, p := range pages(t) {
		for _, s := range snippets(p) {
			if !strings.HasPrefix(s.text, "import ") && declaresFunctions(s.text) {
				ran++
				if !strings.Contains(string(shown), s.text+"\n") {
					t.Errorf("%s:%d: the snippet declares functions, and does not stand word for word in proof/doctest/shown_test.go", s.page, s.line)
				}
			}
		}
	}
	if ran < 5 {
		t.Errorf("only %d snippets declare functions", ran)
	}
}

func declaresFunctions(text string) bool {
	file, err := parser.ParseFile(token.NewFileSet(), "", "package p;"+text, parser.SkipObjectResolution)
	if err != nil {
		return false
	}
	for _, d := range file.Decls {
		if _, ok := d.(*ast.FuncDecl); ok {
			return true
		}
	}
	return false
}

// message is what docs/troubleshooting.md says is logged.
var message = regexp.MustCompile("`((?:core|ratelimit): [^`]+)`")

// Every message that docs/troubleshooting.md explains is logged somewhere.
func TestMessagesAreLogged(t *testing.T) {
	texts := literals(t)
	for _, p := range pages(t) {
		if p.name != "docs/troubleshooting.md" {
			continue
		}
		found := 0
		p.prose(func(number int, line string) {
			for _, m := range message.FindAllStringSubmatch(line, -1) {
				found++
				if !texts[m[1]] {
					t.Errorf("%s:%d: nothing logs %q", p.name, number, m[1])
				}
			}
		})
		if found < 15 {
			t.Errorf("only %d messages were found", found)
		}
	}
}

// literals returns the texts in the module's own code, tests and examples apart.
func literals(t *testing.T) map[string]bool {
	t.Helper()
	texts := make(map[string]bool)
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "bench" || name == "examples" || name == "internal"):
			return fs.SkipDir
		case path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(name)), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				text, _ := strconv.Unquote(literal.Value)
				texts[text] = true
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}
