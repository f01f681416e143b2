// Package referencetest runs the tests of github.com/envoyproxy/ratelimit with files of ours in place of some of its own, so that ours answers them. Its
// code comes from the proxy of Go modules, and stays in a temporary directory.
package referencetest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/internal/servertest"
)

// module is the version whose tests are run: the newest that the proxy of Go modules has.
const module = "github.com/envoyproxy/ratelimit@v1.4.1-0.20260122083618-3fb702589d36"

// Copy returns a directory with the module. Without a connection, and without the module in the cache, the test is skipped.
func Copy(t *testing.T) string {
	t.Helper()
	download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	download.Dir = t.TempDir() // outside of any module
	output, err := download.Output()
	var got struct {
		Dir   string `json:"Dir"`
		Error string `json:"Error"`
	}
	if unread := json.Unmarshal(output, &got); err != nil || unread != nil || got.Dir == "" {
		servertest.Missing(t, "there is no "+module+": "+got.Error)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(got.Dir)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Run is a run of tests of the module.
type Run struct {
	// Dir is the copy of the module.
	Dir string
	// Overlay has files of ours, by the files in Dir in whose place they are. A file that Dir does not have is one more.
	Overlay map[string]string
	// Args are those of go test: its flags and the package.
	Args []string
	// Environment has more variables, in the form of os.Environ.
	Environment []string
	// Skip are the tests that are left out, by their names and those of the tests around them, with slashes between them.
	Skip []string
}

// Tests runs the tests, and returns the names of those that have passed, in order, without those below others. One that does not pass fails the test.
func (r *Run) Tests(t *testing.T) (passed []string) {
	t.Helper()
	absolute := make(map[string]string)
	for name, ours := range r.Overlay {
		path, err := filepath.Abs(ours)
		if err != nil {
			t.Fatal(err)
		}
		absolute[filepath.Join(r.Dir, name)] = path
	}
	overlay, err := json.Marshal(map[string]any{"Replace": absolute})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"test", "-json", "-count=1", "-mod=mod", "-overlay", file}, r.Args...)
	if len(r.Skip) > 0 {
		args = slices.Insert(args, len(args)-1, "-skip", strings.Join(r.Skip, "|"))
	}
	tests := exec.CommandContext(t.Context(), "go", args...) //nolint:gosec // tests give the arguments
	tests.Dir = r.Dir
	// What this test was started with is for this module alone.
	tests.Env = append(append(os.Environ(), "GOFLAGS=", "GOWORK=off"), r.Environment...)
	var messages bytes.Buffer
	tests.Stderr = &messages
	output, err := tests.Output()
	for lines := bufio.NewScanner(bytes.NewReader(output)); lines.Scan(); {
		var event struct {
			Action string `json:"Action"`
			Test   string `json:"Test"`
			Output string `json:"Output"`
		}
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			t.Log(lines.Text())
			continue
		}
		below := strings.Contains(event.Test, "/")
		switch {
		case strings.HasSuffix(event.Action, "output") && err != nil:
			t.Log(strings.TrimRight(event.Output, "\n"))
		case event.Action == "pass" && event.Test != "" && !below:
			passed = append(passed, event.Test)
		case event.Action == "skip":
			t.Errorf("%s was skipped", event.Test)
		}
	}
	if err != nil {
		t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, messages.Bytes())
	}
	slices.Sort(passed)
	return passed
}
