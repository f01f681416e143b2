package toys

import (
	"slices"
	"strings"
	"testing"
)

const toyDoc = `// Package ratelimit is the middleware of a toy, with the handlers of net/http.
package ratelimit

//go:generate go run github.com/weir-go/ratelimit/internal/adapters
`

const toyImports = `
import (
	"net/http"
	"net/url"
	"strings"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/guard"
	"github.com/weir-go/ratelimit/internal/given"
	"github.com/weir-go/ratelimit/keyfuncs"
)
`

// A new adapter is a package of three files and a test. The suite of adapters passes then, and no other file knows it.
func TestAnAdapterTakesThreeFilesAndATest(t *testing.T) {
	o := overlay{
		"toy/doc.go":        toyDoc,
		"toy/limits.go":     read(t, "nethttp/limits.go"), // as go generate writes it into each adapter
		"toy/middleware.go": "package ratelimit\n" + toyImports + code(t, "nethttp/middleware.go") + code(t, "nethttp/mux.go"),
	}
	o["toy/adapter_test.go"] = strings.ReplaceAll(read(t, "nethttp/adapter_test.go"), "ratelimit/nethttp", "ratelimit/toy")
	if want := []string{"toy/adapter_test.go", "toy/doc.go", "toy/limits.go", "toy/middleware.go"}; !slices.Equal(o.touched(), want) {
		t.Errorf("the toy takes %q, want %q", o.touched(), want)
	}
	const cases = 200
	o.test(t, cases, "./toy")
}

// code returns the text of a file of the library behind its imports.
func code(t *testing.T, path string) string {
	t.Helper()
	_, behind, found := strings.Cut(read(t, path), "\n)\n")
	if !found {
		t.Fatalf("%s has no imports", path)
	}
	return behind
}
