package core_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

const thisModule = "github.com/weir-go/ratelimit"

// listed is a package as the go command lists it.
type listed struct {
	module  string   // "" for the standard library
	files   []string // with the code
	imports []string // of the package, and of those that it imports
}

// listPackages returns the packages of this module and all packages that they import, by their paths.
var listPackages = sync.OnceValues(func() (map[string]listed, error) {
	const format = `{{.ImportPath}}|{{with .Module}}{{.Path}}{{end}}|{{join .GoFiles " "}}|{{join .Deps " "}}`
	out, err := exec.Command("go", "list", "-deps", "-f", format, thisModule+"/...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	all := make(map[string]listed)
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(line, "|")
		all[fields[0]] = listed{fields[1], strings.Fields(fields[2]), strings.Fields(fields[3])}
	}
	return all, nil
})

// packages returns what the go command lists.
func packages(t *testing.T) map[string]listed {
	t.Helper()
	all, err := listPackages()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// adapters returns the names of the adapters: the packages with the file that each adapter has.
func adapters(t *testing.T) (names []string) {
	t.Helper()
	for path, of := range packages(t) {
		if name, ours := strings.CutPrefix(path, thisModule+"/"); ours && slices.Contains(of.files, "limits.go") {
			names = append(names, name)
		}
	}
	if len(names) < 4 || !slices.Contains(names, "nethttp") {
		t.Fatalf("the adapters are %q", names)
	}
	return names
}

// Arrows point one way: core knows no HTTP, and nothing below the adapters knows a
// framework. The arithmetic knows no store. A program without package telemetry does not link
// OpenTelemetry, and one with it chooses the SDK.
func TestImports(t *testing.T) {
	const module = thisModule + "/"
	var adapterPaths []string
	for _, name := range adapters(t) {
		adapterPaths = append(adapterPaths, module+name)
	}
	frameworks := []string{"github.com/gin-gonic/", "github.com/labstack/"}
	for _, test := range []struct {
		of     []string
		forbid []string
	}{
		{[]string{"core"}, append([]string{"net/http", module + "guard", module + "outbound", module + "keyfuncs", module + "headers"}, adapterPaths...)},
		// Who remembers no denials links no cache library.
		{append([]string{
			"core", "core/admin", "core/doctor", "core/storetest", "keyfuncs", "headers", "guard", "lists", "policies", "outbound", "telemetry", "telemetry/offenders",
		}, adapters(t)...), []string{module + "core/denialcache", "github.com/maypok86/otter"}},
		{[]string{"core/internal/exact"}, []string{"context", "net", "github.com/redis"}},
		{[]string{"core", "keyfuncs", "headers", "guard", "lists", "nethttp", "outbound", "telemetry", "telemetry/offenders"}, append([]string{
			"testing", "pgregory.net/rapid", module + "internal/redistest", "go.opentelemetry.io/otel/sdk",
		}, frameworks...)},
		{append([]string{"core", "keyfuncs", "headers", "guard", "lists", "outbound", "telemetry/offenders"}, adapters(t)...), []string{"go.opentelemetry.io/"}},
		// A program without lists does not link them, nor the table of prefixes behind them.
		{append([]string{"core", "keyfuncs", "headers", "guard", "outbound", "telemetry"}, adapters(t)...), []string{module + "lists", "github.com/gaissmai/bart"}},
		// One that has its limits in code does not link what reads them from a file.
		{append([]string{"core", "keyfuncs", "headers", "guard", "lists", "outbound", "telemetry"}, adapters(t)...), []string{module + "policies"}},
		{[]string{"policies"}, append([]string{"testing", module + "internal/redistest", "go.opentelemetry.io/", module + "nethttp"}, frameworks...)},
		{[]string{"lists"}, []string{"net/http", module + "core", module + "guard", module + "keyfuncs"}},
	} {
		for _, name := range test.of {
			of, found := packages(t)[module+name]
			if !found {
				t.Fatalf("there is no package %s", name)
			}
			for _, dependency := range append([]string{module + name}, of.imports...) {
				for _, forbidden := range test.forbid {
					if dependency == forbidden || strings.HasPrefix(dependency, strings.TrimSuffix(forbidden, "/")+"/") {
						t.Errorf("%s imports %s", name, dependency)
					}
				}
			}
		}
	}
}

// A program that imports package core links go-redis, and what that links, of the modules of others. Key functions link
// none, and net/http middleware one more, which reads the fields of other servers.
func TestModules(t *testing.T) {
	redis := []string{"github.com/cespare/xxhash/v2", "github.com/dgryski/go-rendezvous", "github.com/redis/go-redis/v9"}
	for name, want := range map[string][]string{
		"keyfuncs":    nil,
		"core":        redis,
		"core/admin":  redis,
		"core/doctor": redis,
		"headers":     redis,
		"guard":       append([]string{"github.com/dunglas/httpsfv"}, redis...),
		"nethttp":     append([]string{"github.com/dunglas/httpsfv"}, redis...),
	} {
		var got []string
		for _, path := range packages(t)[thisModule+"/"+name].imports {
			if module := packages(t)[path].module; module != "" && module != thisModule {
				got = append(got, module)
			}
		}
		slices.Sort(got)
		got = slices.Compact(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s links the modules %q, want %q", name, got, want)
		}
	}
}
