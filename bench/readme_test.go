package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The README has a place for its figures, and nothing around them changes.
func TestFiguresAreWrittenIntoTheReadme(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(path, readme, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := saveFigures(path, readmeFigures(inventedReport(), invented())); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(written), figuresBegin)
	figures, after, _ := strings.Cut(rest, figuresEnd)
	if !strings.HasPrefix(string(readme), before) || !strings.HasSuffix(string(readme), after) || after == "" {
		t.Error("what stands around the figures has changed")
	}
	if want := "| checks a second, 128 goroutines ↑ | 3.87 (3.33 – 4.40) | 1.71 (1.67 – 1.76) |\n"; !strings.Contains(figures, want) {
		t.Errorf("the figures lack %q:\n%s", want, figures)
	}
	if err := saveFigures(filepath.Join("testdata", "report.md"), figures); err == nil {
		t.Error("figures are written where there is no place for them")
	}
}
