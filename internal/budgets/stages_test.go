//go:build !race

// The source is read in one goroutine: make test runs it without the race detector, which takes three times as long.

package budgets

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// stages are the files of package guard in the order of its stages: each uses those before it.
var stages = []string{
	"kind.go", "queue_policy.go", "settle_policy.go", "ban.go", "list.go", "policy.go", "alternatives.go", "event.go", "options.go", "validate.go", // policies
	"call.go", "share.go", "accept.go", "body.go", "log.go", "generation.go", "reservation.go", "context.go", "outcomes.go", "copies.go", "nested.go", // what is known
	"check.go", "plan.go", "rules.go", // plan
	"settle.go", "grow.go", "denial.go", "verdict.go", "upstream.go", // settle, answer
	"places.go", "ask.go", "degraded.go", "decide.go", "plain.go", // decide
	"guard.go", "adaptive.go", "explain.go", "comparison.go", "doc.go",
}

// The files of package guard follow the way of a request. What a file uses stands in the files before it, except for a few types that
// point at each other.
func TestTheStagesOfGuardPointOneWay(t *testing.T) {
	back := 0
	for arrow, names := range arrows(t, "guard") {
		from, to := slices.Index(stages, arrow[0]), slices.Index(stages, arrow[1])
		if from < 0 || to < 0 {
			t.Fatalf("%s or %s is in no stage: say in which", arrow[0], arrow[1])
		}
		if from < to {
			back++
			t.Logf("%s uses %s of %s", arrow[0], strings.Join(names, ", "), arrow[1])
		}
	}
	keep(t, "arrows between guard's files that run back", back, 0)
}

// arrows returns which file of a package uses which other one, and the names of the declarations that it uses.
func arrows(t *testing.T, directory string) map[[2]string][]string {
	t.Helper()
	set, paths := token.NewFileSet(), exportsOf(t, directory)
	var files []*ast.File
	for _, source := range sources(t) {
		if source.directory() == directory {
			file, err := parser.ParseFile(set, filepath.Join(root, source.path), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(paths[path]) })}
	own, err := config.Check(module+directory, set, files, info)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[[2]string][]string)
	for use, of := range info.Uses {
		if of.Pkg() != own || !declared(of) {
			continue
		}
		arrow := [2]string{filepath.Base(set.Position(use.Pos()).Filename), filepath.Base(set.Position(of.Pos()).Filename)}
		if arrow[0] != arrow[1] && !slices.Contains(found[arrow], of.Name()) {
			found[arrow] = append(found[arrow], of.Name())
		}
	}
	return found
}

// declared reports whether an object is a declaration of its own: a function, a method, a type, or a variable or constant of the package.
func declared(of types.Object) bool {
	_, isFunction := of.(*types.Func)
	return isFunction || of.Parent() == of.Pkg().Scope()
}

// exportsOf returns the files with the exported types of the packages that one imports.
func exportsOf(t *testing.T, directory string) map[string]string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./"+directory)
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	paths := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		if path, file, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			paths[path] = file
		}
	}
	return paths
}
