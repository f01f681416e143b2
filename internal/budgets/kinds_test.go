//go:build !race

// The source is read in one goroutine: make test runs it without the race detector, which takes three times as long.

package budgets

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

var (
	// predicates are methods that ask which kind of limit there is, or how it counts, and traits are fields that tell it.
	predicates = []string{
		"Bans", "Dated", "Delays", "Holds", "Kind", "Lists", "Logs", "Noted", "Prepaid", "Shares", "Windowed",
		"bans", "holds", "isBan", "reserves", "shares",
	}
	traits = []string{"Bans", "Counted", "Dated", "Delayed", "Delays", "Itemized", "Mended", "Places", "Prepaid", "Reserves", "Shared", "Shares", "Windowed"}
	// kinds are the kinds of limits. A type assertion and a type switch ask for them, unless they go on with the value.
	kinds = []string{"Quota", "Places", "Bans"}
)

// What depends on the kind of a limit belongs to the kinds. Each question elsewhere is a place that a new algorithm, or the
// next reader, has to know.
func TestFewAskWhichKindOfLimitThereIs(t *testing.T) {
	asked := 0
	for _, file := range sources(t) {
		if strings.HasPrefix(file.path, "core/internal/exact/") || strings.HasPrefix(file.path, "keyfuncs/") { // which knows no limit
			continue
		}
		ast.Inspect(file.File, func(node ast.Node) bool {
			if !asksForKind(node) {
				return true
			}
			t.Log(file.set.Position(node.Pos()))
			asked++
			_, called := node.(*ast.CallExpr)
			return !called // which has the name of the method in it
		})
	}
	keep(t, "questions about the kind of a limit, outside of core/internal/exact", asked, 0)
}

// asksForKind reports whether a node of a source asks for the kind of a limit, and does not go on with a limit of that kind.
func asksForKind(node ast.Node) bool {
	switch node := node.(type) {
	case *ast.CallExpr:
		called, ok := node.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		of, ok := called.X.(*ast.Ident)
		return len(node.Args) == 0 && slices.Contains(predicates, called.Sel.Name) || ok && of.Name == "unexported" && called.Sel.Name == "TraitsOf"
	case *ast.SelectorExpr:
		of, named := node.X.(*ast.Ident)
		ofPackage := named && slices.Contains([]string{"core", "exact"}, of.Name)
		return !ofPackage && slices.Contains(traits, node.Sel.Name)
	case *ast.AssignStmt:
		asserted, ok := node.Rhs[0].(*ast.TypeAssertExpr)
		into, named := node.Lhs[0].(*ast.Ident)
		return ok && named && into.Name == "_" && asserted.Type != nil && isKind(asserted.Type)
	case *ast.TypeSwitchStmt:
		_, bare := node.Assign.(*ast.ExprStmt)
		return bare && slices.ContainsFunc(node.Body.List, func(one ast.Stmt) bool {
			clause, ok := one.(*ast.CaseClause)
			return ok && slices.ContainsFunc(clause.List, isKind)
		})
	}
	return false
}

// isKind reports whether an expression is a type of limits.
func isKind(of ast.Expr) bool {
	switch of := of.(type) {
	case *ast.Ident:
		return slices.Contains(kinds, of.Name)
	case *ast.SelectorExpr:
		return slices.Contains(kinds, of.Sel.Name)
	}
	return false
}
