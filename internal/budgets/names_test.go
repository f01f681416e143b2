//go:build !race

// The source is read in one goroutine: make test runs it without the race detector, which takes three times as long.

package budgets

import (
	"go/ast"
	"os"
	"slices"
	"strings"
	"testing"
)

const namesFile = "testdata/names.txt"

// Each exported name is a promise. A new one is written down here, where a reviewer sees it.
func TestExportedNamesAreWrittenDown(t *testing.T) {
	var names []string
	for _, file := range sources(t) {
		if directory := file.directory(); directory != "internal" && !strings.Contains("/"+directory+"/", "/internal/") {
			for _, declared := range file.Decls {
				names = append(names, exported(directory, declared)...)
			}
		}
	}
	slices.Sort(names)
	text := strings.Join(names, "\n") + "\n"
	keep(t, "exported names", len(names), 0)
	if *update {
		if err := os.WriteFile(namesFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	known, err := os.ReadFile(namesFile)
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.Lines(text) {
		if !strings.Contains("\n"+string(known), "\n"+name) {
			t.Errorf("%s is exported and not written down: go test ./internal/budgets -update", strings.TrimSpace(name))
		}
	}
	for name := range strings.Lines(string(known)) {
		if !strings.Contains("\n"+text, "\n"+name) {
			t.Errorf("%s is written down and not exported: go test ./internal/budgets -update", strings.TrimSpace(name))
		}
	}
}

// exported returns the exported names of a declaration: types, functions, methods of exported types, constants and variables.
func exported(directory string, declared ast.Decl) (names []string) {
	add := func(name string) { names = append(names, directory+"."+name) }
	switch declared := declared.(type) {
	case *ast.FuncDecl:
		if !declared.Name.IsExported() {
			return nil
		}
		if declared.Recv == nil {
			add(declared.Name.Name)
		} else if of := receiver(declared.Recv.List[0].Type); ast.IsExported(of) {
			add(of + "." + declared.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range declared.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					add(spec.Name.Name)
				}
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.IsExported() {
						add(name.Name)
					}
				}
			}
		}
	}
	return names
}

// receiver returns the name of a receiver's type.
func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.IndexListExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	}
	return ""
}
