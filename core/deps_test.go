package core_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Arrows point one way: core knows no HTTP, and nothing below the adapters knows a
// framework. The arithmetic knows no store. A program without package telemetry does not link
// OpenTelemetry, and one with it chooses the SDK.
func TestImports(t *testing.T) {
	const module = "github.com/weir-go/ratelimit/"
	for _, test := range []struct {
		of     []string
		forbid []string
	}{
		{[]string{"core"}, []string{
			"net/http", module + "guard", module + "nethttp", module + "outbound", module + "keyfuncs", module + "headers", module + "gin", module + "echo",
		}},
		// Who remembers no denials links no cache library.
		{[]string{
			"core", "core/admin", "core/doctor", "core/storetest", "keyfuncs", "headers", "guard", "lists", "policies", "nethttp", "gin", "echo", "echo/v5",
			"outbound", "telemetry", "telemetry/offenders",
		}, []string{module + "core/denialcache", "github.com/maypok86/otter"}},
		{[]string{"core/internal/exact"}, []string{"context", "net", "github.com/redis"}},
		{[]string{"core", "keyfuncs", "headers", "guard", "lists", "nethttp", "outbound", "telemetry", "telemetry/offenders"}, []string{
			"github.com/gin-gonic/", "github.com/labstack/", "testing", "pgregory.net/rapid", module + "internal/redistest",
			"go.opentelemetry.io/otel/sdk",
		}},
		{[]string{"core", "keyfuncs", "headers", "guard", "lists", "nethttp", "outbound", "telemetry/offenders", "gin", "echo", "echo/v5"}, []string{"go.opentelemetry.io/"}},
		// A program without lists does not link them, nor the table of prefixes behind them.
		{[]string{"core", "keyfuncs", "headers", "guard", "nethttp", "outbound", "telemetry", "gin", "echo", "echo/v5"}, []string{
			module + "lists", "github.com/gaissmai/bart",
		}},
		// One that has its limits in code does not link what reads them from a file.
		{[]string{"core", "keyfuncs", "headers", "guard", "lists", "nethttp", "outbound", "telemetry", "gin", "echo", "echo/v5"}, []string{module + "policies"}},
		{[]string{"policies"}, []string{
			"github.com/gin-gonic/", "github.com/labstack/", "testing", module + "internal/redistest", "go.opentelemetry.io/", module + "nethttp",
		}},
		{[]string{"lists"}, []string{"net/http", module + "core", module + "guard", module + "keyfuncs"}},
	} {
		arguments := []string{"list", "-f", `{{.ImportPath}} {{join .Deps " "}}`}
		for _, name := range test.of {
			arguments = append(arguments, module+name)
		}
		out, err := exec.CommandContext(t.Context(), "go", arguments...).Output()
		if err != nil {
			t.Fatalf("go %q: %v", arguments, err)
		}
		if n := strings.Count(string(out), "\n"); n != len(test.of) {
			t.Fatalf("go %q lists %d packages", arguments, n)
		}
		for line := range strings.Lines(string(out)) {
			all := strings.Fields(line)
			name := strings.TrimPrefix(all[0], module)
			for _, dependency := range all {
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
	const module = "github.com/weir-go/ratelimit"
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
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", module+"/"+name).Output()
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Fields(string(out))
		slices.Sort(got)
		got = slices.DeleteFunc(slices.Compact(got), func(path string) bool { return path == module })
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s links the modules %q, want %q", name, got, want)
		}
	}
}
