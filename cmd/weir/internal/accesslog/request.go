package accesslog

import (
	"bytes"
	"hash/maphash"
	"net"
	"net/url"
	"slices"
	"strings"
	"unsafe"
)

// Request is a copy of a Record that stays valid.
type Request struct {
	Method, Host, Path string
	// Peer is the client's address as net/http has it, with a port.
	Peer   string
	Header []Text
	Values []string
	Status int
}

// Text is a field of a request's header.
type Text struct{ Name, Value string }

// A Copier copies records. Requests that it makes one after the other lie in the same pieces of memory, so that a line takes few
// allocations: a piece is free when the last of its requests is. A Copier must not be used concurrently. The zero value is ready for use.
type Copier struct {
	texts    strings.Builder
	requests []Request
	fields   []Text
	values   []string
	known    [mostKnown]string // values of header fields, at the remainders of their hashes
}

const (
	// copiedAtOnce is how many requests lie in one piece, and textsAtOnce how many bytes of their texts.
	copiedAtOnce, textsAtOnce = 32, 4 << 10
	// mostKnown is how many values of header fields a Copier remembers, and longestKnown is the length of the longest one.
	mostKnown, longestKnown = 1024, 256
)

// seed is that of the hashes of known values.
var seed = maphash.MakeSeed()

// Copy returns a copy of a record, which has to have its details.
func (c *Copier) Copy(r *Record) *Request {
	if len(c.requests) == cap(c.requests) {
		c.requests = make([]Request, 0, copiedAtOnce)
	}
	c.requests = append(c.requests, Request{
		Method: c.text(r.Method, ""), Host: c.text(r.Host, ""), Path: c.text(r.Path, ""), Peer: c.peer(r.Address), Status: r.Status,
	})
	made := &c.requests[len(c.requests)-1]
	if n := len(r.Header); n > 0 {
		c.fields = room(c.fields, n)
		for i := range r.Header {
			c.fields = append(c.fields, Text{r.Header[i].Name, c.field(r.Header[i].Value)})
		}
		made.Header = slices.Clip(c.fields[len(c.fields)-n:])
	}
	if n := len(r.Values); n > 0 {
		c.values = room(c.values, n)
		for _, value := range r.Values {
			c.values = append(c.values, c.text(value, ""))
		}
		made.Values = slices.Clip(c.values[len(c.values)-n:])
	}
	return made
}

// room returns a slice to which n more elements can be appended without moving those that it has: itself, or a new one.
func room[T any](of []T, n int) []T {
	if cap(of)-len(of) >= n {
		return of
	}
	return make([]T, 0, max(copiedAtOnce, n))
}

// text returns a copy of a text, with an end behind it.
func (c *Copier) text(text []byte, end string) string {
	if n := len(text) + len(end); c.texts.Cap()-c.texts.Len() < n {
		c.texts.Reset()
		c.texts.Grow(max(textsAtOnce, n))
	}
	from := c.texts.Len()
	_, _ = c.texts.Write(text) // a Builder never fails
	_, _ = c.texts.WriteString(end)
	return c.texts.String()[from:]
}

// field returns a copy of the value of a field. Many lines have the same ones.
func (c *Copier) field(value []byte) string {
	if len(value) > longestKnown {
		return c.text(value, "")
	}
	known := &c.known[maphash.Bytes(seed, value)%mostKnown]
	if *known != string(value) {
		*known = string(value) // in memory of its own, since it may stay for long
	}
	return *known
}

// peer returns an address as net/http has it, with a port.
func (c *Copier) peer(address []byte) string {
	if bytes.IndexByte(address, ':') < 0 {
		if n := len(address); n > 0 && (isBracket(address[0]) || isBracket(address[n-1])) {
			address = bytes.Trim(address, "[]")
		}
		return c.text(address, ":1")
	}
	text := c.text(address, "")
	if _, _, err := net.SplitHostPort(text); err == nil {
		return text
	}
	return net.JoinHostPort(strings.Trim(text, "[]"), "1")
}

func isBracket(c byte) bool { return c == '[' || c == ']' }

// Size returns about how many bytes the request takes.
func (r *Request) Size() int {
	size := int(unsafe.Sizeof(*r)) + len(r.Method) + len(r.Host) + len(r.Path) + len(r.Peer)
	for i := range r.Header {
		size += int(unsafe.Sizeof(r.Header[i])) + len(r.Header[i].Value)
	}
	for _, value := range r.Values {
		size += int(unsafe.Sizeof(value)) + len(value)
	}
	return size
}

// Target returns the URL of a logged path, or false if that is no path: if it does not begin with a slash, like that of "OPTIONS *" or
// CONNECT, or has a wrong escape.
func Target(path string) (url.URL, bool) {
	switch {
	case !strings.HasPrefix(path, "/"):
		return url.URL{}, false
	case strings.IndexByte(path, '%') < 0:
		return url.URL{Path: path}, true
	}
	decoded, err := url.PathUnescape(path)
	return url.URL{Path: decoded, RawPath: path}, err == nil
}
