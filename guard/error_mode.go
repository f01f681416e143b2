package guard

import "fmt"

// ErrorMode says what happens to a request when the store cannot answer. Of several
// policies of a request, one that fails closed decides; then one that denies.
type ErrorMode int

const (
	// unsaid is the default in Options, and what they say in a Policy.
	unsaid ErrorMode = iota
	// FailOpen lets the request through, without limit headers: nothing is known
	// that they could say.
	FailOpen
	// FailClosed answers 503 with a short Retry-After, never 429: the client has
	// done nothing wrong.
	FailClosed
	// Fallback decides in this process, under its share of the limit
	// (Options.Replicas), from what it has seen last of the key, real costs included: see
	// [core.Fallback]. A denial is a 429 with a Retry-After; limit headers are left out. It
	// costs each request one entry in a cache. Where this process has no room for one more key, it
	// fails closed.
	Fallback
)

func (m ErrorMode) String() string {
	switch m {
	case unsaid:
		return "unsaid"
	case FailOpen:
		return "FailOpen"
	case FailClosed:
		return "FailClosed"
	case Fallback:
		return "Fallback"
	}
	return fmt.Sprintf("ErrorMode(%d)", int(m))
}

func (m ErrorMode) known() bool { return m >= unsaid && m <= Fallback }
