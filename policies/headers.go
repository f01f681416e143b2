package policies

import (
	"net/http"
	"slices"
	"strings"
)

// removed are fields that net/http takes out of the header of a request.
var removed = []string{"Transfer-Encoding", "Trailer"}

// checkHeaders adds an error for each field of a match that no request has as a handler sees it.
func (c *compiler) checkHeaders() {
	for i := range c.document.Policies {
		p := &c.document.Policies[i]
		for _, m := range p.Match {
			for _, name := range sorted(m.Header) {
				if value := m.Header[name]; slices.Contains(removed, http.CanonicalHeaderKey(name)) {
					c.errors.addf(p.at.of("match"), "no request has the header %s: net/http takes it out", name)
				} else if strings.Trim(value, " \t") != value || strings.ContainsAny(value, "\r\n\x00") {
					c.errors.addf(p.at.of("match"), "no request has the header %s with the value %q: leave spaces at its ends and line ends out", name, value)
				}
			}
		}
	}
}
