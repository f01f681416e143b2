package ratelimit_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// A user who changes the framework changes an import. What the adapters have in common is
// therefore the same text in all of them: the constructors, and the names of the engine.
func TestAdaptersHaveTheSameNames(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"limits.go", "names.go"} {
		want := read(t, "nethttp", file)
		for _, adapter := range []string{"gin", "echo", "echo/v5"} {
			if !bytes.Equal(read(t, adapter, file), want) {
				t.Errorf("%s/%s is not nethttp/%s: make them the same", adapter, file, file)
			}
		}
	}
}

func read(t *testing.T, adapter, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(adapter), file))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
