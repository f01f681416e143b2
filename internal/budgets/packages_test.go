//go:build !race

// The source is read in one goroutine: make test runs it without the race detector, which takes three times as long.

package budgets

import (
	"go/ast"
	"strings"
	"testing"
)

const module = "github.com/weir-go/ratelimit/"

// fewLines is how many lines of code a package has that is hardly one.
const fewLines = 150

// A package that one other imports, and that is small, is a file of that other one. A type parameter is for several types.
func TestPackagesAreWorthTheirName(t *testing.T) {
	importers, lines := make(map[string]map[string]bool), make(map[string]int)
	parameters := 0
	for _, file := range sources(t) {
		directory := file.directory()
		lines[directory] += codeLines(file)
		for _, spec := range file.Imports {
			own, ok := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module)
			if !ok {
				continue
			}
			if importers[own] == nil {
				importers[own] = make(map[string]bool)
			}
			importers[own][directory] = true
		}
		for _, declared := range file.Decls {
			parameters += typeParameters(declared)
		}
	}
	small := 0
	for directory, code := range lines {
		if strings.Contains(directory, "internal/") && len(importers[directory]) == 1 && code < fewLines {
			small++
		}
	}
	keep(t, "packages of the library", len(lines), 0)
	keep(t, "internal packages of under 150 lines that one other imports", small, 0)
	keep(t, "declarations with type parameters", parameters, 0)
}

// codeLines returns how many lines of a file have code.
func codeLines(file source) int {
	lines := make(map[int]bool)
	ast.Inspect(file.File, func(node ast.Node) bool {
		switch node.(type) {
		case nil, *ast.Comment, *ast.CommentGroup:
			return false
		}
		lines[file.set.Position(node.Pos()).Line] = true
		lines[file.set.Position(node.End()).Line] = true
		return true
	})
	return len(lines)
}

// typeParameters returns 1 for each type or function of a declaration that has some.
func typeParameters(declared ast.Decl) (n int) {
	switch declared := declared.(type) {
	case *ast.FuncDecl:
		if declared.Type.TypeParams != nil {
			return 1
		}
	case *ast.GenDecl:
		for _, spec := range declared.Specs {
			if named, ok := spec.(*ast.TypeSpec); ok && named.TypeParams != nil {
				n++
			}
		}
	}
	return n
}
