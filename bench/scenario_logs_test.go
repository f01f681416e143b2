package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// What is counted is the command's, and not the memory of this process.
func TestMeasureCommand(t *testing.T) {
	heavy := make([]byte, 512<<20)
	for i := 0; i < len(heavy); i += 1 << 12 {
		heavy[i] = 1
	}
	used, err := measureCommand(t.Context(), commandPlan{[]string{"go", "version"}, filepath.Join(t.TempDir(), "used")})
	if err != nil {
		t.Fatal(err)
	}
	if used.Elapsed <= 0 || used.CPU <= 0 || used.Peak < 1<<20 || used.Peak >= int64(len(heavy)) {
		t.Errorf("go version has used %+v, and this process %d bytes", used, len(heavy))
	}
	_, err = measureCommand(t.Context(), commandPlan{[]string{"go", "nonsense"}, filepath.Join(t.TempDir(), "used")})
	if err == nil || !strings.Contains(err.Error(), "unknown command") {
		t.Errorf("a command that fails: %v", err)
	}
}
