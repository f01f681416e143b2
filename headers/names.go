package headers

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/ratelimit/core"
)

// Names returns the names of the fields of a denial: the fields of w, and Retry-After. They are sorted and in the
// canonical form of net/http.
//
// Browsers hide these fields from scripts of another origin unless the server lists them in
// Access-Control-Expose-Headers, which is usually an option of the CORS middleware. Call
// Names once, at start-up. It panics if w is nil.
//
// Names has w write an example of a denial, so a Writer needs no method for this.
func Names(w Writer) []string {
	if w == nil {
		panic("headers: Names: the writer is nil")
	}
	h := http.Header{"Retry-After": {"1"}}
	w.Write(h, []Outcome{{Name: "example", Decision: core.Decision{
		Limit:      core.FixedWindow(1, time.Second),
		RetryAfter: time.Second,
		NextAfter:  time.Second,
		ResetAfter: time.Second,
	}}})
	return slices.Sorted(maps.Keys(h))
}
