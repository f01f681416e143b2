package keyfuncs

import (
	"net/http"
	"strings"
)

// Host names requests by the host they ask for: "host:example.com", in lower
// case, without the port and a final dot. A request without a host, as HTTP/1.0
// allows, gives [ErrNoKey].
//
// The client chooses the host. Unless something in front of the limiter refuses
// hosts that are not yours, the client can take a new one for every request.
func Host(r *http.Request) (string, error) {
	host := strings.TrimSuffix(withoutPort(r.Host), ".")
	if host == "" {
		return "", ErrNoKey
	}
	return "host:" + encode(strings.ToLower(host)), nil
}

// withoutPort drops ":8080" from a host that may be an IPv6 address, with
// brackets or, wrongly, without. Brackets around anything else are dropped, as
// net/http drops them with a port.
func withoutPort(host string) string {
	if inside, bracketed := strings.CutPrefix(host, "["); bracketed {
		name, _, closed := strings.Cut(inside, "]")
		switch {
		case !closed:
			return host
		case strings.Contains(name, ":"):
			return "[" + name + "]"
		default:
			return name
		}
	}
	name, _, found := strings.Cut(host, ":")
	if !found || strings.Count(host, ":") > 1 {
		return host
	}
	return name
}

// Method names requests by their method: "method:POST". HEAD counts as GET,
// since it asks for the same work. It never fails.
//
// Methods other than those of RFC 9110 and PATCH share one key,
// "method:(other)": a client may invent methods, and would otherwise have a new
// limit for each.
func Method(r *http.Request) (string, error) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, "": // net/http: empty means GET
		return "method:GET", nil
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return "method:" + r.Method, nil
	default:
		return "method:(other)", nil
	}
}

// Global gives every request the same key, "global": one limit for all clients
// together. It never fails.
func Global(*http.Request) (string, error) {
	return "global", nil
}
