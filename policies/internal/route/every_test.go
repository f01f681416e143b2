//go:build !race

// Each pattern meets each path, in one goroutine: make test runs it without the race detector, which takes five times as long.

package route

import (
	"net/http"
	"net/url"
	"slices"
	"testing"
)

// Each pattern of a few segments matches the paths that it matches in net/http, and no other.
func TestEachPatternMatchesWhatItMatchesInNetHTTP(t *testing.T) {
	var paths []string
	for _, path := range combined([]string{"/a", "/c d", "/c%20d", "/%2F", "/%61", "/b%2Fc", "/...%7D", "/"}, 3) {
		if u, err := url.ParseRequestURI(path); err == nil && clean(u.EscapedPath()) == u.EscapedPath() {
			paths = append(paths, path)
		}
	}
	for _, pattern := range combined([]string{"/a", "/c d", "/c%20d", "/%2F", "/b%2Fc", "/{x}", "/{y...}", "/...}", "/", "/{$}"}, 3) {
		var table Table
		if _, err := table.Add(pattern); err != nil {
			continue
		}
		mux := http.NewServeMux()
		mux.Handle(pattern, http.NotFoundHandler())
		for _, path := range paths {
			u, err := url.ParseRequestURI(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
				r := &http.Request{Method: method, Host: "a.test", URL: u}
				handler, want := mux.Handler(r)
				if _, ours := handler.(http.HandlerFunc); want != "" && !ours { // it redirects to the path with a slash
					want = ""
				}
				if got := find(&table, r); got != want {
					t.Fatalf("%q, %s %q: %q, want %q", pattern, method, path, got, want)
				}
			}
		}
	}
}

// combined returns all texts of one to n parts.
func combined(parts []string, n int) []string {
	all := slices.Clone(parts)
	for last := parts; n > 1; n-- {
		var longer []string
		for _, text := range last {
			for _, part := range parts {
				longer = append(longer, text+part)
			}
		}
		last = longer
		all = append(all, longer...)
	}
	return all
}
