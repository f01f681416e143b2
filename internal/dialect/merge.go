package dialect

import (
	"maps"
	"net/http"
	"slices"

	"github.com/weir-go/ratelimit/headers"
)

// speaker is a Writer with a dialect that can be merged.
type speaker interface {
	// Dialect returns a key of mergers.
	Dialect() string
}

// mergers merge the fields of one dialect. A merger returns false, and leaves upstream as
// it is, where own has no fields of the dialect.
var mergers = map[string]func(own, upstream http.Header) bool{
	"draft 11": mergeDraft11,
	"draft 7":  mergeDraft7,
	"draft 6":  mergeDraft6,
	"legacy":   mergeLegacy,
}

// Merge makes one set of fields out of own, which has the fields that w has written about a request here and nothing
// else, and the response of an upstream server that has limits, too. The result is in upstream; own stays as it is.
//
// The lists of [headers.Draft] become one list, ours first. If a policy of upstream's has a name of ours, it gets a
// number after it, the same one in both fields. If upstream has two policies of one name, the first stays. The other
// dialects have room for one policy: all fields come from the side that has less remaining. Only the list of policies of
// [headers.Draft6] is joined, and of two policies with one quota that of the tighter side stays.
//
// A malformed field of upstream's is dropped if w writes a field of that name, and so
// are the fields that say nothing without it. Fields that w does not write stay.
//
// The fields of a Writer that is not of package headers replace those of upstream. Of
// writers joined by [headers.Join], the last one that writes a field decides how
// that field is merged, so that no field of own is lost.
func Merge(w headers.Writer, own, upstream http.Header) {
	writers := []headers.Writer{w}
	if j, ok := w.(joined); ok {
		writers = j.JoinedWriters()
	}
	own, done := maps.Clone(own), make(http.Header)
	delete(own, "Retry-After")
	for _, w := range slices.Backward(writers) {
		merged := merge(w, own, upstream)
		for _, name := range headers.Names(w) {
			if values, ok := own[name]; ok && !merged {
				upstream[name] = values
			}
			// The writers before this one must not take the result for upstream's.
			if values, ok := upstream[name]; ok {
				done[name] = values
			}
			delete(own, name)
			delete(upstream, name)
		}
	}
	maps.Copy(upstream, own) // fields that a Writer does not write about every refusal
	maps.Copy(upstream, done)
}

// merge merges the fields of one Writer. It returns false if it cannot.
func merge(w headers.Writer, own, upstream http.Header) bool {
	s, ok := w.(speaker)
	if !ok {
		return false
	}
	merge, ok := mergers[s.Dialect()]
	return ok && merge(own, upstream)
}

// replace replaces upstream's fields by those of own. It deletes fields that own lacks.
func replace(own, upstream http.Header, names ...string) {
	for _, name := range names {
		delete(upstream, name)
		if values, ok := own[name]; ok {
			upstream[name] = values
		}
	}
}

// isUpstreamTighter reports whether upstream has less remaining than own. Malformed fields of upstream's do not count. It
// returns false for ok if own has no remaining count.
func isUpstreamTighter(own, upstream http.Header, remaining func(http.Header) (int64, bool)) (tighter, ok bool) {
	here, ok := remaining(own)
	there, wellFormed := remaining(upstream)
	return ok && wellFormed && there < here, ok
}

// remainingIn returns the count in a field of Remaining. It returns false if there is
// none, or if one of the other fields is there and is no count.
func remainingIn(h http.Header, count func(lines []string) (int64, bool), remaining string, others ...string) (int64, bool) {
	for _, name := range others {
		if lines := h[name]; len(lines) != 0 {
			if _, ok := count(lines); !ok {
				return 0, false
			}
		}
	}
	return count(h[remaining])
}
