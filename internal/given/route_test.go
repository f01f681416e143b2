package given_test

import (
	"strings"
	"testing"

	"github.com/weir-go/ratelimit/internal/given"
)

func TestRouteFromPattern(t *testing.T) {
	for _, test := range []struct{ pattern, want string }{
		{"GET /items/{id}", "/items/{id}"},
		{"POST /items/{id}", "/items/{id}"},
		{"GET \t /items/{id}", "/items/{id}"},
		{"/items/{id}", "/items/{id}"},
		{"/items", "/items"},
		{"example.com/items", "example.com/items"},
		{"GET example.com/items", "example.com/items"},
		{"GET example.com/", "example.com/{...}"},
		{"example.com/{$}", "example.com/"},
		{"/", "/{...}"},
		{"/{$}", "/"},
		{"/static/", "/static/{...}"},
		{"/static/{$}", "/static/"},
		{"/files/{rest...}", "/files/{rest...}"},
		{"/{a}/{b}/", "/{a}/{b}/{...}"},
		{"/a b/c", "/a b/c"},
		{"", "(unmatched)"},
	} {
		if got := given.RouteFromPattern(test.pattern); got != test.want {
			t.Errorf("%q: route %q, want %q", test.pattern, got, test.want)
		}
	}
}

func TestRouteFromColons(t *testing.T) {
	for _, test := range []struct{ pattern, want string }{
		{"/items/:id", "/items/{id}"},
		{"/items/:id/parts/:part", "/items/{id}/parts/{part}"},
		{"/user/:id/*action", "/user/{id}/{action...}"},
		{"/user/:id/*", "/user/{id}/{...}"},
		{"/*", "/{...}"},
		{"*", "{...}"},
		{"/static*", "/static{...}"},
		{"/a/*/b", "/a/{...}/b"},
		{"/user_:name", "/user_{name}"},
		{"/items", "/items"},
		{"/static/", "/static/"},
		{"/", "/"},
		{`/jobs\:cancel`, "/jobs:cancel"},
		{`/jobs/:id\:x/\:y`, `/jobs/{id\:x}/:y`},
		{`/a\b/:c`, `/a\b/{c}`},
		{"/literal/{id}", "/literal/%7Bid%7D"},
		{"/:a}/{", "/{a%7D}/%7B"},
		{"", "(unmatched)"},
	} {
		if got := given.RouteFromColons(test.pattern); got != test.want {
			t.Errorf("%q: route %q, want %q", test.pattern, got, test.want)
		}
	}
}

func FuzzRoutes(f *testing.F) {
	for _, pattern := range []string{"GET /items/{id}", "/items/:id", "/*", "*", `\:`, "", "/{$}", "/", " ", "a b"} {
		f.Add(pattern)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		if strings.HasPrefix(pattern, "/") {
			for _, route := range []string{given.RouteFromPattern(pattern), given.RouteFromColons(pattern)} {
				if !strings.HasPrefix(route, "/") {
					t.Errorf("pattern %q: route %q does not start with a slash", pattern, route)
				}
			}
		}
		route := given.RouteFromColons(pattern)
		if strings.Count(route, "{") != strings.Count(route, "}") {
			t.Errorf("pattern %q: braces of route %q are not paired", pattern, route)
		}
	})
}
