package accesslog

import (
	"net/url"
	"strings"
	"unsafe"
)

// Request is a copy of a Record that stays valid.
type Request struct {
	Method, Host, Path string
	Address            string
	Header             []Text
	Values             []string
	Status             int
}

// Text is a field of a request's header.
type Text struct{ Name, Value string }

// Request returns a copy of the record, which has to have its details. The copy stays valid.
func (r *Record) Request() *Request {
	// One string for all is one allocation.
	space := make([]byte, 0, 256)
	for _, text := range [...][]byte{r.Method, r.Host, r.Path, r.Address} {
		space = append(space, text...)
	}
	for i := range r.Header {
		space = append(space, r.Header[i].Value...)
	}
	for _, value := range r.Values {
		space = append(space, value...)
	}
	rest := string(space)
	cut := func(text []byte) (same string) {
		same, rest = rest[:len(text)], rest[len(text):]
		return same
	}
	kept := &Request{Method: cut(r.Method), Host: cut(r.Host), Path: cut(r.Path), Address: cut(r.Address), Status: r.Status}
	if len(r.Header) > 0 {
		kept.Header = make([]Text, len(r.Header))
		for i := range r.Header {
			kept.Header[i] = Text{r.Header[i].Name, cut(r.Header[i].Value)}
		}
	}
	if len(r.Values) > 0 {
		kept.Values = make([]string, len(r.Values))
		for i, value := range r.Values {
			kept.Values[i] = cut(value)
		}
	}
	return kept
}

// Size returns about how many bytes the request takes.
func (r *Request) Size() int {
	size := int(unsafe.Sizeof(*r)) + len(r.Method) + len(r.Host) + len(r.Path) + len(r.Address)
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
