package keyfuncs

import (
	"fmt"
	"strings"
)

// isToken reports whether text is a token of RFC 9110, as the names of headers,
// cookies and parameters are.
func isToken(text string) bool {
	for i := range len(text) {
		c := text[i]
		letterOrDigit := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letterOrDigit && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return text != ""
}

func requireToken(caller, name string) {
	if !isToken(name) {
		panic(fmt.Sprintf("keyfuncs: %s: %q cannot be a name", caller, name))
	}
}
