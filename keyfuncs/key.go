package keyfuncs

import (
	"errors"
	"net/http"
	"strings"
)

// Func reads the key of a request: it names the client, user or thing that the request counts for.
//
// It returns [ErrNoKey] when the request has no key of its kind. Any other error
// means that the key could not be found out, and the request is not to be
// served. An empty key without an error counts as ErrNoKey in [Join] and
// [Or].
//
// The functions of this package are safe for concurrent use, and a Func of your
// own must be, too. Let it start its key with a namespace that is not one of
// theirs, such as "tenant:"; nothing stops it from imitating another. For a part of the path, use
// [PathValue].
type Func func(*http.Request) (string, error)

// ErrNoKey is returned by a [Func] when the request has no key of its kind: no
// user has signed in, or the header is missing. [Join] replaces such a part by
// the peer's address. Test for it with [errors.Is].
var ErrNoKey = errors.New("keyfuncs: request has no such key")

// encode percent-encodes the bytes that mean something in a joined key, and the
// percent sign itself. Keys of this package therefore contain no '|' and no '\'
// unless Join put it there, and a Join of joins cannot be imitated by a value.
func encode(value string) string {
	if !strings.ContainsAny(value, `%|\`) {
		return value
	}
	return valueEncoder.Replace(value)
}

// encodeName is encode for a name that an '=' separates from its value.
func encodeName(name string) string {
	return strings.ReplaceAll(encode(name), "=", "%3D")
}

var valueEncoder = strings.NewReplacer("%", "%25", "|", "%7C", `\`, "%5C")
