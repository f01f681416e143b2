package faults_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// claimed finds in a cell of docs/reliability.md the tests that prove its row:
// `TestServer/frozen`, `core.TestCluster/charges no …`, `… the keys`, or the case of the
// adapters' suite that stands in italics.
var claimed = regexp.MustCompile("`([^`]+)`|\\*([^*]+)\\*")

// Every row of docs/reliability.md names tests, and they exist.
func TestTableNamesTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]source{
		"": read(t, "."), "core": read(t, "../../core"), "batch": read(t, "../../core/internal/batch"), "dial": read(t, "../../internal/dial"),
		"redisstore": read(t, "../../core/internal/redisstore"), "wait": read(t, "../../core/internal/wait"), "script": read(t, "../../core/internal/script"),
		"guard": read(t, "../../guard"), "fallback": read(t, "../../guard/internal/fallback"), "outbound": read(t, "../../outbound"), "adapter suite": read(t, "../../guard/guardtest"),
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 4 || strings.HasPrefix(line, "| fault") {
			continue
		}
		rows++
		tests := claimed.FindAllStringSubmatch(cells[3], -1)
		if len(tests) == 0 {
			t.Errorf("no test is named for %q", cells[0])
		}
		in := sources[""]
		for _, test := range tests {
			name, sub, _ := strings.Cut(test[1], "/")
			switch {
			case test[2] != "":
				in, name, sub = sources["adapter suite"], "", test[2]
			case strings.HasPrefix(test[1], "…"):
				name, sub = "", test[1]
			default:
				if where, rest, ok := strings.Cut(name, "."); ok {
					in, name = sources[where], rest
				} else if strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") {
					in = sources[""]
				} else {
					continue // of a test's own: a type, say
				}
			}
			if name != "" && !in.functions[name] || sub != "" && !in.says(sub) {
				t.Errorf("there is no test %q%q, which %q names", name, sub, cells[0])
			}
		}
	}
	if rows < 40 {
		t.Errorf("%d rows were found", rows)
	}
}

// source is what the files of a package declare and say.
type source struct {
	functions map[string]bool
	texts     []string
}

// read reads the files of a package.
func read(t *testing.T, directory string) source {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(directory, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	s := source{functions: make(map[string]bool)}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				s.functions[n.Name.Name] = true
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil {
					s.texts = append(s.texts, text)
				}
			}
			return true
		})
	}
	return s
}

// says reports whether a text is in the source, in which "…" stands for anything.
func (s source) says(text string) bool {
	like := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(text), " …", " .+") + "$")
	if strings.HasPrefix(text, "…") {
		like = regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(strings.TrimPrefix(text, "… ")), " …", " .+") + "$")
	}
	return slices.ContainsFunc(s.texts, like.MatchString)
}
