//go:build !race

// The source is read in one goroutine: make test runs it without the race detector, which takes three times as long.

package budgets

import (
	"bufio"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write the numbers of testdata/budgets.txt and the names of testdata/names.txt anew")

const (
	root        = "../.."
	budgetsFile = "testdata/budgets.txt"
)

// budgets returns the numbers that are not to be exceeded, by their names.
func budgets(t *testing.T) map[string]int {
	t.Helper()
	file, err := os.Open(budgetsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	all := make(map[string]int)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		colon := strings.LastIndex(line, ": ")
		if colon < 0 {
			t.Fatalf("%s has the line %q, want a name and a number", budgetsFile, line)
		}
		most, err := strconv.Atoi(line[colon+2:])
		if err != nil {
			t.Fatalf("%s: %v", budgetsFile, err)
		}
		all[line[:colon]] = most
	}
	return all
}

// keep wants a number to be no more than its budget and, unless runs differ by as much as the slack, no less: a lower one is
// the new budget.
func keep(t *testing.T, name string, number, slack int) {
	t.Helper()
	all := budgets(t)
	if *update {
		all[name] = number + slack
		names := make([]string, 0, len(all))
		for own := range all {
			names = append(names, own)
		}
		slices.Sort(names)
		var text strings.Builder
		for _, own := range names {
			_, _ = fmt.Fprintf(&text, "%s: %d\n", own, all[own])
		}
		if err := os.WriteFile(budgetsFile, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	switch most, ok := all[name]; {
	case !ok:
		t.Errorf("%s has no line for %q: it is %d", budgetsFile, name, number)
	case number > most:
		t.Errorf("%s: %d, and at most %d were allowed", name, number, most)
	case number < most-2*slack:
		t.Errorf("%s: %d, which is better than %d: go test ./internal/budgets -update writes it down", name, number, most)
	}
}

// source is a file of the library.
type source struct {
	*ast.File

	path string // from the root of the module, with slashes
	set  *token.FileSet
}

// sources returns the files of the library that are no tests: those of the packages that users import, and what these
// packages import. Examples, commands, benchmarks and kits for tests are others.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parsed parses the files of the library once for all tests: under the race detector that takes a second.
var parsed = sync.OnceValues(func() (all []source, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		name = filepath.ToSlash(name)
		if entry.IsDir() {
			if name != "." && skipped(name) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		all = append(all, source{file, name, set})
		return err
	})
	return all, err
})

// outside are the directories that do not belong to the library.
var outside = []string{".ci", ".git", ".github", "bench", "cmd", "docs", "examples", "proof"}

// kits are packages for tests, inside of the library's directories.
var kits = []string{
	"core/storetest", "guard/guardtest", "internal/adapters", "internal/budgets", "internal/conformance", "internal/faultproxy", "internal/postgrestest", "internal/redistest", "internal/repeatable",
	"internal/routertest", "internal/servertest",
}

func skipped(directory string) bool {
	if filepath.Base(directory) == "testdata" || slices.Contains(kits, directory) {
		return true
	}
	return slices.Contains(outside, directory)
}

// directory returns that of a file, from the root.
func (s source) directory() string { return filepath.ToSlash(filepath.Dir(s.path)) }
