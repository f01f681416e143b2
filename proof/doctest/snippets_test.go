package doctest

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/weir-go/ratelimit/"

// imports are the packages that a fragment may use without importing them.
var imports = map[string]string{
	"admin":       module + "core/admin",
	"core":        module + "core",
	"denialcache": module + "core/denialcache",
	"doctor":      module + "core/doctor",
	"estimate":    module + "examples/llmproxy/estimate",
	"guard":       module + "guard",
	"headers":     module + "headers",
	"keyfuncs":    module + "keyfuncs",
	"lists":       module + "lists",
	"policies":    module + "policies",
	"ratelimit":   module + "nethttp",
	"offenders":   module + "telemetry/offenders",
	"outbound":    module + "outbound",
	"telemetry":   module + "telemetry",

	"miniredis": "github.com/alicebob/miniredis/v2",
	"redis":     "github.com/redis/go-redis/v9",

	"atomic":   "sync/atomic",
	"context":  "context",
	"errors":   "errors",
	"fmt":      "fmt",
	"http":     "net/http",
	"httptest": "net/http/httptest",
	"httputil": "net/http/httputil",
	"log":      "log",
	"os":       "os",
	"signal":   "os/signal",
	"slices":   "slices",
	"slog":     "log/slog",
	"strconv":  "strconv",
	"strings":  "strings",
	"synctest": "testing/synctest",
	"testing":  "testing",
	"time":     "time",
	"tls":      "crypto/tls",
	"x509":     "crypto/x509",
}

// always is given to every fragment.
const always = "var limiter *core.Limiter; var ctx context.Context"

// snippet is a block of Go in a page.
type snippet struct {
	page  string
	line  int // of its first line
	text  string
	given string // what the comment above it declares
}

// snippets returns the blocks of Go in a page.
func snippets(p page) []snippet {
	var all []snippet
	for i, line := range p.lines {
		if strings.TrimSpace(line) != "```go" {
			continue
		}
		block := p.lines[i+1:]
		if end := slices.IndexFunc(block, func(line string) bool { return strings.TrimSpace(line) == "```" }); end >= 0 {
			block = block[:end]
		}
		all = append(all, snippet{p.name, i + 2, strings.Join(block, "\n"), given(p.lines[:i])})
	}
	return all
}

// given returns what the comment at the end of some lines declares.
func given(above []string) string {
	last := len(above) - 1
	if last < 0 || !strings.HasSuffix(above[last], "-->") {
		return ""
	}
	for i := last; i >= 0; i-- {
		if declared, found := strings.CutPrefix(above[i], "<!-- go:"); found {
			return strings.TrimSuffix(strings.Join(append([]string{declared}, above[i+1:]...), "\n"), "-->")
		}
	}
	return ""
}

// Every Go snippet of every page compiles.
func TestSnippetsCompile(t *testing.T) {
	all := pages(t)
	for _, problem := range problems(t, all) {
		t.Error(problem)
	}
	found := 0
	for _, p := range all {
		found += len(snippets(p))
	}
	if found < 10 {
		t.Errorf("only %d snippets were found", found)
	}
}

// What would not compile is found, and told with the file and the line of its block.
func TestBrokenSnippetsAreFound(t *testing.T) {
	for name, text := range map[string]string{
		"a name that is not there": "limiter.Alow(ctx, key)",
		"too few arguments":        `limiter.Allow(ctx, "user:42")`,
		"another type":             "core.Leaky(10, time.Second)",
		"no Go":                    "limiter.(",
		"another package":          `import "github.com/weir-go/ratelimit/nothing"`,
		"a file":                   "package main\n\nfunc main() { main(1) }",
	} {
		t.Run(name, func(t *testing.T) {
			broken := page{"docs/page.md", strings.Split("# Page\n\n```go\n"+text+"\n```\n", "\n")}
			found := problems(t, []page{broken})
			if len(found) == 0 || !strings.HasPrefix(found[0], "docs/page.md:4: ") {
				t.Errorf("found %q", found)
			}
		})
	}
}

// problems returns what is wrong with the snippets of some pages.
func problems(t *testing.T, in []page) []string {
	t.Helper()
	fset := compiled.set
	var all []snippet
	for _, p := range in {
		all = append(all, snippets(p)...)
	}
	var found []string
	tell := func(s snippet, err error) {
		found = append(found, fmt.Sprintf("%s:%d: the snippet that begins here does not compile: %v", s.page, s.line, err))
	}
	files := make([][]*ast.File, len(all))
	needed := make(map[string]bool)
	for i, s := range all {
		parsed, err := s.parse(fset)
		if err != nil {
			tell(s, err)
			continue
		}
		files[i] = parsed
		for _, file := range parsed {
			for _, spec := range file.Imports {
				path, _ := strconv.Unquote(spec.Path.Value)
				needed[path] = true
			}
		}
	}
	packages := exports(t, slices.Sorted(maps.Keys(needed)))
	for i, s := range all {
		for _, err := range check(fset, packages, files[i]) {
			tell(s, err)
		}
	}
	return found
}

// check checks the types of the files of one snippet, and returns what would not compile.
func check(fset *token.FileSet, packages types.Importer, files []*ast.File) []error {
	var found []error
	config := types.Config{
		Importer: packages,
		Error: func(err error) {
			var mistake types.Error
			if !errors.As(err, &mistake) || !mistake.Soft { // what is not used is a soft mistake
				found = append(found, err)
			}
		},
	}
	if len(files) > 0 {
		_, _ = config.Check(files[0].Name.Name, fset, files, nil)
	}
	return found
}

// parse returns the files that a snippet comes to.
func (s snippet) parse(fset *token.FileSet) ([]*ast.File, error) {
	if head, err := parser.ParseFile(token.NewFileSet(), "", s.text, parser.PackageClauseOnly); err == nil && head.Name != nil {
		file, err := parser.ParseFile(fset, s.page, s.lined(s.text, 0), parser.SkipObjectResolution)
		return []*ast.File{file}, err
	}
	own, err := s.fragment(fset)
	if err != nil {
		return nil, err
	}
	declared, err := parser.ParseFile(fset, s.page+" (the comment above)", "package fragment;"+s.given, 0)
	if err != nil {
		return nil, err
	}
	common, err := parser.ParseFile(fset, "always", "package fragment;"+always, 0)
	if err != nil {
		return nil, err
	}
	// What the comment imports is there for the fragment as well.
	for _, spec := range declared.Imports {
		if !slices.ContainsFunc(own.Imports, func(has *ast.ImportSpec) bool { return nameOf(has) == nameOf(spec) }) {
			addImport(own, nameOf(spec), spec.Path.Value)
		}
	}
	files := []*ast.File{own, declared, common}
	known := make(map[string]bool)
	for _, file := range files {
		for name := range file.Scope.Objects {
			known[name] = true
		}
	}
	for _, file := range files {
		importMissing(file, known)
	}
	return files, nil
}

// fragment returns the file that a fragment comes to: its imports, and its declarations or a
// function of its statements.
func (s snippet) fragment(fset *token.FileSet) (*ast.File, error) {
	const clause = "package fragment;"
	scratch := token.NewFileSet()
	head, err := parser.ParseFile(scratch, "", clause+s.text, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	end := 0
	for _, d := range head.Decls {
		end = scratch.Position(d.End()).Offset - len(clause)
	}
	imported, rest := s.text[:end], s.text[end:]
	if file, err := parser.ParseFile(fset, s.page, clause+"\n"+s.lined(imported, 0)+"\n"+s.lined(rest, end), 0); err == nil {
		return file, nil
	}
	return parser.ParseFile(fset, s.page,
		clause+"\n"+s.lined(imported, 0)+"\nfunc _() (err error) {\n"+s.lined(rest, end)+"\nreturn\n}", 0)
}

// lined returns a part of the snippet that begins at an offset, under a directive that says
// where it stands in the page.
func (s snippet) lined(part string, offset int) string {
	return fmt.Sprintf("//line %s:%d\n%s", s.page, s.line+strings.Count(s.text[:offset], "\n"), part)
}

// importMissing imports the packages of the table that a file uses and has not imported.
// Names that the snippet declares are no packages.
func importMissing(file *ast.File, declared map[string]bool) {
	for _, spec := range file.Imports {
		declared = maps.Clone(declared)
		declared[nameOf(spec)] = true
	}
	for _, ident := range file.Unresolved {
		if path, found := imports[ident.Name]; found && !declared[ident.Name] {
			declared = maps.Clone(declared)
			declared[ident.Name] = true
			addImport(file, ident.Name, strconv.Quote(path))
		}
	}
}

// nameOf returns the name under which a file knows what it imports.
func nameOf(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	path, _ := strconv.Unquote(spec.Path.Value)
	return path[strings.LastIndexByte(path, '/')+1:]
}

func addImport(file *ast.File, name, quoted string) {
	spec := &ast.ImportSpec{Name: ast.NewIdent(name), Path: &ast.BasicLit{Kind: token.STRING, Value: quoted}}
	file.Imports = append(file.Imports, spec)
	file.Decls = append([]ast.Decl{&ast.GenDecl{Tok: token.IMPORT, Specs: []ast.Spec{spec}}}, file.Decls...)
}

// compiled finds the types of packages, as the go command has compiled them. The tests share them: the go command is asked once
// for all packages that fragments may use.
var compiled = struct {
	files    map[string]string // with the types of packages, by their paths
	set      *token.FileSet
	importer types.Importer
}{files: make(map[string]string), set: token.NewFileSet()}

// exports returns the importer of packages. It asks the go command for the paths that it does not know.
func exports(t *testing.T, paths []string) types.Importer {
	t.Helper()
	if compiled.importer == nil {
		compiled.importer = importer.ForCompiler(compiled.set, "gc", open)
		paths = slices.Concat(paths, slices.Sorted(maps.Values(imports)))
	}
	unknown := slices.DeleteFunc(paths, func(path string) bool { return compiled.files[path] != "" })
	if len(unknown) == 0 {
		return compiled.importer
	}
	list := exec.CommandContext(t.Context(), "go", append([]string{"list", "-e", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "--"}, unknown...)...)
	list.Dir = root
	var complaint bytes.Buffer
	list.Stderr = &complaint
	output, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &complaint)
	}
	for line := range strings.Lines(string(output)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		compiled.files[path] = file
	}
	return compiled.importer
}

// open opens the file with the types of a package.
func open(path string) (io.ReadCloser, error) {
	if compiled.files[path] == "" {
		return nil, fmt.Errorf("there is no package %s", path)
	}
	return os.Open(compiled.files[path])
}
