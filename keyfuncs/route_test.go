package keyfuncs_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/ratelimit/keyfuncs"
)

func TestRouteIsThePatternThatTheMuxMatched(t *testing.T) {
	var got string
	handler := func(_ http.ResponseWriter, r *http.Request) { got = key(t, keyfuncs.Route, r) }
	mux := http.NewServeMux()
	for _, pattern := range []string{"GET /items/{id}", "/{$}", "/static/", "/static/{$}", "/files/{rest...}", "example.com/hosted"} {
		mux.HandleFunc(pattern, handler)
	}
	for _, test := range []struct{ target, want string }{
		{"/items/42", "route:/items/{id}"},
		{"/items/a%2Fb", "route:/items/{id}"},
		{"/", "route:/"},
		{"/static/", "route:/static/"},
		{"/static/x", "route:/static/{...}"},
		{"/files/a/b", "route:/files/{rest...}"},
		{"http://example.com/hosted", "route:example.com/hosted"},
	} {
		got = ""
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, test.target, nil))
		if got != test.want {
			t.Errorf("%s: key %q, want %q", test.target, got, test.want)
		}
	}
}

func TestUnmatchedRequestsShareOneRoute(t *testing.T) {
	for _, target := range []string{"/a", "/A", "/a/", "/%61", "/b"} {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		expectKey(t, keyfuncs.Route, r, "route:(unmatched)")
		expectKey(t, keyfuncs.Route, withMatched(r, router{}), "route:(unmatched)")
	}
}

// router is what a framework's adapter puts into the context.
type router struct {
	route string
	id    string
}

func (m router) Route() string { return m.route }

func (m router) PathValue(name string) string {
	if name == "id" {
		return m.id
	}
	return ""
}

func withMatched(r *http.Request, m keyfuncs.Matched) *http.Request {
	return r.WithContext(keyfuncs.WithMatched(r.Context(), m))
}

func TestMatchedSpeaksInsteadOfTheRequest(t *testing.T) {
	r := request("203.0.113.9:1")
	r.Pattern = "/mounted/"
	r.SetPathValue("id", "outer")
	r.SetPathValue("other", "outer")
	r = withMatched(r, router{route: "/items/{id}", id: "7"})
	expectKey(t, keyfuncs.Route, r, "route:/items/{id}")
	expectKey(t, keyfuncs.PathValue("id"), r, "path:id=7")
	if _, err := keyfuncs.PathValue("other")(r); !errors.Is(err, keyfuncs.ErrNoKey) {
		t.Errorf("error %v, want ErrNoKey", err)
	}
}

func TestANilMatchedChangesNothing(t *testing.T) {
	ctx := context.Background()
	if keyfuncs.WithMatched(ctx, nil) != ctx {
		t.Error("the context changed")
	}
}

func TestLookingForMatchedDoesNotAllocate(t *testing.T) {
	r := withMatched(request("203.0.113.9:1"), router{})
	missing := keyfuncs.PathValue("other")
	if n := testing.AllocsPerRun(100, func() { _, _ = missing(r) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestPathValue(t *testing.T) {
	r := request("203.0.113.9:1")
	r.SetPathValue("id", "a=b|c")
	r.SetPathValue("a=b", "c")
	r.SetPathValue("a", "b=c")
	expectKey(t, keyfuncs.PathValue("id"), r, "path:id=a=b%7Cc")
	expectKey(t, keyfuncs.PathValue("a=b"), r, "path:a%3Db=c")
	expectKey(t, keyfuncs.PathValue("a"), r, "path:a=b=c")
	if _, err := keyfuncs.PathValue("none")(r); !errors.Is(err, keyfuncs.ErrNoKey) {
		t.Errorf("error %v, want ErrNoKey", err)
	}
	expectPanic(t, func() { keyfuncs.PathValue("") }, "PathValue")
}
