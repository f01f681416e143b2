package dialect

import (
	"net/http"

	"github.com/weir-go/ratelimit/core"
	"github.com/weir-go/ratelimit/headers"
)

// Lone is a Writer that [Prepare] has made for one policy, and that writes its decision in the shortest way.
type Lone interface {
	// WriteLone writes the same fields as Write for the decision of the policy. Their values take the given room, which belongs
	// to the header from then on.
	WriteLone(h http.Header, d *core.Decision, room *[2]string)
}

// preparer is a Writer with some fields that do not depend on the decisions.
type preparer interface {
	Prepare(policies []headers.Outcome) headers.Writer
}

// joined is a Writer that [headers.Join] has made.
type joined interface {
	JoinedWriters() []headers.Writer
}

// Prepare returns a Writer that writes the same fields as w, and is faster for responses about exactly these policies, in
// this order: it has worked out the fields that their decisions do not change, such as RateLimit-Policy in
// [headers.Draft]. Two policies are the same if they have the same Name, Unit and Limit. A response about other
// policies is written as by w.
//
// Prepare is meant to be called once, at start-up. A Writer that has nothing to prepare is
// returned as it is.
func Prepare(w headers.Writer, policies []headers.Outcome) headers.Writer {
	switch w := w.(type) {
	case preparer:
		return w.Prepare(policies)
	case joined:
		var prepared []headers.Writer
		for _, writer := range w.JoinedWriters() {
			prepared = append(prepared, Prepare(writer, policies))
		}
		return headers.Join(prepared...)
	}
	return w
}
