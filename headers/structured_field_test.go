package headers_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
)

// A field is canonical if parsing it and serialising it again does not change it. The
// parser is in the tests only: package headers does not use it.
func TestDraftsAreCanonicalStructuredFields(t *testing.T) {
	list := []headers.Outcome{
		{Name: `we"ird\x`, Decision: full},
		{Name: "leaky:10:1/s", Decision: first},
		{Name: "*", Decision: never},
		{Name: "", Decision: opened},
		{Name: "sub-second", Decision: core.Decision{Allowed: true, Limit: core.SlidingWindow(10, 100*time.Millisecond), Remaining: 3}},
	}
	for _, c := range []struct {
		name, field string
		w           headers.Writer
		parse       func([]string) (httpsfv.StructuredFieldValue, error)
	}{
		{"Draft", "RateLimit", headers.Draft, parseList},
		{"Draft", "RateLimit-Policy", headers.Draft, parseList},
		{"Draft7", "RateLimit", headers.Draft7, parseDictionary},
		{"Draft7", "RateLimit-Policy", headers.Draft7, parseList},
		{"Draft6", "RateLimit-Limit", headers.Draft6, parseItem},
		{"Draft6", "RateLimit-Remaining", headers.Draft6, parseItem},
		{"Draft6", "RateLimit-Reset", headers.Draft6, parseItem},
		{"Draft6", "RateLimit-Policy", headers.Draft6, parseList},
	} {
		t.Run(c.name+"/"+c.field, func(t *testing.T) {
			h := http.Header{}
			c.w.Write(h, list)
			parsed, err := c.parse(h.Values(c.field))
			if err != nil {
				t.Fatalf("%q: %v", h.Values(c.field), err)
			}
			canonical, err := httpsfv.Marshal(parsed)
			if err != nil {
				t.Fatal(err)
			}
			if got := h.Get(c.field); got != canonical {
				t.Errorf("%s\n got %s\nwant %s", c.field, got, canonical)
			}
		})
	}
}

func parseList(v []string) (httpsfv.StructuredFieldValue, error) { return httpsfv.UnmarshalList(v) }
func parseItem(v []string) (httpsfv.StructuredFieldValue, error) { return httpsfv.UnmarshalItem(v) }
func parseDictionary(v []string) (httpsfv.StructuredFieldValue, error) {
	return httpsfv.UnmarshalDictionary(v)
}
