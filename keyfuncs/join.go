package keyfuncs

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-go/ratelimit/internal/given"
)

// Join makes one key of several: Join(RemoteIP, Route) gives each address a limit
// on each route, "ip:203.0.113.9|route:/items/{id}".
//
// A part that is missing ([ErrNoKey], or an empty key) is replaced by
// [Anonymous], so a Join of several never returns ErrNoKey, and that of one function does if it
// has no key. Behind a proxy, Anonymous is the proxy, for all clients alike: use [Or] there
// to name another key in its place. Any other error is returned, wrapped.
//
// Different lists of parts give different keys: in each part, also in an only one, '|' and '\' are escaped by '\'. The
// keys of this package contain neither, except those of Join. Join panics without a function and on a nil one.
func Join(funcs ...Func) Func {
	funcs = checked("Join", funcs)
	return func(r *http.Request) (string, error) {
		var space [128]byte
		joined := space[:0]
		for i, read := range funcs {
			if i > 0 {
				joined = append(joined, '|')
			}
			part, err := read(r)
			switch {
			case missing(part, err) && len(funcs) == 1:
				return "", ErrNoKey
			case missing(part, err):
				part, _ = Anonymous(r)
				joined = append(joined, part...)
			case err != nil:
				return "", fmt.Errorf("keyfuncs: part %d of %d: %w", i+1, len(funcs), err)
			default:
				joined = appendEscaped(joined, part)
			}
		}
		return string(joined), nil
	}
}

// Or takes the first key that the request has: Or(User(id), RemoteIP)
// is the user if there is one, else the address.
//
// If a function returns [ErrNoKey] or an empty key, Or tries the next. If all do,
// it returns ErrNoKey. Any other error ends the search and is returned, wrapped.
// Or panics without a function and on a nil one.
//
// Do not put a key before the address that the client can make up, such as a [Header] that nothing
// has verified: the client makes up another one for each request, and the address never
// counts. Layers, in package guard, limits both.
func Or(funcs ...Func) Func {
	funcs = checked("Or", funcs)
	if len(funcs) == 1 {
		return funcs[0]
	}
	return func(r *http.Request) (string, error) {
		for i, read := range funcs {
			key, err := read(r)
			switch {
			case missing(key, err):
			case err != nil:
				return "", fmt.Errorf("keyfuncs: choice %d of %d: %w", i+1, len(funcs), err)
			default:
				return key, nil
			}
		}
		return "", ErrNoKey
	}
}

func missing(key string, err error) bool {
	return err == nil && key == "" || errors.Is(err, ErrNoKey)
}

// checked returns a copy of funcs, which the caller could otherwise change later. Those of the program are given requests
// with path values.
func checked(caller string, funcs []Func) []Func {
	if len(funcs) == 0 {
		panic("keyfuncs: " + caller + ": no function given")
	}
	for i, f := range funcs {
		if f == nil {
			panic(fmt.Sprintf("keyfuncs: %s: function %d of %d is nil", caller, i+1, len(funcs)))
		}
	}
	funcs = slices.Clone(funcs)
	for i, f := range funcs {
		if given.Is(f) {
			funcs[i] = given.KeyFunc(f, missing)
		}
	}
	return funcs
}

func appendEscaped(buffer []byte, part string) []byte {
	if strings.IndexByte(part, '|') < 0 && strings.IndexByte(part, '\\') < 0 {
		return append(buffer, part...)
	}
	for i := range len(part) {
		if part[i] == '|' || part[i] == '\\' {
			buffer = append(buffer, '\\')
		}
		buffer = append(buffer, part[i])
	}
	return buffer
}
