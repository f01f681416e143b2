package policies

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// rules returns a document of n policies.
func rules(n int) string {
	var text strings.Builder
	text.WriteString("limits:\n")
	for i := range n {
		fmt.Fprintf(&text, "  l%d: leaky 10, 1/s\n", i)
	}
	text.WriteString("policies:\n")
	for i := range n {
		pattern := [...]string{"GET /a%d/{id}", "POST /v1/b%d", "/c/{x}/d%d", "h%d.test/"}[i%4]
		fmt.Fprintf(&text, "  - match: "+pattern+"\n    limit: l%d\n    key: ip\n", i, i)
	}
	return text.String()
}

// BenchmarkChoose is what a thousand policies cost a request.
func BenchmarkChoose(b *testing.B) {
	s := setOf(b, rules(1000), Options{})
	for _, target := range []string{"/a500/7", "/c/y/d502", "http://h503.test/x", "/nothing/of/it"} {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		b.Run(strings.ReplaceAll(strings.TrimPrefix(target, "/"), "/", "-"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.rules.Choose(r, nil)
			}
		})
	}
}

func TestThousandPoliciesAllocateNothing(t *testing.T) {
	s := setOf(t, rules(1000), Options{})
	for _, target := range []string{"/a500/7", "/c/y/d502", "http://h503.test/x", "/nothing"} {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		if n := testing.AllocsPerRun(100, func() { s.rules.Choose(r, nil) }); n != 0 {
			t.Errorf("%s: %v allocations", target, n)
		}
	}
	if got := met(t, s, httptest.NewRequest(http.MethodGet, "/c/y/d502", nil)); got != "l502 ip:192.0.2.1 1" {
		t.Errorf("met %s", got)
	}
}
