package budgets

import (
	"go/ast"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/internal/redistest"
)

// The way of a warm call is as short as it was: what a plain check does not need, it does not pass.
func TestTheWayOfACallIsShort(t *testing.T) {
	program := filepath.Join(t.TempDir(), "journey")
	var covered []string
	for _, directory := range library {
		covered = append(covered, module+directory+"/...")
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-cover", "-covermode=atomic", "-coverpkg="+strings.Join(covered, ","), "-o", program, "./journey")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	redis := "redis://" + redistest.Start(t).Addr()
	for _, journey := range []string{"Allow", "Acquire and Release", "nethttp.Leaky", "a request with Settle"} {
		directory := t.TempDir()
		if out, err := exec.CommandContext(t.Context(), program, journey, redis, directory).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", journey, err, out)
		}
		runs, err := filepath.Glob(filepath.Join(directory, "*"))
		if err != nil || len(runs) == 0 {
			t.Fatal(runs, err)
		}
		functions, files := math.MaxInt, math.MaxInt
		for _, run := range runs { // some have met what goes on behind a call
			own, in := executed(t, run)
			functions, files = min(functions, own), min(files, in)
		}
		keep(t, journey+": functions", functions, 3)
		keep(t, journey+": files", files, 1)
	}
}

// executed returns how many functions of the library have run, and in how many files, by the counters in a directory.
func executed(t *testing.T, directory string) (functions, files int) {
	t.Helper()
	profile := filepath.Join(directory, "profile")
	if out, err := exec.CommandContext(t.Context(), "go", "tool", "covdata", "textfmt", "-i="+directory, "-o="+profile).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	ran := make(map[string][]int) // the lines at which blocks begin that have run
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line) // file.go:12.3,14.5 statements count
		path, block, ok := strings.Cut(fields[0], ".go:")
		if !ok || fields[len(fields)-1] == "0" {
			continue
		}
		first, _, _ := strings.Cut(block, ".")
		at, err := strconv.Atoi(first)
		if err != nil {
			t.Fatal(line, err)
		}
		path = strings.TrimPrefix(path, module) + ".go"
		ran[path] = append(ran[path], at)
	}
	for _, file := range sources(t) {
		blocks := ran[file.path]
		before := functions
		for _, declared := range file.Decls {
			if function, ok := declared.(*ast.FuncDecl); ok && function.Body != nil {
				begin, end := file.set.Position(function.Pos()).Line, file.set.Position(function.End()).Line
				for _, at := range blocks {
					if begin <= at && at <= end {
						functions++
						break
					}
				}
			}
		}
		if functions > before {
			files++
		}
	}
	return functions, files
}
