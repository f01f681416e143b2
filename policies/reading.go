package policies

import "net/http"

// Reading is one way in which the path of a request may be read, by a router, a file server, or an upstream server.
type Reading struct {
	// Path is the path of the reading.
	Path string
	// Match is the pattern that this reading matches: the most specific one of the document, or "" if there is none.
	Match string
}

// Readings returns the ways in which the path of a request may be read, and the pattern that each matches. A request
// without a known route meets the policies of all of them. The document has to be valid.
func (d *Document) Readings(r *http.Request) []Reading {
	c := compiler{document: d, assumes: true}
	chooser, _ := c.chooser()
	read := chooser.table.Readings(r)
	readings := make([]Reading, len(read))
	for i, one := range read {
		readings[i] = Reading{Path: one.Path, Match: one.Pattern}
	}
	return readings
}
