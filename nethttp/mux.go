package ratelimit

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/weir-go/ratelimit/internal/given"
)

// patterns is the part of an [http.ServeMux] that finds the pattern of a request.
type patterns interface {
	Handler(*http.Request) (http.Handler, string)
}

// limitedMux is a limited handler with known patterns: limiters around it know
// them, too.
type limitedMux struct{ *limited }

// Handler returns the pattern that a request is going to match. The handler is this one: a
// request that is given to it is limited.
func (h *limitedMux) Handler(r *http.Request) (http.Handler, string) {
	_, pattern := h.mux.Handler(r)
	return h, pattern
}

// muxMatched tells the key functions the pattern that the mux behind a limiter is going
// to match.
type muxMatched struct {
	mux patterns // nil: the routers in front have matched
	r   *http.Request
}

func (m muxMatched) Route() string { return given.RouteFromPattern(m.pattern()) }

// WholePath tells package policies whether the route stands for the whole path. A router in front may have told its own part.
func (m muxMatched) WholePath() bool { return m.mux != nil }

func (m muxMatched) pattern() string {
	if m.mux == nil {
		return m.r.Pattern
	}
	_, pattern := m.mux.Handler(m.r)
	return pattern
}

func (m muxMatched) PathValue(name string) string {
	if m.mux != nil {
		if value, found := pathValue(m.pattern(), m.r.URL.EscapedPath(), name); found {
			return value
		}
	}
	return m.r.PathValue(name)
}

// pathValue returns the part of an escaped path that a wildcard of a pattern of [http.ServeMux]
// matches, if the pattern has such a wildcard. The mux itself tells that
// only to the handler.
func pathValue(pattern, path, name string) (value string, found bool) {
	_, pattern, _ = strings.Cut(pattern, "/") // the method and the host are in front of it
	path = strings.TrimPrefix(path, "/")
	for pattern != "" {
		var wildcard, segment string
		wildcard, pattern, _ = strings.Cut(pattern, "/")
		if wildcard == "{"+name+"...}" {
			return unescaped(path), true
		}
		segment, path, _ = strings.Cut(path, "/")
		if wildcard == "{"+name+"}" {
			return unescaped(segment), true
		}
	}
	return "", false
}

func unescaped(text string) string {
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	return text
}
