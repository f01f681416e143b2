package route

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Reading is one way in which a router, a file server or an upstream server may read the path of a request.
type Reading struct {
	// Path is the path of the reading. It begins with a slash.
	Path string

	decode bool // its segments are escaped, and are compared without their escapes
	empty  bool // {name} stands for an empty segment at the end, and for an escaped slash

	// A variant of a reading counts only for requests that the reading itself does not match.
	slash   bool // it is read with one more slash at its end
	alone   bool // no pattern counts that ends with a slash or {name...} further left
	literal bool // no {name} counts for the last segment
}

// String returns the path as it is read.
func (r *Reading) String() string {
	if r.slash {
		return r.Path + slash
	}
	return r.Path
}

// mostBytes is how long a path may be that is read in many ways, escaped and not. Reading takes time in proportion to it and to how
// many segments the longest pattern has: a path of this length takes a millisecond or two for ten.
const mostBytes = 2 << 10

// mostColons is how many colons may follow the scheme in a target of the form "http:path". Another target may begin behind each of them.
const mostColons = 16

// isReadable reports whether a path is short enough to be read in all ways, or the same in all of them.
func isReadable(u *url.URL) bool {
	if strings.Count(u.Opaque, ":") > mostColons {
		return false
	}
	return len(u.Path)+len(u.RawPath)+len(u.Opaque) <= mostBytes || isOrdinary(u, u.EscapedPath())
}

// isOrdinary reports whether all readings of a path are the same, but for its end.
func isOrdinary(u *url.URL, escaped string) bool {
	return escaped == u.Path && u.RawPath == "" && strings.HasPrefix(u.Path, slash) && !mayBeUnclean(u.Path)
}

// appendReadings appends all readings of a path: escaped and not, as it stands, with slashes collapsed, and clean; each
// of them with and without a slash at its end, and without an extension. A handler below a prefix of at most prefix
// segments may clean the rest of the path alone.
func appendReadings(all []Reading, u *url.URL, prefix int) []Reading {
	escaped := u.EscapedPath()
	if isOrdinary(u, escaped) {
		return appendVariants(all, Reading{Path: u.Path}) // all of them are the same
	}
	texts := []Reading{
		// net/http and chi decode segments.
		{Path: escaped, decode: true},
		// Some proxies decode characters that need no escape.
		{Path: escapedDots.Replace(escaped), decode: true},
		// gin, file servers and nginx decode all.
		{Path: u.Path},
		// gin may clean before it decodes.
		{Path: unescape(clean(escaped))},
		// echo decodes nothing.
		{Path: escaped},
	}
	if u.Opaque != "" { // "http:path", which a proxy passes on
		texts = append(texts, Reading{Path: u.Opaque, decode: true})
		if inner, err := url.ParseRequestURI(u.Opaque); err == nil { // "http:http://host/path": the next server reads the path
			all = appendReadings(all, inner, prefix)
		}
	}
	if strings.Contains(u.Path, "%") { // echo v5 may decode twice
		texts = append(texts, Reading{Path: u.Path, decode: true}, Reading{Path: unescape(u.Path)})
	}
	for _, escaped := range escapedTexts(u) {
		if escaped != texts[0].Path { // routers look there, although a middleware has changed the path
			texts = append(texts, Reading{Path: escaped, decode: true}, Reading{Path: escaped})
		}
		// A router that decodes segments may hand the rest on, which a file server decodes.
		for i, handed := range handedOn(escaped) {
			if i > 0 {
				texts = append(texts, Reading{Path: unescape(handed)})
			}
			for _, text := range decodedBelow(handed, prefix) {
				texts = append(texts, Reading{Path: text, decode: true})
			}
		}
	}
	known := make([]Reading, 0, 3*len(texts))
	for _, text := range texts {
		for _, text.Path = range cleanings(text.Path, prefix) {
			if !slices.Contains(known, text) {
				known = append(known, text)
				all = appendVariants(all, text)
			}
		}
	}
	return all
}

// escapedTexts returns the escaped path: two of them if a middleware has changed Path and left RawPath as the client has
// sent it.
func escapedTexts(u *url.URL) []string {
	escaped := u.EscapedPath()
	if u.RawPath == "" || u.RawPath == escaped {
		return []string{escaped}
	}
	return []string{escaped, u.RawPath}
}

// cleanings returns the clean forms of a text.
func cleanings(p string, prefix int) []string {
	all := cleanedInAnyWay(nil, p, prefix)
	for _, p := range [...]string{p, strings.TrimSuffix(p, slash)} {
		if dot := extension(p); dot >= 0 && strings.HasSuffix(strings.TrimRight(p[:dot], "."), slash) { // the rest may end in dots
			all = cleanedInAnyWay(all, p[:dot], prefix)
		}
	}
	return all
}

// cleanedInAnyWay appends a path as it stands, with slashes collapsed, and clean, as a whole or below a prefix.
func cleanedInAnyWay(all []string, p string, prefix int) []string {
	p = rooted(p)
	all = append(all, p)
	if !mayBeUnclean(p) {
		return all
	}
	all = appendCleanBelow(append(all, clean(p)), p, prefix)
	if collapsed := collapsed(p); collapsed != p {
		all = append(all, collapsed)
		if strings.Contains(collapsed, "/..") {
			all = appendCleanBelow(all, collapsed, prefix)
		}
	}
	return all
}

// appendCleanBelow appends a path with all of it clean that is behind its first segment, behind its first two, and so on.
func appendCleanBelow(all []string, p string, most int) []string {
	rest := p
	for range most {
		if _, rest = cut(rest); rest == "" {
			break
		}
		all = append(all, p[:len(p)-len(rest)]+clean(rest))
	}
	return all
}

// handedOn returns an escaped path as routers hand it on: as it stands, clean, and each without an extension in front of which a slash is escaped.
func handedOn(escaped string) []string {
	all := []string{escaped}
	if cleaned := clean(escaped); cleaned != escaped {
		all = append(all, cleaned)
	}
	for _, p := range all {
		p = strings.TrimRight(p, slash)
		if dot := extension(p); dot >= 0 && hasEscapedSlash(p[strings.LastIndexByte(p, '/')+1:dot]) {
			all = append(all, p[:dot])
		}
	}
	return all
}

func hasEscapedSlash(p string) bool { return strings.Contains(p, "%2F") || strings.Contains(p, "%2f") }

// decodedBelow returns the path with the part behind its first segment decoded, behind its first two, and so on, if the
// result has a slash more. Its percent signs are escaped, for all segments are to be decoded.
func decodedBelow(p string, most int) []string {
	if !hasEscapedSlash(p) {
		return nil
	}
	var all []string
	prefix, rest := "", rooted(p)
	for range most {
		var segment string
		if segment, rest = cut(rest); rest == "" {
			break
		}
		prefix += slash + segment
		all = append(all, prefix+strings.ReplaceAll(unescape(rest), "%", "%25"))
	}
	return all
}

// escapedDots are the escapes of a dot.
var escapedDots = strings.NewReplacer("%2e", ".", "%2E", ".")

// appendVariants appends a reading and its variants.
func appendVariants(all []Reading, reading Reading) []Reading {
	all = append(all, reading)
	variant := reading
	variant.empty = true
	if strings.HasSuffix(reading.Path, slash) || reading.decode {
		all = append(all, variant)
	}
	variant.alone = true
	p := strings.TrimSuffix(reading.Path, slash)
	if p == "" {
		return all
	}
	if p != reading.Path {
		variant.Path = p
		all = append(all, variant)
	} else {
		variant.slash = true
		all = append(all, variant)
	}
	if dot := extension(p); dot >= 0 {
		variant.Path, variant.literal = p[:dot], true
		for _, variant.slash = range [...]bool{false, true} {
			all = append(all, variant)
		}
	}
	return all
}

// extension returns where the extension of the last segment begins, or -1. It may be the whole segment.
func extension(p string) int {
	dot, last := strings.LastIndexByte(p, '.'), strings.LastIndexByte(p, '/')
	if dot < last {
		return -1
	}
	return dot
}

// Read is a reading with the pattern that it matches.
type Read struct {
	Path    string
	Pattern string // "" for none
}

// Readings returns all readings of the path of a request, each path once.
func (t *Table) Readings(r *http.Request) []Read {
	var all []Read
	roots := t.roots(r)
	for _, reading := range appendReadings(nil, r.URL, t.deepest) {
		read := Read{Path: reading.String()}
		if number := t.matching(roots[:], r, &reading); number != none {
			read.Pattern = t.Pattern(number)
		}
		variant := reading.slash || reading.alone || reading.empty
		if (!variant || read.Pattern != "") && !slices.Contains(all, read) {
			all = append(all, read)
		}
	}
	return all
}

// rooted returns a path with a slash in front.
func rooted(p string) string {
	if strings.HasPrefix(p, slash) {
		return p
	}
	return slash + p
}

// collapsed returns a path with one slash for several.
func collapsed(p string) string {
	p = rooted(p)
	if !strings.Contains(p, "//") {
		return p
	}
	var b strings.Builder
	for i := range len(p) {
		if i == 0 || p[i] != '/' || p[i-1] != '/' {
			b.WriteByte(p[i])
		}
	}
	return b.String()
}

// clean returns a path as net/http wants it: without empty segments and dots.
func clean(p string) string {
	p = rooted(p)
	if !mayBeUnclean(p) {
		return p
	}
	cleaned := path.Clean(p)
	if p[len(p)-1] != '/' || cleaned == slash {
		return cleaned
	}
	return cleaned + slash
}

// mayBeUnclean reports whether a path has two slashes, or a segment that begins with a dot.
func mayBeUnclean(p string) bool {
	for i := 1; i < len(p); i++ {
		if p[i-1] == '/' && (p[i] == '/' || p[i] == '.') {
			return true
		}
	}
	return false
}
