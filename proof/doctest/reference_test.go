package doctest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// parsed returns a file of the module, with its comments.
func parsed(t *testing.T, name string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(name)), nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// adapters returns the directories of the adapters: each has the file that is generated for all of them.
func adapters(t *testing.T) (directories []string) {
	t.Helper()
	for _, pattern := range []string{"*/limits.go", "*/*/limits.go"} {
		files, err := fs.Glob(os.DirFS(root), pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			directories = append(directories, path.Dir(file))
		}
	}
	if len(directories) < 4 {
		t.Fatalf("the adapters are %q", directories)
	}
	return directories
}

// The documentation of each adapter names each of its functions that is one limit in one line.
func TestAdaptersNameTheirOneLiners(t *testing.T) {
	for _, adapter := range adapters(t) {
		about := parsed(t, adapter+"/doc.go").Doc.Text()
		found := 0
		for _, d := range parsed(t, adapter+"/limits.go").Decls {
			function, ok := d.(*ast.FuncDecl)
			if !ok || !function.Name.IsExported() {
				continue
			}
			parameters := function.Type.Params.List
			last := parameters[len(parameters)-1]
			if _, variadic := last.Type.(*ast.Ellipsis); !variadic || last.Names[0].Name != "by" {
				continue
			}
			found++
			if !strings.Contains(about, "["+function.Name.Name+"]") {
				t.Errorf("the documentation of %s does not name %s", adapter, function.Name.Name)
			}
		}
		if found < 9 {
			t.Errorf("%s has %d one-liners", adapter, found)
		}
	}
}
