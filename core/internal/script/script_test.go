package script

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewriteScripts = flag.Bool("rewrite-scripts", false, "write testdata")

// The scripts stand in testdata as they are sent: whole, so that they can be read, checked by a
// linter, and run by redis-cli --eval. Those for fewer algorithms leave out what is the others'. go test ./core/internal/script -rewrite-scripts writes them.
func TestScriptsStandInFiles(t *testing.T) {
	scripts := make(map[string]string)
	for does := range Tasks {
		scripts[does.file()+".lua"] = New(does, Mixed, false).Source
	}
	const directory = "testdata"
	if *rewriteScripts {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, source := range scripts {
			if err := os.WriteFile(filepath.Join(directory, name), []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	files, err := filepath.Glob(directory + "/*.lua")
	if err != nil || len(files) != len(scripts) {
		t.Errorf("%d files stand there, want %d: %v", len(files), len(scripts), err)
	}
	for name, source := range scripts {
		text, err := os.ReadFile(filepath.Join(directory, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if got := strings.ReplaceAll(string(text), "\r\n", "\n"); got != source {
			t.Errorf("%s is not what is sent: run go test ./core/internal/script -rewrite-scripts", name)
		}
	}
}
