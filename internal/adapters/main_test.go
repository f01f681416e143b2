package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A user who changes the framework changes an import: each adapter that has the directive has the text as it would be
// generated now.
func TestGeneratedFilesAreUpToDate(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	want, err := generate(filepath.Join(root, "guard"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() != "doc.go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte("\n//go:generate go run github.com/weir-go/ratelimit/internal/adapters\n")) {
			return err
		}
		found++
		directory := filepath.Dir(path)
		if got, err := os.ReadFile(filepath.Join(directory, file)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is out of date: go generate %s (%v)", filepath.Join(directory, file), directory, err)
		}
		return nil
	})
	if err != nil || found < 4 {
		t.Errorf("%d adapters have the directive: %v", found, err)
	}
}

// The list of a type's fields has each exported field with its first sentence.
func TestFieldsAreListed(t *testing.T) {
	directory := t.TempDir()
	source := "package a\n\ntype A struct {\n\t// One is the first,\n\t// as [B] has it. More of it.\n\tOne int\n\ttwo int\n\t// Three is the last.\n\tThree int\n}\n\ntype B int\n"
	if err := os.WriteFile(filepath.Join(directory, "a.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := fields(directory, "A")
	if want := "//   - One is the first, as B has it.\n//   - Three is the last."; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, name := range []string{"B", "C"} {
		if _, err := fields(directory, name); err == nil {
			t.Errorf("%s has fields", name)
		}
	}
	for line := range strings.Lines(item(strings.Repeat("word ", 100))) {
		if len(line) > width+1 {
			t.Errorf("a line has %d characters", len(line))
		}
	}
}
