package examples_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// programs are those that take their settings from the environment, with a request that each answers.
var programs = map[string]struct{ method, path string }{
	"api":      {http.MethodGet, "/items/7"},
	"echo":     {http.MethodGet, "/catalog/items/7"},
	"echov5":   {http.MethodGet, "/items/7"},
	"export":   {http.MethodPost, "/exports/orders"},
	"gin":      {http.MethodGet, "/items/7"},
	"leaky":    {http.MethodGet, "/api"},
	"llmproxy": {http.MethodPost, "/v1/chat/completions"},
	"login":    {http.MethodPost, "/login"},
	"nethttp":  {http.MethodGet, "/items/7"},
	"worker":   {http.MethodPost, "/shipments"},
}

// Each program starts without a server to install, answers, and ends well when it is told to.
func TestProgramsStartAndEnd(t *testing.T) {
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", t.TempDir())
	for name := range programs {
		build.Args = append(build.Args, "./"+name)
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, request := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log strings.Builder
			addr := free(t)
			program := exec.CommandContext(t.Context(), filepath.Join(build.Args[4], name))
			program.Env = append(os.Environ(), "REDIS_URL=", "PARTNER_URL=", "MODEL_URL=", "ADDR="+addr, "ADMIN_ADDR="+free(t))
			program.Stdout, program.Stderr = &log, &log
			if err := program.Start(); err != nil {
				t.Fatal(err)
			}
			answered := poll(t, request.method, "http://"+addr+request.path)
			if err := program.Process.Signal(syscall.SIGTERM); err != nil {
				t.Errorf("it has ended by itself: %v", err)
			}
			if err := program.Wait(); err != nil || !answered {
				t.Errorf("answered: %v, ended: %v\n%s", answered, err, log.String())
			}
		})
	}
}

// free returns an address that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// poll asks until there is an answer, whatever its status.
func poll(t *testing.T, method, url string) bool {
	t.Helper()
	for range 1000 {
		r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if response, err := http.DefaultClient.Do(r); err == nil {
			response.Body.Close()
			return response.StatusCode < http.StatusInternalServerError && response.StatusCode != http.StatusNotFound
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// No program imports a package that only this repository can import, so the directory of each can be copied.
func TestProgramsCanBeCopied(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	if err != nil || len(files) < 20 {
		t.Fatalf("found %d files, %v", len(files), err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			path, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), "github.com/weir-go/ratelimit/")
			own := "examples/" + filepath.Dir(name) + "/" // which is copied with the program
			if ours && !strings.HasPrefix(path, own) && (strings.Contains(path, "internal/") || strings.HasPrefix(path, "examples/")) {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}

// No server of a program waits for a client for ever: examples are copied.
func TestServersHaveTimeouts(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	servers := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.CallExpr:
				if f := selector(node.Fun); f == "http.Serve" || strings.HasPrefix(f, "http.ListenAndServe") || f == "http.ServeTLS" {
					t.Errorf("%s calls %s, whose server waits for ever", name, f)
				}
				if f := selector(node.Fun); f == "echo.New" {
					servers++
					expectTimeouts(t, name, string(text))
				}
			case *ast.CompositeLit:
				if selector(node.Type) == "http.Server" {
					servers++
					expectTimeouts(t, name, string(text[node.Pos()-file.FileStart:node.End()-file.FileStart]))
				}
			}
			return true
		})
	}
	if servers < 12 {
		t.Errorf("%d servers were found", servers)
	}
}

// expectTimeouts wants the text of a server to set its timeouts. Those of writing are left out where it streams.
func expectTimeouts(t *testing.T, name, text string) {
	t.Helper()
	for _, timeout := range []string{"ReadHeaderTimeout", "ReadTimeout", "IdleTimeout"} {
		if !strings.Contains(text, timeout) {
			t.Errorf("a server of %s has no %s", name, timeout)
		}
	}
}

// selector returns what an expression such as http.Server names, or "".
func selector(expression ast.Expr) string {
	if s, ok := expression.(*ast.SelectorExpr); ok {
		if of, ok := s.X.(*ast.Ident); ok {
			return of.Name + "." + s.Sel.Name
		}
	}
	return ""
}

// The table of README.md has every program.
func TestTableIsWhole(t *testing.T) {
	table, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() && !strings.Contains(string(table), "]("+entry.Name()+")") {
			t.Errorf("README.md does not link to %s", entry.Name())
		}
	}
}
