package headers_test

import (
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/weir-go/ratelimit/headers"
)

func TestNamesAreThoseOfADenial(t *testing.T) {
	for name, w := range writers {
		if name == "LLM" {
			continue // its fields depend on the units
		}
		t.Run(name, func(t *testing.T) {
			h := http.Header{"Retry-After": {"1"}}
			w.Write(h, policies(full))
			want := slices.Sorted(maps.Keys(h))
			if got := headers.Names(w); !slices.Equal(got, want) {
				t.Errorf("Names %q, want %q", got, want)
			}
		})
	}
}
