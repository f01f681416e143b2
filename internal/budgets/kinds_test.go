package budgets

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// predicates ask which kind of limit there is, or how it counts.
var predicates = []string{"Bans", "Dated", "Delays", "Holds", "Lists", "Logs", "Slides", "Windowed"}

// What depends on the kind of a limit belongs to the kinds. Each question elsewhere is a place that a new algorithm, or the
// next reader, has to know.
func TestFewAskWhichKindOfLimitThereIs(t *testing.T) {
	asked := 0
	for _, file := range sources(t) {
		if strings.HasPrefix(file.path, "core/internal/exact/") {
			continue
		}
		ast.Inspect(file.File, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok && len(call.Args) == 0 {
				if method, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(predicates, method.Sel.Name) {
					asked++
				}
			}
			return true
		})
	}
	keep(t, "questions about the kind of a limit, outside of core/internal/exact", asked, 0)
}
