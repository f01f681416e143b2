// Package toys proves how few files an addition to the library takes: a toy of each kind is laid over the source, and the tests of the
// library hold for it. No file is changed: the compiler is told to read others in their place.
package toys

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the directory of the library's module.
const root = "../.."

// overlay is files to read in place of those of the library, by their paths.
type overlay map[string]string

// read returns the text of a file of the library.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// insert inserts lines behind a line that a file has once.
func (o overlay) insert(t *testing.T, path, line, lines string) {
	t.Helper()
	text, known := o[path]
	if !known {
		text = read(t, path)
	}
	if n := strings.Count(text, line); n != 1 {
		t.Fatalf("%s has the line %q %d times, want once", path, line, n)
	}
	o[path] = strings.Replace(text, line, line+lines, 1)
}

// touched returns the paths of all files.
func (o overlay) touched() []string { return slices.Sorted(maps.Keys(o)) }

// write writes the files, and returns the file that tells the compiler of them.
func (o overlay) write(t *testing.T) string {
	t.Helper()
	replace, directory := make(map[string]string), t.TempDir()
	for path, text := range o {
		original, err := filepath.Abs(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		replace[original] = filepath.Join(directory, strings.ReplaceAll(path, "/", "_"))
		if err := os.WriteFile(replace[original], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	told := filepath.Join(directory, "overlay.json")
	if err := os.WriteFile(told, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return told
}

// test runs the tests of a package of the library with the files, in a directory of their own, and wants a number of them at least.
func (o overlay) test(t *testing.T, least int, of string, arguments ...string) {
	t.Helper()
	directory := t.TempDir()
	tests := filepath.Join(directory, "toy.test")
	output, err := exec.CommandContext(t.Context(), "go", "test", "-C", root, "-overlay", o.write(t), "-vet=off", "-c", "-o", tests, of).CombinedOutput()
	if err != nil {
		t.Fatalf("%s does not compile: %v\n%s", of, err, output)
	}
	run := exec.CommandContext(t.Context(), tests, append([]string{"-test.v"}, arguments...)...)
	run.Dir = directory
	if output, err = run.CombinedOutput(); err != nil {
		t.Fatalf("the tests of %s: %v\n%s", of, err, output)
	}
	if ran := strings.Count(string(output), "--- PASS"); ran < least {
		t.Errorf("%d tests ran, want %d at least:\n%s", ran, least, output)
	}
}
