//go:build !race

// Long texts are read by one goroutine, and its memory is measured: make test runs it without the race detector.

package tree_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/policies/internal/tree"
)

// No text takes much memory, and with it much work, whatever it is read as.
func TestNoTextIsMuchWork(t *testing.T) {
	const most = 128 << 20 // bytes
	for _, length := range []int{tree.Most / 8, tree.Most - 100} {
		for name, text := range bombs(length) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = tree.Parse([]byte(text))
			runtime.ReadMemStats(&after)
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > most {
				t.Errorf("%s, %d bytes: %d bytes are allocated, want %d at most", name, length, allocated, most)
			}
		}
	}
}

// What people write is far from the bounds.
func TestLongDocumentsAreRead(t *testing.T) {
	var limits, policies, plans, entries strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&limits, "  limit%d: leaky 10, 1/s\n", i)
		fmt.Fprintf(&policies, "  - match: POST /p%d/{id}\n    limit: limit%d\n    key: ip\n    settle: {5xx: 0, 404: 1}\n", i, i)
		fmt.Fprintf(&plans, "  plan%d:\n    free: leaky 10, 1/s\n    \"*\": unlimited # all others\n", i)
		fmt.Fprintf(&entries, "    - 192.0.2.%d\n    - key:user:%d\n", i%256, i)
	}
	for name, text := range map[string]string{
		"limits": "limits:\n" + limits.String(), "policies": "policies:\n" + policies.String(), "plans": "plans:\n" + plans.String(),
		"entries": "lists:\n  deny:\n" + strings.Repeat(entries.String(), 6),
	} {
		if _, err := tree.Parse([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
