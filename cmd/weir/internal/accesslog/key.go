package accesslog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

type keyKind uint8

const (
	addressKey keyKind = iota
	headerKey
	fieldKey
)

// Key says how a line names the client of a request. The zero value is the client's address, as the server logged it; IPv6 counts by /64,
// as in package keyfuncs.
type Key struct {
	kind keyKind
	name string
}

// ParseKey reads "ip", "header:X-API-Key" or "json:.user.id".
func ParseKey(text string) (Key, error) {
	kind, name, named := strings.Cut(text, ":")
	switch {
	case text == "ip":
		return Key{}, nil
	case kind == "header" && named && name != "":
		return Key{headerKey, http.CanonicalHeaderKey(name)}, nil
	case kind == "json" && len(name) > 1 && name[0] == '.':
		return Key{fieldKey, name}, nil
	}
	return Key{}, fmt.Errorf("unknown key %q: want ip, header:Name or json:.path", text)
}

// String returns the text that ParseKey reads.
func (k Key) String() string {
	switch k.kind {
	case headerKey:
		return "header:" + k.name
	case fieldKey:
		return "json:" + k.name
	case addressKey:
	}
	return "ip"
}

// Header returns the name of the header that is the key, or "".
func (k Key) Header() string {
	if k.kind == headerKey {
		return k.name
	}
	return ""
}

// A column is a field of a line that is no JSON.
type column uint8

const (
	addressColumn column = iota
	refererColumn
	agentColumn
	forwardedColumn
)

func (k Key) column() (column, error) {
	switch k.Header() {
	case "":
		return addressColumn, nil
	case "Referer":
		return refererColumn, nil
	case "User-Agent":
		return agentColumn, nil
	case "X-Forwarded-For":
		return forwardedColumn, nil
	}
	return 0, fmt.Errorf("%w: %s: of headers it has Referer, User-Agent and, as in nginx' example, X-Forwarded-For; "+
		"for others have the server write JSON lines", ErrKey, k)
}

// nearest returns the last address of an X-Forwarded-For field: the one that the nearest proxy saw, which no client can forge.
func nearest(field []byte) []byte {
	if i := bytes.LastIndexByte(field, ','); i >= 0 {
		field = field[i+1:]
	}
	return bytes.TrimSpace(field)
}

// present returns the value of a field that is logged as "-" where there is none.
func present(field []byte) []byte {
	if len(field) == 1 && field[0] == '-' {
		return nil
	}
	return field
}

// setKey makes a value the record's key.
func (r *Record) setKey(value []byte, address bool) error {
	if address {
		value = subscriber(value)
	}
	if value = present(value); len(value) == 0 {
		return ErrNoKey
	}
	r.Key = Shorten(value)
	return nil
}

// LongestKey is the length of the longest key that is kept whole, in bytes.
const LongestKey = 256

// Shorten returns the key itself, or, if it is longer than LongestKey, its begin and a hash of the whole.
func Shorten(key []byte) []byte {
	if len(key) <= LongestKey {
		return key
	}
	const begin = 64
	sum := sha256.Sum256(key)
	short := append(make([]byte, 0, LongestKey), key[:begin]...)
	return hex.AppendEncode(append(short, "… #"...), sum[:])
}

// subscriber returns an address as it counts: whole, or the /64 of an IPv6 one. Any other text stays as it is.
func subscriber(text []byte) []byte {
	if bytes.IndexByte(text, ':') < 0 {
		return text
	}
	if text[0] == '[' { // an address with a port
		if end := bytes.IndexByte(text, ']'); end > 0 {
			text = text[1:end]
		}
	} else if bytes.Count(text, []byte(":")) == 1 {
		return text[:bytes.IndexByte(text, ':')]
	}
	address, err := netip.ParseAddr(string(text))
	if err != nil {
		return text
	}
	if address = address.Unmap().WithZone(""); address.Is4() {
		return address.AppendTo(nil)
	}
	prefix, _ := address.Prefix(64)
	return prefix.AppendTo(nil)
}

// addressOf returns an address as it counts, or nil if the text is none.
func addressOf(text []byte) []byte {
	const longest = 64
	if len(text) == 0 || len(text) > longest {
		return nil
	}
	counts := subscriber(text)
	bare, _, _ := bytes.Cut(counts, []byte("/"))
	if _, err := netip.ParseAddr(string(bare)); err != nil {
		return nil
	}
	return counts
}
